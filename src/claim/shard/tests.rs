//! What random histories of a few records do not reach: races in the middle of a step, bounds of
//! queues and sweeps, and what makes two machines equal.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::claim::counts::{Counts, Full, InFlightFull, Room};
use crate::claim::protocol::{
    CallId, EvictAnswer, Outcome, RequestId, ShardId, ToCoordinator, Verdict, Waiter,
};
use crate::claim::shared::Shared;
use crate::claim::{
    Begin, CapacityLimit, Completion, CompletionSeq, Dispatch, DispatchHash, Fence, Pin, Reply,
    RequestHash, ScopeId, Settled, Settlement, SlotKey, TombstoneReason,
};
use crate::ledger::{PlainLedger, PlainShard};

fn digest(number: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    bytes[24..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Slot `slot` of principal `principal`, which has one scope.
fn begin(principal: u64, slot: u64) -> Begin {
    Begin {
        slot: SlotKey::from_bytes(digest(principal * 100_000 + slot)),
        scope: ScopeId::from_bytes(digest(principal)),
        principal: PrincipalId::from_bytes(digest(principal)),
        hash: RequestHash::from_bytes(digest(0)),
        dispatch: Dispatch::UNDECLARED,
    }
}

fn limits(entries: u32) -> Limits {
    Limits {
        ttl: Millis(10),
        tombstone_ttl: Millis(10),
        entries,
        in_flight: entries,
        principal_entries: entries,
        principal_in_flight: entries,
        scope_entries: entries,
        scope_in_flight: entries,
        scope_tombstones: entries,
        reply_bytes: 64,
    }
}

/// A machine, the ledger of two shards, and what other shards do in the middle of its steps.
struct Bench {
    shard: Shard,
    ledger: PlainLedger,
    now: u64,
    /// Places that another shard takes right before this one reaches for one.
    thieves: u32,
}

impl Bench {
    fn new(limits: Limits) -> Self {
        let ledger = PlainLedger::new(&limits, 2);
        Self { shard: Shard::new(limits), ledger, now: 0, thieves: 0 }
    }

    fn step(&mut self, message: ToShard) -> Vec<ShardDecision> {
        let mut out = Vec::new();
        let thieves = &mut self.thieves;
        let mut home = Raced { home: self.ledger.shard(ShardId(0)), thieves };
        self.shard.step(Millis(self.now), message, &mut home, &mut out);
        out
    }

    fn begin(&mut self, begin: Begin) -> Outcome {
        match self.step(ToShard::Begin { call: CallId(1), begin }).pop() {
            Some(ShardDecision::Begun { outcome, .. }) => outcome,
            other => panic!("{other:?} instead of an answer"),
        }
    }

    fn settle(&mut self, begin: Begin, fence: Fence, settlement: Settlement) {
        let settle = ToShard::Settle { call: CallId(2), slot: begin.slot, fence, settlement };
        let done = ShardDecision::Settled { call: CallId(2), settled: Settled::Done };
        assert_eq!(self.step(settle), [done]);
    }

    fn first(&mut self, begin: Begin) -> Fence {
        match self.begin(begin) {
            Outcome::First(fence) => fence,
            other => panic!("{other:?} instead of a first"),
        }
    }

    fn complete(&mut self, begin: Begin) {
        let fence = self.first(begin);
        self.settle(begin, fence, Settlement::Complete(reply()));
    }

    fn tombstone(&mut self, begin: Begin) {
        let fence = self.first(begin);
        self.settle(begin, fence, Settlement::Tombstone(TombstoneReason::Unknown));
    }

    /// The other shard begins and completes one record.
    fn complete_elsewhere(&mut self) {
        let mut other = self.ledger.shard(ShardId(1));
        other.start().expect("there is room");
        other.complete(Millis(self.now + 10));
    }
}

fn reply() -> Arc<Reply> {
    Arc::new(Reply::new(200, None, Bytes::from_static(b"ok"), 64).expect("it fits"))
}

/// A shard's side of the ledger where another shard is faster: it starts as many records as `thieves`
/// says right before this one starts its own.
struct Raced<'l> {
    home: PlainShard<'l>,
    thieves: &'l mut u32,
}

impl Raced<'_> {
    fn be_late(&mut self) {
        for _ in 0..std::mem::take(self.thieves) {
            self.home.start().expect("the thief found room");
        }
    }
}

