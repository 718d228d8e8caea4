//! `on_unknown: redispatch`: a slot of an unknown outcome is taken again, by its own call alone.

use futures_util::future::join_all;
use onceward::claim::{Begin, CapacityLimit, Limits, RequestHash, TombstoneReason};
use onceward::store::{Begun, Settled, Store};

use crate::support::{
    LEASE, TOMBSTONE_TTL, World, begin, behind_a_proxy, elsewhere, ok, once, room, unknown,
};

#[tokio::test]
async fn what_is_unknown_is_taken_again_by_the_same_call_alone() {
    let world = World::new();
    let ticket = world.first(begin(0)).await;
    assert_eq!(ticket.attempt(), 1);
    unknown(&world.store, ticket).await;
    let other = Begin { hash: RequestHash::from_bytes([9; 32]), ..begin(0) };
    assert!(matches!(world.begin(once(begin(0))).await, Begun::Unknown));
    assert!(matches!(world.begin(elsewhere(begin(0))).await, Begun::OtherRoute));
    assert!(matches!(world.begin(other).await, Begun::Conflict));
    let again = world.first(begin(0)).await;
    assert_eq!(again.attempt(), 2);
    assert_eq!(world.sets(), [1, 0, 0], "the tombstone has become the reservation");
    assert!(matches!(world.begin(begin(0)).await, Begun::InFlight));
    assert_eq!(world.store.complete(again, ok()).await, Ok(Settled::Done));
    assert!(matches!(world.begin(begin(0)).await, Begun::Replay(_)));
    assert_eq!(world.sets(), [0, 1, 0]);
}

#[tokio::test]
async fn a_lapsed_claim_is_unknown_and_its_old_ticket_is_stale_once_it_is_taken_again() {
    let world = World::new();
    let mut tickets = Vec::new();
    for slot in 0..4 {
        tickets.push(world.first(begin(slot)).await);
    }
    world.advance(LEASE);
    for slot in 0..4 {
        assert!(matches!(world.begin(once(begin(slot))).await, Begun::Unknown));
    }
    let mut again = Vec::new();
    for slot in 0..4 {
        let ticket = world.first(begin(slot)).await;
        assert_eq!(ticket.attempt(), 2);
        again.push(ticket);
    }
    let mut old = tickets.into_iter();
    let mut next = || old.next().expect("a ticket");
    assert_eq!(world.store.complete(next(), ok()).await, Ok(Settled::Stale));
    assert_eq!(world.store.release(next()).await, Ok(Settled::Stale));
    let settled = world.store.tombstone(next(), TombstoneReason::Unknown).await;
    assert_eq!(settled, Ok(Settled::Stale));
    let mut late = next();
    assert_eq!(world.store.reserve_attempt(&mut late).await, Ok(Settled::Stale));
    drop(late);
    for slot in 0..4 {
        assert!(matches!(world.begin(begin(slot)).await, Begun::InFlight), "slot {slot}");
        assert_eq!(world.field(begin(slot), "attempts").as_deref(), Some("2"));
    }
    assert_eq!(world.sets(), [4, 0, 0]);
}

#[tokio::test]
async fn a_reply_that_was_not_kept_is_never_asked_for_again() {
    let world = World::new();
    let ticket = world.first(begin(0)).await;
    let settled = world.store.tombstone(ticket, TombstoneReason::NotReplayable).await;
    assert_eq!(settled, Ok(Settled::Done));
    assert!(matches!(world.begin(begin(0)).await, Begun::NotReplayable));
    assert!(matches!(world.begin(elsewhere(begin(0))).await, Begun::NotReplayable));
}

#[tokio::test]
async fn what_was_taken_again_is_never_released() {
    let world = World::new();
    let first = world.first(begin(0)).await;
    unknown(&world.store, first).await;
    world.advance(TOMBSTONE_TTL - 1);
    let again = world.first(begin(0)).await;
    assert_eq!(world.store.release(again).await, Ok(Settled::Done));
    assert_eq!(world.sets(), [0, 0, 1]);
    // For a full time from then on.
    world.advance(TOMBSTONE_TTL - 1);
    assert!(matches!(world.begin(once(begin(0))).await, Begun::Unknown));
    let third = world.first(begin(0)).await;
    assert_eq!(third.attempt(), 3);
    unknown(&world.store, third).await;
    world.advance(TOMBSTONE_TTL);
    let afresh = world.first(begin(0)).await;
    assert_eq!(afresh.attempt(), 1);
    assert_eq!(world.store.release(afresh).await, Ok(Settled::Done));
    assert!(world.field(begin(0), "state").is_none(), "what never was unknown is freed");
}

