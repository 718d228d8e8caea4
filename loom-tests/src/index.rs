//! The read index against evictions by the real machine: whoever has seen what an eviction did
//! cannot replay its victim any more, and a victim that stays is there again.
//!
//! Bounds: two threads, every preemption.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};
use onceward::claim::protocol::{CallId, EvictAnswer, Outcome, RequestId, ShardId, Waiter};
use onceward::claim::shared::{Index, Shared};
use onceward::claim::{
    Begin, CapacityLimit, Completion, CompletionSeq, Limits, PrincipalId, SlotKey,
};

use super::machines::{Machine, begin, limits};
use super::{ledger, together};

/// The victim's entry of the read index. It orders nothing by itself, so that all order is the
/// ledger's: a map with locks can only be stricter.
#[derive(Clone)]
struct Entry(Arc<AtomicBool>);

impl Entry {
    fn is_shown(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Index for Entry {
    fn show(&mut self, completion: &Arc<Completion>) {
        assert_eq!(completion.claim.slot, victim().slot);
        self.0.store(true, Ordering::Relaxed);
    }

    fn hide(&mut self, slot: SlotKey) {
        assert_eq!(slot, victim().slot);
        self.0.store(false, Ordering::Relaxed);
    }
}

fn victim() -> Begin {
    begin(0, 0)
}

/// A store where one record at a time may be in flight, and a begin of another shard can see that
/// one is; the evicting shard holds the completed victim.
fn model(limits: Limits, evict: fn(&mut Machine<Entry>) -> bool) {
    loom::model(move || {
        let ledger = ledger(limits.entries, limits.in_flight);
        let entry = Entry(Arc::new(AtomicBool::new(false)));
        let mut owner = Machine::new(&ledger, 0, limits, entry.clone());
        let fence = owner.first(victim());
        owner.complete(victim(), fence);
        assert!(entry.is_shown());
        let mut other = Machine::new(&ledger, 1, limits, ());

        let index = entry.clone();
        let (evicted, (seen, shown)) = together(
            move || evict(&mut owner),
            move || (other.begin(begin(1, 1)), index.is_shown()),
        );
        match seen {
            Some(Outcome::Capacity(CapacityLimit::StoreInFlight)) => {
                assert!(evicted && !shown, "the victim outlives its eviction in the index");
            }
            // It came first and found room, or must wait for the owner.
            Some(Outcome::First(_)) => assert!(!evicted),
            None => assert!(evicted),
            other => panic!("{other:?}: one is in flight, or there is room to be found"),
        }
        assert_eq!(entry.is_shown(), !evicted, "a victim that stays is shown");
        assert_eq!(ledger.counts().in_flight, 1);
    });
}

fn begins(owner: &mut Machine<Entry>, principal: u8) -> bool {
    match owner.begin(begin(principal, 1)) {
        Some(Outcome::First(_)) => true,
        Some(Outcome::Capacity(CapacityLimit::StoreInFlight)) => false,
        other => panic!("{other:?}: its own oldest is the store's"),
    }
}

#[test]
fn who_sees_an_eviction_in_a_full_store_cannot_replay_the_victim() {
    // Another principal's begin: neither its own cap nor its scope's is reached.
    model(limits(1, 1, 1), |owner| begins(owner, 2));
}

#[test]
fn who_sees_an_eviction_in_a_full_scope_cannot_replay_the_victim() {
    model(limits(2, 1, 1), |owner| begins(owner, 0));
}

#[test]
fn who_sees_an_eviction_for_somebody_else_cannot_replay_the_victim() {
    model(limits(1, 1, 1), |owner| {
        let principal = PrincipalId::from_bytes([2; 32]);
        let waiter = Waiter { shard: ShardId(2), call: CallId(7), principal };
        let answer = owner.evict(RequestId(0), waiter, CompletionSeq(0));
        answer == EvictAnswer::Evicted
    });
}