impl Shared for Raced<'_> {
    fn counts(&self) -> Counts {
        self.home.counts()
    }
    fn start(&mut self) -> Result<(), Full> {
        self.be_late();
        self.home.start()
    }
    fn release(&mut self) {
        self.home.release();
    }
    fn next_completion(&self) -> CompletionSeq {
        self.home.next_completion()
    }
    fn shards(&self) -> usize {
        self.home.shards()
    }
    fn oldest(&self, shard: ShardId) -> Option<CompletionSeq> {
        self.home.oldest(shard)
    }
    fn next_expiry(&self, shard: ShardId) -> Millis {
        self.home.next_expiry(shard)
    }
}

impl Home for Raced<'_> {
    fn shard(&self) -> ShardId {
        self.home.shard()
    }
    fn evict(&mut self) -> Result<(), InFlightFull> {
        self.be_late();
        self.home.evict()
    }
    fn start_or_evict(&mut self) -> Result<Room, InFlightFull> {
        self.home.start_or_evict()
    }
    fn redispatch(&mut self) -> Result<(), InFlightFull> {
        self.be_late();
        self.home.redispatch()
    }
    fn complete(&mut self, expires: Millis) -> CompletionSeq {
        self.home.complete(expires)
    }
    fn tombstone(&mut self, expires: Millis) {
        self.home.tombstone(expires);
    }
    fn sweep(&mut self, records: u32, completed: u32) {
        self.home.sweep(records, completed);
    }
    fn publish(&mut self, oldest: Option<CompletionSeq>, next_expiry: Millis) {
        self.home.publish(oldest, next_expiry);
    }
    fn show(&mut self, completion: &Arc<Completion>) {
        self.home.show(completion);
    }
    fn hide(&mut self, slot: SlotKey) {
        self.home.hide(slot);
    }
}

#[test]
fn expired_records_of_a_full_scope_do_not_count_though_many_others_are_due_before_them() {
    let expired = u64::from(SWEEP_PER_BEGIN) + 1;
    let mut bench = Bench::new(Limits { scope_entries: 2, principal_entries: 2, ..limits(64) });
    for other in 0..expired {
        bench.complete(begin(100 + other, 0));
    }
    bench.tombstone(begin(1, 0));
    bench.now = 5;
    bench.complete(begin(1, 1));
    bench.now = 10;
    bench.first(begin(1, 2));
    // The one that had expired made room: the other was not evicted.
    assert_eq!(bench.begin(begin(1, 1)), Outcome::Replay(reply()));
}

#[test]
fn an_expired_tombstone_leaves_a_full_scope_before_anything_is_evicted() {
    let expired = u64::from(SWEEP_PER_BEGIN) + 1;
    let mut bench = Bench::new(Limits { scope_entries: 2, principal_entries: 2, ..limits(64) });
    for other in 0..expired {
        bench.complete(begin(100 + other, 0));
    }
    bench.tombstone(begin(1, 0));
    bench.now = 5;
    bench.complete(begin(1, 1));
    bench.now = 10;
    bench.first(begin(1, 2));
    assert_eq!(bench.begin(begin(1, 1)), Outcome::Replay(reply()));
}

#[test]
fn expired_tombstones_of_a_full_scope_do_not_count_though_many_others_are_due_before_them() {
    let expired = u64::from(SWEEP_PER_BEGIN) + 1;
    let mut bench = Bench::new(Limits { scope_tombstones: 1, ..limits(64) });
    for other in 0..expired {
        bench.tombstone(begin(100 + other, 0));
    }
    bench.tombstone(begin(1, 0));
    bench.now = 9;
    let refused = Outcome::Capacity(CapacityLimit::ScopeTombstones);
    assert_eq!(bench.begin(begin(1, 1)), refused);
    bench.now = 10;
    bench.first(begin(1, 1));
}

#[test]
fn a_begin_sweeps_a_constant_number_and_a_tick_a_batch() {
    let due = SWEEP_BATCH + SWEEP_PER_BEGIN + 1;
    let mut bench = Bench::new(limits(due * 2));
    for slot in 0..u64::from(due) {
        bench.complete(begin(1, slot));
    }
    bench.now = 10;
    bench.first(begin(2, 0));
    assert_eq!(bench.ledger.counts().completed, due - SWEEP_PER_BEGIN);
    assert_eq!(bench.step(ToShard::Tick), [ShardDecision::TickAgain]);
    assert_eq!(bench.ledger.counts().completed, 1);
    assert_eq!(bench.step(ToShard::Tick), []);
    let counts = bench.ledger.counts();
    assert_eq!((counts.records, counts.in_flight, counts.completed), (1, 1, 0));
    assert_eq!(bench.ledger.indexed_len(), 0);
}

