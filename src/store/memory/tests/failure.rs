//! Parts that fail, callers that give up, and the end.

use std::sync::mpsc::{Sender, channel};

use super::*;
use crate::claim::CapacityLimit;
use crate::store::Settled;
use crate::store::memory::MAILBOX_BEGINS;
use crate::store::memory::coordinator::CoordinatorInput;
use crate::store::memory::shard::ShardInput;

/// Lets somebody's call stand still in shard 0 until what is returned is dropped.
fn stall(store: &Arc<MemoryStore>) -> Sender<()> {
    let (resume, until_then) = channel();
    let (standing, stands) = channel();
    let directory = Arc::clone(&store.directory);
    std::thread::spawn(move || {
        directory.tell_shard(0, ShardInput::Stall(standing, until_then));
    });
    stands.recv().expect("it stands still");
    resume
}

fn tight() -> Limits {
    Limits {
        entries: 4,
        in_flight: 4,
        principal_entries: 4,
        principal_in_flight: 4,
        scope_entries: 4,
        scope_in_flight: 4,
        ..small()
    }
}

#[tokio::test]
async fn a_shard_that_fails_stays_down_and_frees_nothing() {
    let (store, _) = store(tight(), 2);
    complete(&store, caller(0, 1).begin(1)).await;
    let ticket = first(Store::begin(&*store, Asked::at("", caller(0, 1).begin(2))).await);
    complete(&store, caller(1, 1).begin(1)).await;

    store.directory.tell_shard(0, ShardInput::Crash(None));
    until(|| store.ready().is_err()).await;
    assert_eq!(store.ready(), Err(StoreError::Down));

    // Its principals are refused, even what the read index still holds.
    for slot in 1..=3 {
        let answer = Store::begin(&*store, Asked::at("", caller(0, 1).begin(slot))).await;
        assert_eq!(answer.err(), Some(StoreError::Down));
    }
    assert_eq!(store.release(ticket).await, Err(StoreError::Down));
    // Its permits stay counted; its completed record can no longer be evicted.
    until(|| store.occupancy().completed == 1).await;
    let occupancy = store.occupancy();
    assert_eq!((occupancy.records, occupancy.in_flight), (3, 1));
    // The other shard goes on within what is left, and only its own record can be evicted.
    assert_eq!(body(Store::begin(&*store, Asked::at("", caller(1, 1).begin(1))).await), "done");
    let mut held = Vec::new();
    for slot in 2..=3 {
        held.push(first(Store::begin(&*store, Asked::at("", caller(1, 1).begin(slot))).await));
    }
    assert_eq!(store.occupancy().evictions, 1);
    let full = Store::begin(&*store, Asked::at("", caller(1, 2).begin(4))).await;
    assert!(matches!(full, Ok(Begun::Capacity(CapacityLimit::StoreEntries))), "{full:?}");
}

#[tokio::test]
async fn begins_behind_a_failing_shard_are_answered() {
    let (store, _) = store(small(), 2);
    store.directory.tell_shard(0, ShardInput::Crash(None));
    let behind = (0..64).map(|n| Store::begin(&*store, Asked::at("", caller(0, n).begin(n))));
    for answer in futures_util::future::join_all(behind).await {
        assert_eq!(answer.err(), Some(StoreError::Down));
    }
    assert_eq!(store.occupancy().records, 0);
}

#[tokio::test]
async fn a_waiter_on_a_shard_that_fails_is_served_by_the_next_oldest() {
    let (store, _) = store(tight(), 3);
    for (shard, slot) in [(0, 1), (1, 2), (1, 3), (2, 4)] {
        complete(&store, caller(shard, 1).begin(slot)).await;
    }
    store.directory.tell_shard(0, ShardInput::Crash(None));
    // Shard 0 holds the oldest; its record cannot be evicted any more.
    let ticket = first(Store::begin(&*store, Asked::at("", caller(2, 2).begin(5))).await);
    assert_eq!(store.complete(ticket, reply("done")).await, Ok(Settled::Done));
    let evicted = Store::begin(&*store, Asked::at("", caller(1, 1).begin(2))).await;
    // It was the next oldest, and is executed anew in the place of the one after it.
    first(evicted);
    assert_eq!(body(Store::begin(&*store, Asked::at("", caller(2, 1).begin(4))).await), "done");
}

