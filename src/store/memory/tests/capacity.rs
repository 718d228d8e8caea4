//! Quotas, isolation and eviction, within a shard and across shards.

use super::*;
use crate::claim::CapacityLimit;

fn refused(begun: Result<Begun, StoreError>) -> CapacityLimit {
    match begun {
        Ok(Begun::Capacity(limit)) => limit,
        other => panic!("{other:?} instead of a lack of capacity"),
    }
}

#[tokio::test]
async fn each_in_flight_cap_refuses_by_its_name() {
    let limits = Limits { scope_in_flight: 1, principal_in_flight: 2, in_flight: 3, ..small() };
    let (store, _) = store(limits, 2);
    let mut held =
        vec![first(Store::begin(&*store, Asked::at("", caller(0, 1).begin_in(0, 1, 0))).await)];
    let second = Store::begin(&*store, Asked::at("", caller(0, 1).begin_in(0, 2, 0))).await;
    assert_eq!(refused(second), CapacityLimit::ScopeInFlight);
    held.push(first(Store::begin(&*store, Asked::at("", caller(0, 1).begin_in(1, 3, 0))).await));
    let third = Store::begin(&*store, Asked::at("", caller(0, 1).begin_in(2, 4, 0))).await;
    assert_eq!(refused(third), CapacityLimit::PrincipalInFlight);
    held.push(first(Store::begin(&*store, Asked::at("", caller(1, 1).begin(1))).await));
    let fourth = Store::begin(&*store, Asked::at("", caller(1, 2).begin(1))).await;
    assert_eq!(refused(fourth), CapacityLimit::StoreInFlight);
    store.release(held.remove(0)).await.expect("released");
    first(Store::begin(&*store, Asked::at("", caller(1, 2).begin(1))).await);
}

#[tokio::test]
async fn a_reserved_tombstone_counts_and_is_given_back() {
    let limits = Limits { scope_tombstones: 1, ..small() };
    let (store, _) = store(limits, 1);
    let ticket = first(Store::begin(&*store, Asked::at("", caller(0, 1).begin(1))).await);
    let second = Store::begin(&*store, Asked::at("", caller(0, 1).begin(2))).await;
    assert_eq!(refused(second), CapacityLimit::ScopeTombstones);
    store.complete(ticket, reply("done")).await.expect("completed");
    drop(first(Store::begin(&*store, Asked::at("", caller(0, 1).begin(2))).await));
    let third = Store::begin(&*store, Asked::at("", caller(0, 1).begin(3))).await;
    assert_eq!(refused(third), CapacityLimit::ScopeTombstones);
    // What stands is served at every limit.
    assert_eq!(body(Store::begin(&*store, Asked::at("", caller(0, 1).begin(1))).await), "done");
    // Another scope is not touched.
    first(Store::begin(&*store, Asked::at("", caller(0, 1).begin_in(1, 1, 0))).await);
}

#[tokio::test]
async fn a_scope_at_its_limit_evicts_its_own_oldest_and_nobody_elses() {
    let limits = Limits { scope_entries: 2, principal_entries: 4, ..small() };
    let (store, _) = store(limits, 1);
    complete(&store, caller(0, 1).begin_in(1, 1, 0)).await;
    for slot in 1..=3 {
        complete(&store, caller(0, 1).begin(slot)).await;
    }
    assert_eq!(
        body(Store::begin(&*store, Asked::at("", caller(0, 1).begin_in(1, 1, 0))).await),
        "done"
    );
    assert_eq!(body(Store::begin(&*store, Asked::at("", caller(0, 1).begin(2))).await), "done");
    assert_eq!(body(Store::begin(&*store, Asked::at("", caller(0, 1).begin(3))).await), "done");
    assert_eq!(store.occupancy().evictions, 1);
    first(Store::begin(&*store, Asked::at("", caller(0, 1).begin(1))).await);
}