#[test]
fn room_that_others_take_is_looked_for_again_while_something_is_due() {
    let due = SWEEP_PER_BEGIN * 3;
    let mut bench = Bench::new(limits(due));
    for slot in 0..u64::from(due) {
        bench.complete(begin(1, slot));
    }
    bench.now = 10;
    // What the begin sweeps at first is taken before it gets there.
    bench.thieves = SWEEP_PER_BEGIN;
    bench.first(begin(2, 0));
    let counts = bench.ledger.counts();
    assert_eq!((counts.in_flight, counts.completed), (SWEEP_PER_BEGIN + 1, SWEEP_PER_BEGIN));
}

/// With tombstones alone there is nothing to evict: the count of completed records that it read
/// before its own sweep must not refuse it.
#[test]
fn nor_is_it_refused_for_what_it_swept_itself() {
    let due = SWEEP_PER_BEGIN * 3;
    let mut bench = Bench::new(limits(due));
    for slot in 0..u64::from(due) {
        bench.tombstone(begin(1, slot));
    }
    bench.now = 10;
    bench.thieves = SWEEP_PER_BEGIN;
    bench.first(begin(2, 0));
    let counts = bench.ledger.counts();
    assert_eq!((counts.records, counts.in_flight), (SWEEP_PER_BEGIN * 2 + 1, SWEEP_PER_BEGIN + 1));
}

#[test]
fn a_victim_stays_replayable_when_the_last_place_in_flight_is_taken_first() {
    let mut bench =
        Bench::new(Limits { scope_entries: 1, in_flight: 2, principal_in_flight: 2, ..limits(4) });
    bench.complete(begin(1, 0));
    bench.first(begin(2, 0));
    bench.thieves = 1;
    let refused = Outcome::Capacity(CapacityLimit::StoreInFlight);
    assert_eq!(bench.begin(begin(1, 1)), refused);
    assert!(bench.ledger.indexed(begin(1, 0).slot).is_some());
    assert_eq!(bench.begin(begin(1, 0)), Outcome::Replay(reply()));
}

#[test]
fn who_holds_the_oldest_of_a_full_store_evicts_it_without_a_message() {
    let mut bench = Bench::new(limits(2));
    bench.complete(begin(1, 0));
    bench.complete_elsewhere();
    // Its own is number 0, and nothing is due anywhere.
    bench.first(begin(2, 0));
    assert_eq!(bench.ledger.counts(), Counts { records: 2, in_flight: 1, completed: 1 });
}

#[test]
fn an_owner_evicts_at_the_bound_and_not_above_it() {
    let mut bench = Bench::new(limits(2));
    bench.complete_elsewhere();
    bench.complete(begin(1, 0));
    let waiter = Waiter { shard: ShardId(1), call: CallId(9), principal: begin(3, 0).principal };
    let mut evict = |request, bound| {
        let request = RequestId(request);
        let bound = CompletionSeq(bound);
        let answer = bench.step(ToShard::Evict { request, waiter, bound });
        let [ShardDecision::Send(ToCoordinator::Evicted { answer, .. })] = answer[..] else {
            panic!("{answer:?} instead of one answer");
        };
        answer
    };
    // The other shard's record is number 0, this one's is number 1.
    assert_eq!(evict(0, 0), EvictAnswer::Stale);
    assert_eq!(evict(1, 1), EvictAnswer::Evicted);
    assert_eq!(evict(2, 9), EvictAnswer::Stale, "nothing is left to evict");
    let counts = bench.ledger.counts();
    assert_eq!((counts.records, counts.in_flight, counts.completed), (2, 1, 1));
}

/// A full store whose oldest is elsewhere: whoever begins here waits.
fn full_elsewhere() -> Bench {
    let mut bench = Bench::new(limits(2));
    bench.complete_elsewhere();
    bench.complete_elsewhere();
    bench
}

fn asked(bench: &mut Bench, call: u64, begin: Begin) -> Option<Waiter> {
    match bench.step(ToShard::Begin { call: CallId(call), begin })[..] {
        [ShardDecision::Send(ToCoordinator::Ask(waiter))] => Some(waiter),
        [] => None,
        ref other => panic!("{other:?} instead of a wait"),
    }
}

