//! One shard with its ledger = the naive model, over random histories with time.

use std::sync::Arc;

use bytes::Bytes;
use onceward::claim::invariant::{
    RecordView, StateView, p1_one_execution, p2_within_caps, p3_counters_match, p4_quotas_nest,
    p6_stale_changes_nothing,
};
use onceward::claim::protocol::{CallId, Outcome, ShardDecision, ShardId, ToShard};
use onceward::claim::shard::Shard;
use onceward::claim::shared::Shared;
use onceward::claim::{Begin, Fence, Limits, Millis, Reply, Settled, Settlement, TombstoneReason};
use onceward::ledger::PlainLedger;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use crate::dispatches::DISPATCHES;
use crate::naive::{self, Answer, End, Naive, Record, State, agrees, begin_on};

/// Enough for three principals of two scopes each.
const SLOTS: u8 = 24;

#[derive(Debug, Clone)]
pub enum Transition {
    Begin {
        slot: u8,
        hash: u8,
        /// A place in [`DISPATCHES`].
        dispatch: usize,
    },
    /// Settles one of all tickets ever given out, the old ones included.
    Settle {
        ticket: prop::sample::Index,
        end: End,
    },
    Advance {
        by: u64,
    },
    Tick,
}

#[derive(Debug, Clone)]
pub struct Reference {
    naive: Naive,
    records: Vec<Record>,
    /// Claims ever won, by number.
    tickets: Vec<u8>,
    order: u64,
    now: u64,
    /// What the model answered to the last transition.
    answer: Option<Answer>,
    settled: Option<bool>,
}

fn small(
    (entries, in_flight): (u32, u32),
    (principal_entries, principal_in_flight): (u32, u32),
    (scope_entries, scope_in_flight, scope_tombstones): (u32, u32, u32),
    tombstone_ttl: u64,
) -> Limits {
    Limits {
        ttl: Millis(10),
        tombstone_ttl: Millis(tombstone_ttl),
        entries,
        in_flight,
        principal_entries,
        principal_in_flight,
        scope_entries,
        scope_in_flight,
        scope_tombstones,
        reply_bytes: 64,
    }
}

fn limits() -> impl Strategy<Value = Limits> {
    prop::sample::select(vec![
        small((5, 3), (4, 3), (3, 2, 2), 10),
        small((5, 3), (4, 3), (3, 2, 2), 25),
        small((2, 1), (2, 1), (2, 1, 1), 10),
        small((4, 4), (4, 4), (4, 4, 4), 10),
        small((8, 8), (3, 3), (2, 2, 3), 15),
        small((3, 2), (3, 2), (3, 2, 8), 10),
        small((1, 1), (1, 1), (1, 1, 1), 10),
        small((9, 6), (6, 4), (3, 3, 2), 10),
    ])
}

impl ReferenceStateMachine for Reference {
    type State = Self;
    type Transition = Transition;

    fn init_state() -> BoxedStrategy<Self> {
        limits()
            .prop_map(|limits| Self {
                naive: Naive { limits },
                records: Vec::new(),
                tickets: Vec::new(),
                order: 0,
                now: 0,
                answer: None,
                settled: None,
            })
            .boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Transition> {
        let end = prop_oneof![
            4 => Just(End::Complete),
            3 => Just(End::Unknown),
            1 => Just(End::NotReplayable),
            1 => Just(End::Release),
        ];
        prop_oneof![
            8 => (0..SLOTS, 0..2u8, 0..DISPATCHES.len())
                .prop_map(|(slot, hash, dispatch)| Transition::Begin { slot, hash, dispatch }),
            7 => (any::<prop::sample::Index>(), end)
                .prop_map(|(ticket, end)| Transition::Settle { ticket, end }),
            2 => (1..13u64).prop_map(|by| Transition::Advance { by }),
            1 => Just(Transition::Tick),
        ]
        .boxed()
    }

    fn apply(mut state: Self, transition: &Transition) -> Self {
        (state.answer, state.settled) = (None, None);
        match transition {
            Transition::Begin { slot, hash, dispatch } => {
                let claim = state.tickets.len() as u64;
                let begin = asked(*slot, *hash, *dispatch);
                let answer = state.naive.begin(&mut state.records, state.now, &begin, claim);
                if matches!(answer, Answer::First { .. } | Answer::Redispatched { .. }) {
                    state.tickets.push(*slot);
                }
                state.answer = Some(answer);
            }
            Transition::Settle { ticket, end } if !state.tickets.is_empty() => {
                let claim = ticket.index(state.tickets.len()) as u64;
                let order = state.order;
                state.order += 1;
                let done = state.naive.settle(&mut state.records, state.now, claim, *end, order);
                state.settled = Some(done);
            }
            Transition::Settle { .. } | Transition::Tick => {}
            Transition::Advance { by } => state.now += by,
        }
        state
    }
}

/// The machine, its ledger, and the fences of the claims it gave out.
pub struct Machine {
    shard: Shard,
    ledger: PlainLedger,
    limits: Limits,
    fences: Vec<Fence>,
}

impl Machine {
    fn step(&mut self, now: u64, message: ToShard) -> Vec<ShardDecision> {
        let mut out = Vec::new();
        self.shard.step(Millis(now), message, &mut self.ledger.shard(ShardId(0)), &mut out);
        out
    }

