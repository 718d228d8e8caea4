//! What one operation may do, by the sequential model.

use onceward::claim::{Begin, Limits};

use crate::history::{Answer, Call, Operation, Told};
use crate::naive::{self, End, Naive, Record, begin_on};

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct State {
    /// In the order of their claims.
    records: Vec<Record>,
    /// The number of the next completion.
    order: u64,
    /// Claims won by begins that were given up, with when: each is released sooner or later.
    unclaimed: Vec<(u64, (u64, u64))>,
}

pub struct Spec {
    naive: Naive,
}

impl Spec {
    pub fn new(limits: Limits) -> Self {
        Self { naive: Naive { limits } }
    }

    /// The states that an operation may lead to with the answer that it had.
    ///
    /// The one relaxation of the store is here: its clock may be any instant of its interval, and
    /// what expired in that interval may still have counted for a begin, each record by itself.
    pub fn after(&self, state: &State, operation: &Operation) -> Vec<State> {
        match operation.call {
            Call::Begin { slot, hash, dispatch } => {
                let begin = Begin { dispatch, ..begin_on(slot, hash) };
                self.after_begin(state, operation, &begin)
            }
            Call::Settle { claim, end } => self.after_settle(state, operation, claim, end),
        }
    }

    fn after_begin(&self, state: &State, operation: &Operation, begin: &Begin) -> Vec<State> {
        let (from, to) = operation.clock;
        let open: Vec<_> = state
            .records
            .iter()
            .filter(|record| record.stands(from) && !record.stands(to))
            .map(|record| record.claim)
            .collect();
        let mut next: Vec<State> = Vec::new();
        for choice in 0..1u32 << open.len() {
            let counts = |record: &Record| {
                let place = open.iter().position(|claim| *claim == record.claim);
                place.is_none_or(|place| choice >> place & 1 == 1)
            };
            let (mut records, gone): (Vec<_>, Vec<_>) =
                state.records.iter().cloned().partition(counts);
            let answer = self.naive.begin(&mut records, from, begin, operation.number);
            let told = told(answer);
            let given_up = operation.answer == Answer::None;
            if !given_up && operation.answer != Answer::Begun(told) {
                continue;
            }
            let mut after = State { records, ..state.clone() };
            if told == Told::First {
                let taken: Vec<_> = after.records.iter().map(|r| r.begin.slot).collect();
                let left = gone.into_iter().filter(|r| !taken.contains(&r.begin.slot));
                after.records.extend(left);
                after.records.sort_unstable_by_key(|record| record.claim);
                if given_up {
                    after.unclaimed.push((operation.number, operation.clock));
                }
            } else {
                after.records.clone_from(&state.records);
            }
            if !next.contains(&after) {
                next.push(after);
            }
        }
        next
    }

    fn after_settle(
        &self,
        state: &State,
        operation: &Operation,
        claim: u64,
        end: End,
    ) -> Vec<State> {
        let (from, to) = operation.clock;
        let mut next = Vec::new();
        for instant in from..=to {
            let mut after = state.clone();
            let done = self.naive.settle(&mut after.records, instant, claim, end, state.order);
            after.order += u64::from(done && end == End::Complete);
            let as_told = match operation.answer {
                Answer::Settled(told) => told == done,
                _ => done,
            };
            if as_told {
                next.push(after.clone());
            }
            // When a record went, nothing tells any more.
            if !done || after.records.iter().all(|record| record.claim != claim) {
                break;
            }
        }
        next
    }

    /// The states that the release of a claim nobody took may lead to.
    pub fn after_release(&self, state: &State) -> Vec<State> {
        let mut next = Vec::new();
        for (claim, (from, to)) in &state.unclaimed {
            let claimed = state.records.iter().find(|record| record.claim == *claim);
            // A redispatch leaves a tombstone, which stands from then on.
            let until = if claimed.is_some_and(|record| record.again) { *to } else { *from };
            for instant in *from..=until {
                let mut after = state.clone();
                after.unclaimed.retain(|(other, _)| other != claim);
                self.naive.settle(&mut after.records, instant, *claim, End::Release, 0);
                next.push(after);
            }
        }
        next
    }

    /// Forgets what no operation with a clock from `now` on can see.
    pub fn forget(&self, state: &mut State, now: u64) {
        state.records.retain(|record| record.stands(now));
    }
}

fn told(answer: naive::Answer) -> Told {
    match answer {
        naive::Answer::First { .. } | naive::Answer::Redispatched { .. } => Told::First,
        naive::Answer::Replay { claim } => Told::Replay(claim),
        naive::Answer::Conflict => Told::Conflict,
        naive::Answer::OtherRoute => Told::OtherRoute,
        naive::Answer::InFlight => Told::InFlight,
        naive::Answer::Tombstone { unknown } => Told::Tombstone { unknown },
        naive::Answer::Capacity(limit) => Told::Capacity(limit),
    }
}