#[tokio::test]
async fn a_principal_at_its_limit_evicts_its_oldest_whatever_its_scope() {
    let limits = Limits { scope_entries: 2, principal_entries: 3, ..small() };
    let (store, _) = store(limits, 1);
    complete(&store, caller(0, 2).begin(1)).await;
    for scope in 0..4 {
        complete(&store, caller(0, 1).begin_in(scope, 1, 0)).await;
    }
    for scope in 1..4 {
        assert_eq!(
            body(Store::begin(&*store, Asked::at("", caller(0, 1).begin_in(scope, 1, 0))).await),
            "done"
        );
    }
    assert_eq!(body(Store::begin(&*store, Asked::at("", caller(0, 2).begin(1))).await), "done");
    first(Store::begin(&*store, Asked::at("", caller(0, 1).begin_in(0, 1, 0))).await);
}

/// A full store of three shards, filled in an order that crosses them.
async fn full_across_shards() -> (Arc<MemoryStore>, Vec<Begin>) {
    let limits = Limits {
        entries: 6,
        in_flight: 3,
        principal_entries: 6,
        principal_in_flight: 3,
        scope_entries: 6,
        scope_in_flight: 3,
        ..small()
    };
    let (store, _) = store(limits, 3);
    let order: Vec<_> =
        [2, 0, 1, 1, 2, 0].iter().zip(0..).map(|(s, n)| caller(*s, n).begin(n)).collect();
    for begin in &order {
        complete(&store, *begin).await;
    }
    (store, order)
}

#[tokio::test]
async fn a_newcomer_of_any_shard_takes_the_place_of_the_oldest() {
    let (store, order) = full_across_shards().await;
    let mut held = Vec::new();
    for (newcomer, oldest) in [1, 1, 0].into_iter().zip(0..) {
        held.push(first(
            Store::begin(&*store, Asked::at("", caller(newcomer, 50 + oldest).begin(1))).await,
        ));
        assert_eq!(store.occupancy().evictions, oldest + 1);
    }
    for kept in &order[3..] {
        assert_eq!(body(Store::begin(&*store, Asked::at("", *kept)).await), "done");
    }
    let refusal = Store::begin(&*store, Asked::at("", order[0])).await;
    assert_eq!(refused(refusal), CapacityLimit::StoreInFlight);
    let occupancy = store.occupancy();
    assert_eq!((occupancy.records, occupancy.in_flight, occupancy.completed), (6, 3, 3));
}

#[tokio::test]
async fn a_store_full_of_tombstones_refuses_and_what_is_due_elsewhere_makes_room() {
    let limits = Limits { entries: 64, ..small() };
    let (store, clock) = store(limits, 2);
    for number in 0..64 {
        drop(first(
            Store::begin(&*store, Asked::at("", caller(number % 2, number).begin(1))).await,
        ));
    }
    until(|| store.occupancy().in_flight == 0).await;
    let newcomer = caller(0, 100).begin(1);
    assert_eq!(
        refused(Store::begin(&*store, Asked::at("", newcomer)).await),
        CapacityLimit::StoreEntries
    );
    clock.advance(Millis(100));
    first(Store::begin(&*store, Asked::at("", newcomer)).await);
    assert_eq!(store.occupancy().evictions, 0);
}

#[tokio::test]
async fn what_expired_in_another_shard_is_swept_before_anything_is_evicted() {
    let limits = Limits {
        entries: 2,
        in_flight: 2,
        principal_entries: 2,
        principal_in_flight: 2,
        scope_entries: 2,
        scope_in_flight: 2,
        ..small()
    };
    let (store, clock) = store(limits, 2);
    complete(&store, caller(0, 1).begin(1)).await;
    clock.advance(Millis(60));
    complete(&store, caller(1, 1).begin(1)).await;
    clock.advance(Millis(40));
    // Shard 0 holds an expired record, shard 1 the only one that could be evicted.
    complete(&store, caller(1, 2).begin(1)).await;
    assert_eq!(store.occupancy().evictions, 0);
    assert_eq!(body(Store::begin(&*store, Asked::at("", caller(1, 1).begin(1))).await), "done");
}

#[tokio::test]
async fn a_million_entries_can_be_configured() {
    let limits = Limits { entries: 1_000_000, ..Limits::default() };
    let (store, _) = store(limits, 2);
    complete(&store, caller(1, 1).begin(1)).await;
    assert_eq!(body(Store::begin(&*store, Asked::at("", caller(1, 1).begin(1))).await), "done");
    assert_eq!(store.ready(), Ok(()));
}