#[test]
fn the_queue_behind_a_waiter_is_bounded_and_served_in_its_order() {
    let mut bench = full_elsewhere();
    let waiter = asked(&mut bench, 0, begin(1, 0)).expect("the first one asks");
    for call in 1..=MAX_QUEUED_PER_PRINCIPAL as u64 {
        assert_eq!(asked(&mut bench, call, begin(1, call % 2)), None);
    }
    let over = bench.step(ToShard::Begin { call: CallId(9999), begin: begin(1, 5) });
    let unavailable = ShardDecision::Begun { call: CallId(9999), outcome: Outcome::Unavailable };
    assert_eq!(over, [unavailable]);

    let verdict = Verdict::Refused(CapacityLimit::StoreEntries);
    let out = bench.step(ToShard::Answer { waiter, verdict });
    let outcome = Outcome::Capacity(CapacityLimit::StoreEntries);
    let next = Waiter { call: CallId(1), ..waiter };
    let expected = [
        ShardDecision::Begun { call: CallId(0), outcome },
        ShardDecision::Send(ToCoordinator::Ask(next)),
    ];
    assert_eq!(out, expected, "the next one begins afresh, and waits in its turn");

    // The coordinator takes the place of a record of the other shard for it.
    bench.ledger.shard(ShardId(1)).evict().expect("a place in flight");
    let out = bench.step(ToShard::Answer { waiter: next, verdict: Verdict::Admitted });
    let outcome = Outcome::First(Fence(0));
    assert_eq!(out[0], ShardDecision::Begun { call: CallId(1), outcome });
    // Call 2 is on another slot and waits; those on its own slot are answered when it is.
    let then = Waiter { call: CallId(2), ..waiter };
    assert_eq!(out[1..], [ShardDecision::Send(ToCoordinator::Ask(then))]);
}

#[test]
fn an_admission_that_nobody_waits_for_is_given_back() {
    let mut bench = full_elsewhere();
    let waiter = asked(&mut bench, 0, begin(1, 0)).expect("it asks");
    bench.ledger.shard(ShardId(1)).evict().expect("a place in flight");
    let stranger = Waiter { call: CallId(77), ..waiter };
    let out = bench.step(ToShard::Answer { waiter: stranger, verdict: Verdict::Admitted });
    assert_eq!(out, []);
    let counts = bench.ledger.counts();
    assert_eq!((counts.records, counts.in_flight, counts.completed), (1, 0, 1));
    assert!(!bench.shard.is_idle(), "the one that does wait goes on waiting");
}

#[test]
fn without_a_coordinator_waiters_are_answered_and_nobody_waits_any_more() {
    let mut bench = full_elsewhere();
    asked(&mut bench, 0, begin(1, 0));
    asked(&mut bench, 1, begin(1, 1));
    asked(&mut bench, 2, begin(2, 0));
    let out = bench.step(ToShard::Orphaned);
    let answers = [0, 1, 2]
        .map(|call| ShardDecision::Begun { call: CallId(call), outcome: Outcome::Unavailable });
    assert_eq!(out, answers);
    assert_eq!(bench.begin(begin(1, 0)), Outcome::Unavailable);
    assert!(bench.shard.is_idle());
}

/// The slot of a tool that may be sent again after an unknown outcome, and goes to place `route`.
fn again(principal: u64, slot: u64, route: u8) -> Begin {
    let hash = Some(DispatchHash::from_bytes([route; 32]));
    let dispatch = Dispatch { hash, pin: Pin::Free, redispatch: true };
    Begin { dispatch, ..begin(principal, slot) }
}

fn pinned(begin: Begin, pin: Pin) -> Begin {
    Begin { dispatch: Dispatch { pin, redispatch: false, ..begin.dispatch }, ..begin }
}

#[test]
fn an_unknown_outcome_is_taken_again_in_one_step_under_another_fence() {
    let mut bench = Bench::new(limits(4));
    bench.tombstone(again(1, 0, 0));
    let counts = Counts { records: 1, in_flight: 0, completed: 0 };
    assert_eq!(bench.ledger.counts(), counts);
    bench.now = 4;
    let taken = Outcome::Redispatched { fence: Fence(1), before: Fence(0) };
    assert_eq!(bench.begin(again(1, 0, 0)), taken);
    assert_eq!(bench.ledger.counts(), Counts { in_flight: 1, ..counts });
    assert_eq!(bench.ledger.next_expiry(ShardId(0)), Millis::NEVER, "it does not expire now");
    bench.now = 10;
    assert_eq!(bench.begin(again(1, 0, 0)), Outcome::InFlight);
    let stale = ToShard::Settle {
        call: CallId(3),
        slot: begin(1, 0).slot,
        fence: Fence(0),
        settlement: Settlement::Release,
    };
    let settled = Settled::Stale;
    assert_eq!(bench.step(stale), [ShardDecision::Settled { call: CallId(3), settled }]);
    bench.settle(begin(1, 0), Fence(1), Settlement::Complete(reply()));
    assert_eq!(bench.begin(again(1, 0, 0)), Outcome::Replay(reply()));
}