    fn begin(&mut self, reference: &Reference, begin: Begin) {
        let before = self.shard.records();
        let call = CallId(7);
        let out = self.step(reference.now, ToShard::Begin { call, begin });
        let [ShardDecision::Begun { call: CallId(7), outcome }] = &out[..] else {
            panic!("a single shard must answer at once, and once: {out:?}");
        };
        let answer = reference.answer.expect("the model answered the begin");
        assert!(agrees(outcome, answer), "{outcome:?} instead of {answer:?}");
        if let (Outcome::Redispatched { before, .. }, Answer::Redispatched { before: claim }) =
            (outcome, answer)
        {
            assert_eq!(*before, self.fences[claim as usize], "the claim that it goes on with");
        }
        self.fences.extend(fence_of(outcome));
        let after = self.shard.records();
        let now = Millis(reference.now);
        let redispatched = matches!(outcome, Outcome::Redispatched { .. }).then_some(begin);
        p1_one_execution(&before, &after, now, redispatched.as_slice()).unwrap();
        p4_quotas_nest(&before, &after, &self.limits, now, &begin, outcome).unwrap();
    }

    fn settle(&mut self, reference: &Reference, claim: usize, end: End) {
        let slot = begin_on(reference.tickets[claim], 0).slot;
        let fence = self.fences[claim];
        let settlement = settlement(claim as u64, end);
        let before = self.shard.records();
        let call = CallId(8);
        let out = self.step(reference.now, ToShard::Settle { call, slot, fence, settlement });
        let [ShardDecision::Settled { call: CallId(8), settled }] = &out[..] else {
            panic!("a settle is answered once: {out:?}");
        };
        assert_eq!(Some(*settled == Settled::Done), reference.settled);
        p6_stale_changes_nothing(&before, &self.shard.records(), *settled).unwrap();
    }
}

/// The fence of a claim that was won.
pub fn fence_of(outcome: &Outcome) -> Option<Fence> {
    match outcome {
        Outcome::First(fence) | Outcome::Redispatched { fence, .. } => Some(*fence),
        _ => None,
    }
}

fn asked(slot: u8, hash: u8, dispatch: usize) -> Begin {
    Begin { dispatch: DISPATCHES[dispatch], ..begin_on(slot, hash) }
}

/// How a claim ends, with a reply that says which claim it was.
pub fn settlement(claim: u64, end: End) -> Settlement {
    match end {
        End::Complete => {
            let body = Bytes::copy_from_slice(&claim.to_be_bytes());
            Settlement::Complete(Arc::new(Reply::new(200, None, body, 64).expect("8 bytes fit")))
        }
        End::Unknown => Settlement::Tombstone(TombstoneReason::Unknown),
        End::NotReplayable => Settlement::Tombstone(TombstoneReason::NotReplayable),
        End::Release => Settlement::Release,
    }
}

impl StateMachineTest for Machine {
    type SystemUnderTest = Self;
    type Reference = Reference;

    fn init_test(reference: &Reference) -> Self {
        let limits = reference.naive.limits;
        assert_eq!(limits.validate(), Ok(()));
        let ledger = PlainLedger::new(&limits, 1);
        Self { shard: Shard::new(limits), ledger, limits, fences: Vec::new() }
    }