#[tokio::test]
async fn of_many_who_would_take_it_again_one_does() {
    let world = World::new();
    let other = world.another(|_| {});
    for round in 0..5 {
        let ticket = world.first(begin(round)).await;
        unknown(&world.store, ticket).await;
        let worlds = [&world, &other];
        let all = join_all((0..8).map(|number| worlds[number % 2].begin(begin(round)))).await;
        let (first, rest): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|begun| matches!(begun, Begun::First(_)));
        assert_eq!(first.len(), 1);
        assert!(rest.iter().all(|begun| matches!(begun, Begun::InFlight)), "{rest:?}");
        assert_eq!(world.field(begin(round), "attempts").as_deref(), Some("2"));
    }
}

#[tokio::test]
async fn it_needs_room_in_flight_and_no_other() {
    // One tombstone and two records: full, and nothing that could be evicted but the reply.
    let limits = Limits { scope_in_flight: 1, scope_tombstones: 1, ..room(2) };
    let world = World::with(limits, |_| {});
    let ticket = world.first(begin(0)).await;
    assert_eq!(world.store.complete(ticket, ok()).await, Ok(Settled::Done));
    let ticket = world.first(begin(1)).await;
    unknown(&world.store, ticket).await;
    let again = world.first(begin(1)).await;
    assert!(matches!(world.begin(begin(0)).await, Begun::Replay(_)), "nothing was evicted");
    unknown(&world.store, again).await;

    let roomy = Limits { scope_in_flight: 1, ..room(9) };
    let world = World::with(roomy, |_| {});
    let ticket = world.first(begin(1)).await;
    unknown(&world.store, ticket).await;
    let _running = world.first(begin(2)).await;
    let full = world.begin(begin(1)).await;
    assert!(matches!(full, Begun::Capacity(CapacityLimit::ScopeInFlight)), "{full:?}");
    assert!(matches!(world.begin(once(begin(1))).await, Begun::Unknown), "and nothing has changed");
}

#[tokio::test]
async fn a_begin_whose_answer_was_lost_reserves_no_second_attempt() {
    let (world, proxy) = behind_a_proxy(room(9)).await;
    let ticket = world.first(begin(0)).await;
    unknown(&world.store, ticket).await;
    proxy.lose_the_reply_to("redispatch");
    let again = world.first(begin(0)).await;
    proxy.lost().await;
    assert_eq!(again.attempt(), 2);
    assert_eq!(world.field(begin(0), "attempts").as_deref(), Some("2"));
    assert_eq!(world.store.complete(again, ok()).await, Ok(Settled::Done));
}

#[tokio::test]
async fn a_begin_that_hears_of_its_claim_too_late_takes_nothing_again() {
    let (world, proxy) = behind_a_proxy(room(9)).await;
    proxy.lose_the_reply_and_shut("redispatch");
    let mut begun = Box::pin(world.begin(begin(0)));
    tokio::select! {
        begun = &mut begun => panic!("nobody can have answered: {begun:?}"),
        () = proxy.lost() => {}
    }
    world.advance(LEASE);
    proxy.open();
    assert!(matches!(begun.await, Begun::Unknown), "its lease is over");
    assert_eq!(world.field(begin(0), "attempts"), None, "it has one attempt");
    assert_eq!(world.first(begin(0)).await.attempt(), 2);
}

#[tokio::test]
async fn a_release_that_leaves_it_unknown_may_be_said_twice() {
    let (world, proxy) = behind_a_proxy(room(9)).await;
    let ticket = world.first(begin(0)).await;
    unknown(&world.store, ticket).await;
    let again = world.opened(begin(0)).await;
    proxy.lose_the_reply_to("t:idem:");
    assert_eq!(world.store.release(again).await, Ok(Settled::Done));
    proxy.lost().await;
    assert!(matches!(world.begin(once(begin(0))).await, Begun::Unknown));
    assert_eq!(world.sets(), [0, 0, 1]);
}