#[test]
fn a_redispatch_is_never_freed_by_its_release() {
    let mut bench = Bench::new(limits(4));
    bench.tombstone(again(1, 0, 0));
    bench.now = 4;
    bench.begin(again(1, 0, 0));
    bench.now = 8;
    bench.settle(begin(1, 0), Fence(1), Settlement::Release);
    bench.now = 17;
    let unknown = Outcome::Tombstone(TombstoneReason::Unknown);
    assert_eq!(bench.begin(begin(1, 0)), unknown, "for the whole of its lifetime");
    bench.now = 18;
    bench.first(begin(1, 0));
}

#[test]
fn only_what_is_unknown_declared_and_the_same_is_taken_again() {
    let mut bench = Bench::new(limits(8));
    bench.tombstone(again(1, 0, 0));
    let unknown = Outcome::Tombstone(TombstoneReason::Unknown);
    assert_eq!(bench.begin(pinned(again(1, 0, 0), Pin::Free)), unknown, "not declared");
    assert_eq!(bench.begin(again(1, 0, 1)), Outcome::OtherRoute, "it would go elsewhere");
    let other = Begin { hash: RequestHash::from_bytes(digest(9)), ..again(1, 0, 0) };
    assert_eq!(bench.begin(other), Outcome::Conflict);

    let fence = bench.first(again(1, 1, 0));
    let kept = TombstoneReason::NotReplayable;
    bench.settle(begin(1, 1), fence, Settlement::Tombstone(kept));
    assert_eq!(bench.begin(again(1, 1, 0)), Outcome::Tombstone(kept), "the tool ran");
}

#[test]
fn a_pin_refuses_what_would_go_elsewhere() {
    let mut bench = Bench::new(limits(8));
    let flying = bench.first(again(1, 0, 0));
    bench.tombstone(again(1, 1, 0));
    bench.complete(again(1, 2, 0));
    bench.complete(begin(1, 3));
    let replay = Outcome::Replay(reply());
    let unknown = Outcome::Tombstone(TombstoneReason::Unknown);
    let by_state = [Outcome::InFlight, unknown, replay.clone(), replay.clone()];
    let elsewhere = || Outcome::OtherRoute;
    let open = [elsewhere(), elsewhere(), replay.clone(), replay];
    let always = [elsewhere(), elsewhere(), elsewhere(), elsewhere()];
    for (pin, expected) in [(Pin::Free, by_state), (Pin::Open, open), (Pin::Always, always)] {
        let found = [0, 1, 2, 3].map(|slot| bench.begin(pinned(again(1, slot, 1), pin)));
        assert_eq!(found, expected, "{pin:?}");
    }
    for pin in [Pin::Free, Pin::Open, Pin::Always] {
        assert_eq!(bench.begin(pinned(again(1, 0, 0), pin)), Outcome::InFlight, "it is the same");
    }
    // What was released may go anywhere.
    bench.settle(begin(1, 0), flying, Settlement::Release);
    bench.first(pinned(again(1, 0, 1), Pin::Always));
}

