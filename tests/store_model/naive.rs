//! The sequential model, as naive as it can be: a list of records, recounted for every question.
//! It follows the wording of STORE section 2 and shares no code with the machines.

use onceward::claim::protocol::Outcome;
use onceward::claim::{
    Begin, CapacityLimit, Dispatch, DispatchHash, Limits, Pin, PrincipalId, RequestHash, ScopeId,
    SlotKey, TombstoneReason,
};

/// The limits as plain numbers.
#[derive(Debug, Clone, Copy)]
pub struct Naive {
    pub limits: Limits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    InFlight,
    Completed {
        order: u64,
        expires: u64,
    },
    Tombstone {
        unknown: bool,
        expires: u64,
    },
    /// The permit of a record whose shard died: it counts for ever.
    Lost {
        in_flight: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record {
    pub begin: Begin,
    /// Which claim wrote it; also what its reply says.
    pub claim: u64,
    /// Whether that claim came by a redispatch.
    pub again: bool,
    pub state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    First {
        evicted: Option<SlotKey>,
    },
    /// The slot of an unknown outcome is taken again; of this claim.
    Redispatched {
        before: u64,
    },
    Replay {
        claim: u64,
    },
    Conflict,
    OtherRoute,
    InFlight,
    Tombstone {
        unknown: bool,
    },
    Capacity(CapacityLimit),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    Complete,
    Unknown,
    NotReplayable,
    Release,
}

impl Record {
    pub fn stands(&self, now: u64) -> bool {
        match self.state {
            State::InFlight | State::Lost { .. } => true,
            State::Completed { expires, .. } | State::Tombstone { expires, .. } => now < expires,
        }
    }

    fn order(&self) -> Option<u64> {
        match self.state {
            State::Completed { order, .. } => Some(order),
            _ => None,
        }
    }

    fn in_flight(&self) -> bool {
        matches!(self.state, State::InFlight | State::Lost { in_flight: true })
    }

    fn tombstone(&self) -> bool {
        matches!(self.state, State::Tombstone { .. })
    }
}

impl Naive {
    /// Decides a begin; if it is the first, writes its record as claim `claim`.
    pub fn begin(&self, records: &mut Vec<Record>, now: u64, begin: &Begin, claim: u64) -> Answer {
        if let Some(at) = records.iter().position(|r| r.stands(now) && r.begin.slot == begin.slot) {
            return self.held(records, at, now, begin, claim);
        }
        let standing: Vec<&Record> = records.iter().filter(|r| r.stands(now)).collect();
        let answer = self.admit(&standing, begin);
        if let Answer::First { evicted } = answer {
            records.retain(|r| Some(r.begin.slot) != evicted && r.begin.slot != begin.slot);
            let state = State::InFlight;
            records.push(Record { begin: *begin, claim, again: false, state });
        }
        answer
    }

    fn admit(&self, standing: &[&Record], begin: &Begin) -> Answer {
        if let Some(limit) = self.in_flight_full(standing, begin) {
            return Answer::Capacity(limit);
        }
        let l = &self.limits;
        let of_scope: Vec<_> =
            standing.iter().filter(|r| r.begin.scope == begin.scope).copied().collect();
        let of_principal: Vec<_> =
            standing.iter().filter(|r| r.begin.principal == begin.principal).copied().collect();
        let tombs = of_scope.iter().filter(|r| r.tombstone()).count() as u32;
        let reserved = of_scope.iter().filter(|r| r.in_flight()).count() as u32;
        if tombs + reserved >= l.scope_tombstones {
            return Answer::Capacity(CapacityLimit::ScopeTombstones);
        }
        for (records, cap, limit) in [
            (&of_scope[..], l.scope_entries, CapacityLimit::ScopeEntries),
            (&of_principal[..], l.principal_entries, CapacityLimit::PrincipalEntries),
            (standing, l.entries, CapacityLimit::StoreEntries),
        ] {
            if records.len() as u32 >= cap {
                let oldest =
                    records.iter().filter(|r| r.order().is_some()).min_by_key(|r| r.order());
                return match oldest {
                    Some(record) => Answer::First { evicted: Some(record.begin.slot) },
                    None => Answer::Capacity(limit),
                };
            }
        }
        Answer::First { evicted: None }
    }

    /// Step 2.
    fn in_flight_full(&self, standing: &[&Record], begin: &Begin) -> Option<CapacityLimit> {
        let flying: Vec<_> = standing.iter().filter(|r| r.in_flight()).collect();
        let of_scope = flying.iter().filter(|r| r.begin.scope == begin.scope).count() as u32;
        let of_principal =
            flying.iter().filter(|r| r.begin.principal == begin.principal).count() as u32;
        if of_scope >= self.limits.scope_in_flight {
            Some(CapacityLimit::ScopeInFlight)
        } else if of_principal >= self.limits.principal_in_flight {
            Some(CapacityLimit::PrincipalInFlight)
        } else if flying.len() as u32 >= self.limits.in_flight {
            Some(CapacityLimit::StoreInFlight)
        } else {
            None
        }
    }

    /// A begin on a slot whose record stands.
    fn held(
        &self,
        records: &mut [Record],
        at: usize,
        now: u64,
        begin: &Begin,
        claim: u64,
    ) -> Answer {
        let record = &records[at];
        if record.begin.hash != begin.hash {
            return Answer::Conflict;
        }
        let Dispatch { hash, pin, redispatch } = begin.dispatch;
        let elsewhere = record.begin.dispatch.hash != hash;
        let completed = matches!(record.state, State::Completed { .. });
        if elsewhere && (pin == Pin::Always || pin == Pin::Open && !completed) {
            return Answer::OtherRoute;
        }
        match record.state {
            State::InFlight | State::Lost { .. } => Answer::InFlight,
            State::Completed { .. } => Answer::Replay { claim: record.claim },
            State::Tombstone { unknown: true, .. } if redispatch && elsewhere => Answer::OtherRoute,
            State::Tombstone { unknown: true, .. } if redispatch => {
                let standing: Vec<&Record> = records.iter().filter(|r| r.stands(now)).collect();
                if let Some(limit) = self.in_flight_full(&standing, begin) {
                    return Answer::Capacity(limit);
                }
                let before = records[at].claim;
                records[at] = Record { begin: *begin, claim, again: true, state: State::InFlight };
                Answer::Redispatched { before }
            }
            State::Tombstone { unknown, .. } => Answer::Tombstone { unknown },
        }
    }

    /// Settles a claim and says whether it was still open.
    pub fn settle(
        &self,
        records: &mut Vec<Record>,
        now: u64,
        claim: u64,
        end: End,
        order: u64,
    ) -> bool {
        let Some(at) = records.iter().position(|r| r.claim == claim && r.state == State::InFlight)
        else {
            return false;
        };
        let tombstone = now + self.limits.tombstone_ttl.0;
        match end {
            End::Complete => {
                records[at].state = State::Completed { order, expires: now + self.limits.ttl.0 };
            }
            End::Unknown => {
                records[at].state = State::Tombstone { unknown: true, expires: tombstone };
            }
            End::Release if records[at].again => {
                records[at].state = State::Tombstone { unknown: true, expires: tombstone };
            }
            End::NotReplayable => {
                records[at].state = State::Tombstone { unknown: false, expires: tombstone };
            }
            End::Release => {
                records.remove(at);
            }
        }
        true
    }
}

/// Whether a machine's outcome is what the model answered.
pub fn agrees(outcome: &Outcome, answer: Answer) -> bool {
    match (outcome, answer) {
        (Outcome::First(_), Answer::First { .. })
        | (Outcome::Redispatched { .. }, Answer::Redispatched { .. })
        | (Outcome::Conflict, Answer::Conflict)
        | (Outcome::OtherRoute, Answer::OtherRoute)
        | (Outcome::InFlight, Answer::InFlight) => true,
        (Outcome::Replay(reply), Answer::Replay { claim }) => {
            reply.body().as_ref() == claim.to_be_bytes()
        }
        (Outcome::Tombstone(reason), Answer::Tombstone { unknown }) => {
            (*reason == TombstoneReason::Unknown) == unknown
        }
        (Outcome::Capacity(limit), Answer::Capacity(expected)) => *limit == expected,
        _ => false,
    }
}

/// How the slots are spread: so many per scope, so many scopes per principal.
pub const SLOTS_PER_SCOPE: u8 = 4;
pub const SCOPES_PER_PRINCIPAL: u8 = 2;

/// The begin on slot number `slot` with request number `hash`.
pub fn begin_on(slot: u8, hash: u8) -> Begin {
    let scope = slot / SLOTS_PER_SCOPE;
    Begin {
        slot: SlotKey::from_bytes(digest(slot)),
        scope: ScopeId::from_bytes(digest(scope)),
        principal: PrincipalId::from_bytes(digest(scope / SCOPES_PER_PRINCIPAL)),
        hash: RequestHash::from_bytes(digest(hash)),
        dispatch: Dispatch::UNDECLARED,
    }
}

/// The dispatch of a call that goes to place number `route`.
pub const fn to(route: u8, pin: Pin, redispatch: bool) -> Dispatch {
    Dispatch { hash: Some(DispatchHash::from_bytes([route; 32])), pin, redispatch }
}

/// A digest spread over its first eight bytes, as those of SHA-256 are.
fn digest(number: u8) -> [u8; 32] {
    let mut bytes = [number; 32];
    let spread = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bytes[..8].copy_from_slice(&spread.to_le_bytes());
    bytes
}
