//! The completion counter against the published lower bounds: whoever computes a bound holds
//! nothing against a record that is older than it.
//!
//! Bounds: two threads, every preemption; three threads, at most three preemptions each history.

use std::sync::Arc;

use onceward::claim::protocol::ShardId;
use onceward::claim::shared::{Home, Shared, bound_of_others};
use onceward::claim::{CompletionSeq, Millis};
use onceward::ledger::Ledger;

use super::{all_three, home, ledger, together};

/// A shard with a record in flight, which it completes when it is run.
fn completing(ledger: &Arc<Ledger>, shard: usize) -> Box<dyn FnOnce() -> CompletionSeq> {
    let mut home = home(ledger, shard);
    home.start().unwrap();
    Box::new(move || {
        // Its expiry is another test's matter, and would only multiply the orders.
        let seq = home.complete(Millis::NEVER);
        home.publish(Some(seq), Millis::NEVER);
        seq
    })
}

/// Reads the bound of shards 0 and 1, as the owner of an oldest in shard 2 would.
fn bounding(ledger: &Arc<Ledger>) -> Box<dyn FnOnce() -> CompletionSeq> {
    let ledger = Arc::clone(ledger);
    Box::new(move || bound_of_others(&ledger, ShardId(2)))
}

#[test]
fn a_first_completion_is_never_below_a_bound_that_missed_it() {
    loom::model(|| {
        let ledger = ledger(4, 4);
        let (seq, bound) = together(completing(&ledger, 0), bounding(&ledger));
        assert!(bound <= seq, "{bound:?} would pass over {seq:?}");
    });
}

/// At most three preemptions.
#[test]
fn nor_are_two_of_them() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let ledger = ledger(4, 4);
        let [one, two, bound] =
            all_three([completing(&ledger, 0), completing(&ledger, 1), bounding(&ledger)]);
        assert_ne!(one, two);
        assert!(bound <= one.min(two), "{bound:?} would pass over {one:?} or {two:?}");
    });
}

#[test]
fn a_shard_that_was_empty_a_moment_ago_is_not_forgotten() {
    loom::model(|| {
        let ledger = ledger(4, 4);
        let mut home = home(&ledger, 0);
        home.start().unwrap();
        let seq = home.complete(Millis(5));
        home.publish(Some(seq), Millis(5));
        let (again, bound) = together(
            move || {
                // Its only completed record goes, then it completes again.
                home.sweep(1, 1);
                home.publish(None, Millis::NEVER);
                home.start().unwrap();
                let seq = home.complete(Millis(6));
                home.publish(Some(seq), Millis(6));
                seq
            },
            bounding(&ledger),
        );
        assert!(bound <= again, "{bound:?} would pass over {again:?}");
    });
}

#[test]
fn at_rest_the_bound_lets_the_oldest_through() {
    loom::model(|| {
        let ledger = ledger(4, 4);
        let (one, two) = together(completing(&ledger, 0), completing(&ledger, 1));
        let owner = if one < two { 0 } else { 1 };
        assert!(one.min(two) <= bound_of_others(&ledger, ShardId(owner)));
        assert!(one.max(two) > bound_of_others(&ledger, ShardId(1 - owner)));
    });
}

#[test]
fn who_takes_the_place_that_a_completion_freed_completes_after_it() {
    loom::model(|| {
        let ledger = ledger(2, 1);
        let mut next = home(&ledger, 1);
        let (first, second) = together(completing(&ledger, 0), move || {
            next.start().is_ok().then(|| next.complete(Millis::NEVER))
        });
        assert!(second.is_none_or(|second| first < second), "{first:?} is the older one");
    });
}