#[tokio::test]
async fn a_waiter_whose_request_dies_with_its_shard_is_served_by_the_next_oldest() {
    let (store, _) = store(tight(), 3);
    for (shard, slot) in [(0, 1), (1, 2), (1, 3), (2, 4)] {
        complete(&store, caller(shard, 1).begin(slot)).await;
    }
    let resume = stall(&store);
    store.directory.tell_shard(0, ShardInput::Crash(None));
    // Shard 0 still has the oldest; the request to evict it waits behind the crash.
    let asking = Store::begin(&*store, Asked::at("", caller(2, 2).begin(5)));
    let (answer, ()) = futures_util::future::join(asking, async { drop(resume) }).await;
    first(answer);
    assert_eq!(store.occupancy().evictions, 1);
    first(Store::begin(&*store, Asked::at("", caller(1, 1).begin(2))).await);
}

#[tokio::test]
async fn without_its_coordinator_a_store_serves_what_needs_none() {
    let (store, _) = store(tight(), 2);
    store.directory.tell_coordinator(CoordinatorInput::Crash);
    until(|| store.ready().is_err()).await;
    for slot in 1..=4 {
        complete(&store, caller(0, slot).begin(slot)).await;
    }
    // Full, and the oldest is in the other shard: only the coordinator could find room.
    let answer = Store::begin(&*store, Asked::at("", caller(1, 1).begin(5))).await;
    assert_eq!(answer.err(), Some(StoreError::Down));
    assert_eq!(body(Store::begin(&*store, Asked::at("", caller(0, 1).begin(1))).await), "done");
    assert_eq!(store.occupancy().records, 4);
}

#[tokio::test]
async fn a_stopped_store_answers_what_was_sent_and_refuses_the_rest() {
    let (store, _) = store(tight(), 2);
    complete(&store, caller(0, 1).begin(1)).await;
    let ticket = first(Store::begin(&*store, Asked::at("", caller(0, 1).begin(2))).await);
    let asked = Store::begin(&*store, Asked::at("", caller(0, 1).begin(3)));
    let (answer, stopped) = futures_util::future::join(asked, store.stop()).await;
    first(answer);
    assert_eq!(stopped, Ok(()));
    let late = Store::begin(&*store, Asked::at("", caller(0, 1).begin(1))).await;
    assert_eq!(late.err(), Some(StoreError::Stopping));
    assert_eq!(store.complete(ticket, reply("late")).await, Err(StoreError::Stopping));
    assert_eq!(store.ready(), Err(StoreError::Stopping));
    assert_eq!(store.stop().await, Ok(()), "a second stop finds nothing to do");
}

#[tokio::test]
async fn a_begin_waits_no_longer_than_its_bound_and_leaves_nothing_behind() {
    let (store, _) = store(tight(), 1);
    let resume = stall(&store);
    // Time flies while everybody waits.
    tokio::time::pause();
    let begin = caller(0, 1).begin(1);
    assert_eq!(Store::begin(&*store, Asked::at("", begin)).await.err(), Some(StoreError::Timeout));
    tokio::time::resume();
    drop(resume);
    // Answered behind it: what came too late has been released by then, or is being.
    let ticket = first(Store::begin(&*store, Asked::at("", caller(0, 2).begin(1))).await);
    assert_eq!(store.release(ticket).await, Ok(Settled::Done));
    first(Store::begin(&*store, Asked::at("", begin)).await);
}

#[tokio::test]
async fn a_full_mailbox_makes_begins_wait_and_settles_pass() {
    let (store, _) = store(tight(), 1);
    let begin = caller(0, 1).begin(1);
    let ticket = first(Store::begin(&*store, Asked::at("", begin)).await);
    let resume = stall(&store);

    let over = MAILBOX_BEGINS + 10;
    let begins = futures_util::future::join_all(
        (0..over).map(|_| Store::begin(&*store, Asked::at("", begin))),
    );
    // All of them are sent in one poll, however many.
    let begins = tokio::task::unconstrained(begins);
    let settle = async {
        // Sent while the mailbox is full.
        assert_eq!(store.admissions[0].available_permits(), 0);
        let settle = store.complete(ticket, reply("done"));
        drop(resume);
        settle.await
    };
    let (answers, settled) = futures_util::future::join(begins, settle).await;
    assert_eq!(settled, Ok(Settled::Done));
    let in_flight = answers.iter().filter(|a| matches!(a, Ok(Begun::InFlight))).count();
    let replays = answers.iter().filter(|a| matches!(a, Ok(Begun::Replay(_)))).count();
    // Those that were in the mailbox came before the settle, the others after it.
    assert_eq!((in_flight, replays), (MAILBOX_BEGINS, 10));
    assert_eq!(store.admissions[0].available_permits(), MAILBOX_BEGINS);
}
