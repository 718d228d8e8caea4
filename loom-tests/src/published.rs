//! What a shard publishes is seen by whoever sees the counts that it moved.
//!
//! Bounds: two threads, every preemption.

use std::sync::Arc;

use onceward::claim::Millis;
use onceward::claim::protocol::ShardId;
use onceward::claim::shared::{Home, Shared};

use super::{home, ledger, together};

#[test]
fn who_counts_a_completed_record_sees_who_has_it_and_when_it_expires() {
    loom::model(|| {
        let ledger = ledger(2, 2);
        let mut home = home(&ledger, 0);
        home.start().unwrap();
        together(
            move || {
                let seq = home.complete(Millis(5));
                home.publish(Some(seq), Millis(5));
            },
            move || {
                if ledger.counts().completed > 0 {
                    assert!(ledger.oldest(ShardId(0)).is_some());
                    assert!(ledger.next_expiry(ShardId(0)) <= Millis(5));
                }
            },
        );
    });
}

#[test]
fn who_sees_a_tombstone_sees_when_it_expires() {
    loom::model(|| {
        let ledger = ledger(2, 2);
        let mut home = home(&ledger, 0);
        home.start().unwrap();
        together(
            move || {
                home.tombstone(Millis(7));
                home.publish(None, Millis(7));
            },
            move || {
                if ledger.counts().in_flight == 0 {
                    assert!(ledger.next_expiry(ShardId(0)) <= Millis(7));
                }
            },
        );
    });
}

#[test]
fn who_sees_that_nothing_is_due_any_more_sees_the_places_that_were_freed() {
    loom::model(|| {
        let ledger = ledger(1, 1);
        let mut home = home(&ledger, 0);
        home.start().unwrap();
        home.tombstone(Millis(7));
        let reader = Arc::clone(&ledger);
        together(
            move || {
                home.sweep(1, 0);
                home.publish(None, Millis::NEVER);
            },
            move || {
                if reader.next_expiry(ShardId(0)) == Millis::NEVER {
                    assert_eq!(reader.counts().records, 0);
                }
            },
        );
    });
}

#[test]
fn completed_records_leave_the_count_before_their_dead_shard_goes_silent() {
    loom::model(|| {
        let ledger = ledger(2, 2);
        let mut home = home(&ledger, 0);
        home.start().unwrap();
        let seq = home.complete(Millis(5));
        home.publish(Some(seq), Millis(5));
        let reader = Arc::clone(&ledger);
        together(
            move || home.abandon(),
            move || {
                if reader.oldest(ShardId(0)).is_none() {
                    let completed = reader.counts().completed;
                    assert_eq!(completed, 0, "nobody could be asked to evict it");
                }
            },
        );
        let counts = ledger.counts();
        assert_eq!((counts.records, counts.completed), (1, 0), "its permit stays");
    });
}
