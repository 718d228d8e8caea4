//! Admission, in the order of STORE section 2.

use super::group::{Level, Tally};
use super::list::RecordId;
use super::table::{ClaimId, State};
use super::{SWEEP_PER_BEGIN, Shard};
use crate::claim::counts::{Full, Room};
use crate::claim::protocol::{CallId, Outcome, ShardDecision, ShardId};
use crate::claim::shared::{Home, bound_of_others};
use crate::claim::{Begin, CapacityLimit, CompletionSeq, Fence, TombstoneReason};

/// What a begin finds on its slot.
pub(super) enum Found {
    /// A record that answers it, which needs no room and no quota.
    Answer(Outcome),
    /// A tombstone of an unknown outcome that it may take again.
    Unknown(RecordId, ClaimId),
    /// Nothing.
    Free,
}

/// Where a begin stands after it was looked at.
pub(super) enum Admission {
    /// Decided.
    Answer(Outcome),
    /// Only the coordinator can find room for it.
    Wait,
}

/// What came of taking the place of the shard's oldest completed record.
pub(super) enum Taken {
    Room(Room),
    InFlightFull,
    NotTheOldest,
}

impl Shard {
    pub(super) fn on_begin(
        &mut self,
        call: CallId,
        begin: Begin,
        home: &mut impl Home,
        out: &mut Vec<ShardDecision>,
    ) {
        let found = self.look(&begin, home);
        if let Found::Answer(outcome) = found {
            out.push(ShardDecision::Begun { call, outcome });
            return;
        }
        if self.queue_behind_waiter(call, &begin, out) {
            return;
        }
        match self.decide(found, &begin, home) {
            Admission::Answer(outcome) => out.push(ShardDecision::Begun { call, outcome }),
            Admission::Wait => self.wait(call, begin, home, out),
        }
    }

    /// What a begin finds on its slot.
    pub(super) fn look(&mut self, begin: &Begin, home: &mut impl Home) -> Found {
        let Some(id) = self.table.find(&begin.slot) else {
            return Found::Free;
        };
        let record = self.table.record(id);
        if record.is_due(self.now) {
            self.sweep(id, home);
            return Found::Free;
        }
        let claim = self.table.claim(record);
        let completed = matches!(record.state, State::Completed { .. });
        if let Some(refused) = claim.refuses(begin, completed) {
            return Found::Answer(refused);
        }
        Found::Answer(match &record.state {
            State::InFlight { .. } => Outcome::InFlight,
            State::Completed { completion, .. } => Outcome::Replay(completion.reply.clone()),
            State::Tombstone { claim: open, reason: TombstoneReason::Unknown, .. }
                if begin.dispatch.redispatch =>
            {
                if claim.goes_where(begin) {
                    return Found::Unknown(id, *open);
                }
                Outcome::OtherRoute
            }
            State::Tombstone { reason, .. } => Outcome::Tombstone(*reason),
        })
    }

    /// Decides a begin that no standing record answers.
    pub(super) fn decide(
        &mut self,
        found: Found,
        begin: &Begin,
        home: &mut impl Home,
    ) -> Admission {
        match found {
            Found::Answer(outcome) => Admission::Answer(outcome),
            Found::Free => self.admit(begin, home),
            Found::Unknown(id, claim) => {
                Admission::Answer(self.redispatch((id, claim), begin, home))
            }
        }
    }

    /// A tombstone is in flight again: its record stays, and what it held of its scope's tombstones
    /// is what it reserves from now on. So only the caps in flight can refuse it.
    fn redispatch(
        &mut self,
        (id, claim): (RecordId, ClaimId),
        begin: &Begin,
        home: &mut impl Home,
    ) -> Outcome {
        let tallies = self.table.tallies_of(begin);
        if let Some(limit) = self.in_flight_full(tallies, home) {
            return Outcome::Capacity(limit);
        }
        if home.redispatch().is_err() {
            return Outcome::Capacity(CapacityLimit::StoreInFlight);
        }
        let fence = self.next_fence();
        let before = self.table.redispatch(id, claim, fence);
        debug_assert!(self.is_within_caps(begin), "P2: {begin:?} raised a count above its cap");
        Outcome::Redispatched { fence, before }
    }

    /// Steps 2 to 4 for a begin on a free slot. Refused, it has changed nothing but swept what had
    /// expired.
    pub(super) fn admit(&mut self, begin: &Begin, home: &mut impl Home) -> Admission {
        self.sweep_due(SWEEP_PER_BEGIN, home);
        let tallies = self.table.tallies_of(begin);
        let refused = self
            .in_flight_full(tallies, home)
            .or_else(|| self.tombstones_full(tallies[0], begin, home));
        if let Some(limit) = refused {
            return Admission::Answer(Outcome::Capacity(limit));
        }
        let quotas = [
            (Level::Scope, self.limits.scope_entries, CapacityLimit::ScopeEntries),
            (Level::Principal, self.limits.principal_entries, CapacityLimit::PrincipalEntries),
        ];
        // Counts may have sunk since they were read, never risen.
        if quotas.iter().zip(tallies).all(|((_, cap, _), tally)| tally.records < *cap) {
            return self.enter_store(begin, home);
        }
        for (level, cap, limit) in quotas {
            if self.table.tally(level, begin).records >= cap && !self.sweep_one(level, begin, home)
            {
                return Admission::Answer(self.evict_within(level, limit, begin, home));
            }
        }
        self.enter_store(begin, home)
    }