#[test]
fn the_caps_in_flight_alone_refuse_a_redispatch() {
    let full = Limits {
        in_flight: 3,
        principal_in_flight: 2,
        scope_in_flight: 1,
        scope_entries: 2,
        scope_tombstones: 2,
        ..limits(8)
    };
    let mut bench = Bench::new(full);
    bench.tombstone(again(1, 0, 0));
    let fence = bench.first(again(1, 1, 0));
    let refused = Outcome::Capacity(CapacityLimit::ScopeInFlight);
    assert_eq!(bench.begin(again(1, 0, 0)), refused);
    // Its scope is full of records and of tombstones, and it takes no other place of either.
    bench.settle(begin(1, 1), fence, Settlement::Tombstone(TombstoneReason::Unknown));
    let Outcome::Redispatched { .. } = bench.begin(again(1, 0, 0)) else {
        panic!("there is a place in flight");
    };

    let scope = |number| ScopeId::from_bytes(digest(number));
    let mut bench = Bench::new(full);
    bench.tombstone(again(1, 0, 0));
    for number in [70, 71] {
        bench.first(Begin { scope: scope(number), ..begin(1, number) });
    }
    let refused = Outcome::Capacity(CapacityLimit::PrincipalInFlight);
    assert_eq!(bench.begin(again(1, 0, 0)), refused);

    let mut bench = Bench::new(full);
    bench.tombstone(again(1, 0, 0));
    for principal in [2, 3] {
        bench.first(begin(principal, 0));
    }
    // The last place in flight is taken right before it reaches for it.
    bench.thieves = 1;
    let refused = Outcome::Capacity(CapacityLimit::StoreInFlight);
    assert_eq!(bench.begin(again(1, 0, 0)), refused);
    let unknown = Outcome::Tombstone(TombstoneReason::Unknown);
    assert_eq!(bench.begin(begin(1, 0)), unknown, "refused, it stays as it was");
}

#[test]
fn a_redispatch_queues_behind_a_waiter_of_its_principal() {
    let mut bench = Bench::new(Limits { principal_in_flight: 1, scope_in_flight: 1, ..limits(3) });
    bench.tombstone(again(1, 0, 0));
    bench.complete_elsewhere();
    bench.complete_elsewhere();
    let waiter = asked(&mut bench, 7, begin(1, 1)).expect("the store is full");
    assert_eq!(asked(&mut bench, 8, again(1, 0, 0)), None, "it waits for its turn");
    bench.ledger.shard(ShardId(1)).evict().expect("a place in flight");
    let out = bench.step(ToShard::Answer { waiter, verdict: Verdict::Admitted });
    let first = ShardDecision::Begun { call: CallId(7), outcome: Outcome::First(Fence(1)) };
    let outcome = Outcome::Capacity(CapacityLimit::ScopeInFlight);
    assert_eq!(out, [first, ShardDecision::Begun { call: CallId(8), outcome }]);
}

#[test]
fn slots_that_begin_alike_are_two() {
    let mut bench = Bench::new(limits(4));
    let mut other = *begin(1, 0).slot.as_bytes();
    other[31] ^= 1;
    let other = Begin { slot: SlotKey::from_bytes(other), ..begin(1, 0) };
    bench.complete(begin(1, 0));
    let fence = bench.first(other);
    assert_eq!(bench.begin(begin(1, 0)), Outcome::Replay(reply()));
    bench.settle(other, fence, Settlement::Release);
    assert_eq!(bench.begin(begin(1, 0)), Outcome::Replay(reply()));
}

#[test]
fn the_clock_of_a_shard_never_runs_backwards() {
    let mut bench = Bench::new(limits(4));
    bench.now = 50;
    bench.complete(begin(1, 0));
    bench.now = 40;
    bench.complete(begin(1, 1));
    assert_eq!(bench.shard.now(), Millis(50));
    bench.now = 59;
    assert_eq!(bench.begin(begin(1, 1)), Outcome::Replay(reply()));
    bench.now = 60;
    bench.first(begin(1, 0));
    bench.first(begin(1, 1));
}

#[test]
fn machines_are_equal_by_what_they_hold_and_not_by_how_it_is_arranged() {
    let hash = |shard: &Shard| {
        let mut hasher = DefaultHasher::new();
        shard.hash(&mut hasher);
        hasher.finish()
    };
    let mut one = Bench::new(limits(8));
    let mut fences = Vec::new();
    for slot in 0..3 {
        fences.push(one.first(begin(1, slot)));
    }
    let mut other = Bench { shard: one.shard.clone(), ledger: one.ledger.clone(), ..one };
    // The same two releases in another order leave other places of the arena free.
    for slot in [0, 1] {
        one.settle(begin(1, slot as u64), fences[slot], Settlement::Release);
    }
    assert_ne!(one.shard, other.shard);
    assert_ne!(hash(&one.shard), hash(&other.shard), "a model would take them for one state");
    for slot in [1, 0] {
        other.settle(begin(1, slot as u64), fences[slot], Settlement::Release);
    }
    for bench in [&mut one, &mut other] {
        bench.first(begin(2, 0));
    }
    assert_eq!(one.shard, other.shard);
    assert_eq!(hash(&one.shard), hash(&other.shard));
}