    fn apply(mut machine: Self, reference: &Reference, transition: Transition) -> Self {
        let before = machine.shard.records();
        match transition {
            Transition::Begin { slot, hash, dispatch } => {
                machine.begin(reference, asked(slot, hash, dispatch));
                return machine;
            }
            Transition::Settle { ticket, end } if !reference.tickets.is_empty() => {
                machine.settle(reference, ticket.index(reference.tickets.len()), end);
            }
            Transition::Settle { .. } | Transition::Advance { .. } => {}
            Transition::Tick => {
                let out = machine.step(reference.now, ToShard::Tick);
                assert_eq!(out, [], "a handful of records fits one tick");
            }
        }
        let now = Millis(reference.now);
        p1_one_execution(&before, &machine.shard.records(), now, &[]).unwrap();
        machine
    }

    fn check_invariants(machine: &Self, reference: &Reference) {
        let records = machine.shard.records();
        p2_within_caps(&records, &machine.limits).unwrap();
        let counts = machine.ledger.counts();
        p3_counters_match(&records, &machine.shard.groups(), counts, 0).unwrap();
        same_records(&records, &reference.records, reference.now);
        same_index(&machine.ledger, &records, 0);
        let oldest = records.iter().filter_map(completion).min();
        assert_eq!(machine.ledger.oldest(ShardId(0)), oldest, "published exactly after a step");
    }
}

fn completion(record: &RecordView) -> Option<onceward::claim::CompletionSeq> {
    match record.state {
        StateView::Completed { seq, .. } => Some(seq),
        _ => None,
    }
}

/// The machine's standing records are the model's, and in the same order of completion.
pub fn same_records(found: &[RecordView], expected: &[Record], now: u64) {
    let mut found: Vec<_> = found.iter().filter(|r| r.stands(Millis(now))).collect();
    let mut expected: Vec<_> = expected.iter().filter(|r| r.stands(now)).collect();
    let found_order: Vec<_> = {
        found.sort_by_key(|record| completion(record));
        found.iter().filter(|r| completion(r).is_some()).map(|r| r.slot).collect()
    };
    let expected_order: Vec<_> = {
        expected.sort_by_key(|record| match record.state {
            State::Completed { order, .. } => Some(order),
            _ => None,
        });
        let completed = |r: &&&Record| matches!(r.state, State::Completed { .. });
        expected.iter().filter(completed).map(|r| r.begin.slot).collect()
    };
    assert_eq!(found_order, expected_order, "the order of completion");
    found.sort_by_key(|record| record.slot);
    expected.sort_by_key(|record| record.begin.slot);
    assert_eq!(found.len(), expected.len(), "{found:?} instead of {expected:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.slot, expected.begin.slot);
        assert_eq!(found.hash, expected.begin.hash);
        assert_eq!(found.dispatch, expected.begin.dispatch.hash);
        if let StateView::InFlight { again } = found.state {
            assert_eq!(again, expected.again);
        }
        assert_eq!(state_of(found), unordered(expected.state));
    }
}

fn state_of(record: &RecordView) -> naive::State {
    match &record.state {
        StateView::InFlight { .. } => State::InFlight,
        StateView::Completed { expires, .. } => State::Completed { order: 0, expires: expires.0 },
        StateView::Tombstone { reason, expires } => {
            State::Tombstone { unknown: *reason == TombstoneReason::Unknown, expires: expires.0 }
        }
    }
}

fn unordered(state: naive::State) -> naive::State {
    match state {
        State::Completed { expires, .. } => State::Completed { order: 0, expires },
        state => state,
    }
}

/// The read index holds exactly the completed records, and `others`.
pub fn same_index(ledger: &PlainLedger, records: &[RecordView], others: usize) {
    for record in records {
        let indexed = ledger.indexed(record.slot);
        if let StateView::Completed { expires, reply, .. } = &record.state {
            let entry = indexed.expect("a completed record is in the read index");
            assert_eq!((entry.claim.hash, entry.expires), (record.hash, *expires));
            assert_eq!(entry.claim.dispatch.as_deref(), record.dispatch.as_ref());
            assert_eq!(&entry.reply, reply);
        } else {
            assert_eq!(indexed, None, "only completed records are in the read index");
        }
    }
    assert_eq!(ledger.indexed_len(), completed(records) + others);
}

/// How many records are completed.
pub fn completed(records: &[RecordView]) -> usize {
    records.iter().filter(|record| completion(record).is_some()).count()
}

prop_state_machine! {
    #![proptest_config(Config {
        cases: 512,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(
            "proptest-regressions/store_model_shard.txt",
        ))),
        ..Config::default()
    })]

    #[test]
    fn a_shard_is_the_naive_model(sequential 1..120 => Machine);
}