    /// Step 2. Records in flight never expire: there is nothing to sweep.
    fn in_flight_full(
        &self,
        [scope, principal]: [Tally; 2],
        home: &impl Home,
    ) -> Option<CapacityLimit> {
        let limits = &self.limits;
        if scope.in_flight >= limits.scope_in_flight {
            Some(CapacityLimit::ScopeInFlight)
        } else if principal.in_flight >= limits.principal_in_flight {
            Some(CapacityLimit::PrincipalInFlight)
        } else if home.counts().in_flight >= limits.in_flight {
            Some(CapacityLimit::StoreInFlight)
        } else {
            None
        }
    }

    /// Step 3. Each record in flight reserves one tombstone of its scope. The sum never exceeds the
    /// cap, so one expired tombstone makes room.
    fn tombstones_full(
        &mut self,
        tally: Tally,
        begin: &Begin,
        home: &mut impl Home,
    ) -> Option<CapacityLimit> {
        if tally.tombstones + tally.in_flight < self.limits.scope_tombstones {
            return None;
        }
        match self.table.due_tombstone(Level::Scope, begin, self.now) {
            Some(id) => {
                self.sweep(id, home);
                None
            }
            None => Some(CapacityLimit::ScopeTombstones),
        }
    }

    /// Step 4 at a scope or principal that is full of records that have not expired.
    fn evict_within(
        &mut self,
        level: Level,
        limit: CapacityLimit,
        begin: &Begin,
        home: &mut impl Home,
    ) -> Outcome {
        let Some(victim) = self.table.oldest(level, begin) else {
            return Outcome::Capacity(limit);
        };
        self.hide(victim, home);
        if home.evict().is_err() {
            self.show(victim, home);
            return Outcome::Capacity(CapacityLimit::StoreInFlight);
        }
        self.table.remove(victim);
        Outcome::First(self.start(begin))
    }

    /// Step 4 at the store. What is due in other shards is looked for before the counts are read,
    /// so that the refusal rests on one reading after nothing was due.
    fn enter_store(&mut self, begin: &Begin, home: &mut impl Home) -> Admission {
        loop {
            let due_elsewhere = self.due_elsewhere(home);
            let completed = match home.start() {
                Ok(()) => return Admission::Answer(Outcome::First(self.start(begin))),
                Err(Full::InFlight) => return capacity(CapacityLimit::StoreInFlight),
                Err(Full::Entries { completed }) => completed,
            };
            if self.sweep_due(SWEEP_PER_BEGIN, home) > 0 {
                continue;
            }
            if due_elsewhere {
                return Admission::Wait;
            }
            if completed == 0 {
                return capacity(CapacityLimit::StoreEntries);
            }
            let bound = bound_of_others(home, home.shard());
            return match self.take_oldest(bound, home) {
                Taken::Room(_) => Admission::Answer(Outcome::First(self.start(begin))),
                Taken::InFlightFull => capacity(CapacityLimit::StoreInFlight),
                Taken::NotTheOldest => Admission::Wait,
            };
        }
    }

    fn due_elsewhere(&self, home: &impl Home) -> bool {
        (0..home.shards())
            .map(ShardId)
            .any(|shard| shard != home.shard() && home.next_expiry(shard) <= self.now)
    }

    /// Takes a permit for a record in flight, in the place of this shard's oldest completed record
    /// if its number is at most `bound`. Equality counts: numbers are unique, so a bound that
    /// equals this one belongs to no other record, and to refuse it could be to refuse for ever.
    pub(super) fn take_oldest(&mut self, bound: CompletionSeq, home: &mut impl Home) -> Taken {
        let Some((victim, seq)) = self.table.shard_oldest() else {
            return Taken::NotTheOldest;
        };
        if seq > bound {
            return Taken::NotTheOldest;
        }
        self.hide(victim, home);
        match home.start_or_evict() {
            Ok(Room::Evicted) => {
                self.table.remove(victim);
                Taken::Room(Room::Evicted)
            }
            Ok(Room::Free) => {
                self.show(victim, home);
                Taken::Room(Room::Free)
            }
            Err(_) => {
                self.show(victim, home);
                Taken::InFlightFull
            }
        }
    }

    /// Writes the record of a begin that has its permit.
    pub(super) fn start(&mut self, begin: &Begin) -> Fence {
        let fence = self.next_fence();
        self.table.insert(begin, fence);
        debug_assert!(self.is_within_caps(begin), "P2: {begin:?} raised a count above its cap");
        fence
    }

    fn next_fence(&mut self) -> Fence {
        let fence = Fence(self.next_fence);
        self.next_fence += 1;
        fence
    }

    fn is_within_caps(&self, begin: &Begin) -> bool {
        let limits = &self.limits;
        let [scope, principal] = self.table.tallies_of(begin);
        scope.records <= limits.scope_entries
            && scope.in_flight <= limits.scope_in_flight
            && scope.tombstones + scope.in_flight <= limits.scope_tombstones
            && principal.records <= limits.principal_entries
            && principal.in_flight <= limits.principal_in_flight
    }
}

fn capacity(limit: CapacityLimit) -> Admission {
    Admission::Answer(Outcome::Capacity(limit))
}
