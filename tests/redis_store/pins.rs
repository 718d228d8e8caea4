//! Records that were claimed for another destination, and the route that a reply keeps.

use bytes::Bytes;
use onceward::claim::protocol::Pin;
use onceward::claim::{Begin, Dispatch};
use onceward::store::{Begun, Settled, Store};

use crate::support::{World, begin, elsewhere, ok, once, pinned, unknown};

/// Slot 0 in flight, 1 completed with a route, 2 unknown.
async fn standing(world: &World, pin: Pin) -> onceward::store::Ticket {
    let in_flight = world.first(pinned(begin(0), pin)).await;
    let completed = world.first(pinned(begin(1), pin)).await;
    let reply = ok().with_route(Bytes::from_static(br#"{"connector":"stripe"}"#));
    assert_eq!(world.store.complete(completed, reply).await, Ok(Settled::Done));
    let ticket = world.first(pinned(begin(2), pin)).await;
    unknown(&world.store, ticket).await;
    in_flight
}

fn route(begun: Begun) -> Option<Bytes> {
    match begun {
        Begun::Replay(reply) => reply.route().cloned(),
        other => panic!("no replay: {other:?}"),
    }
}

#[tokio::test]
async fn a_pin_that_always_holds_refuses_every_other_destination() {
    let world = World::new();
    let _running = standing(&world, Pin::Always).await;
    for slot in 0..3 {
        let other = world.begin(elsewhere(pinned(begin(slot), Pin::Always))).await;
        assert!(matches!(other, Begun::OtherRoute), "slot {slot}: {other:?}");
        let none = Dispatch { hash: None, ..pinned(begin(slot), Pin::Always).dispatch };
        let undeclared = world.begin(Begin { dispatch: none, ..begin(slot) }).await;
        assert!(matches!(undeclared, Begun::OtherRoute), "slot {slot}: {undeclared:?}");
    }
    let same = |slot| world.begin(once(pinned(begin(slot), Pin::Always)));
    assert!(matches!(same(0).await, Begun::InFlight));
    assert!(route(same(1).await).is_some());
    assert!(matches!(same(2).await, Begun::Unknown));
}

#[tokio::test]
async fn an_open_pin_replays_with_the_old_route_and_refuses_what_has_no_reply() {
    let world = World::new();
    let _running = standing(&world, Pin::Open).await;
    let other = |slot| world.begin(elsewhere(pinned(begin(slot), Pin::Open)));
    assert!(matches!(other(0).await, Begun::OtherRoute));
    let expected = Bytes::from_static(br#"{"connector":"stripe"}"#);
    assert_eq!(route(other(1).await), Some(expected));
    assert!(matches!(other(2).await, Begun::OtherRoute));
}

#[tokio::test]
async fn without_a_pin_only_a_redispatch_compares() {
    let world = World::new();
    let _running = standing(&world, Pin::Free).await;
    let other = |slot| world.begin(elsewhere(begin(slot)));
    assert!(matches!(other(0).await, Begun::InFlight));
    assert!(route(other(1).await).is_some());
    assert!(matches!(other(2).await, Begun::OtherRoute));
    assert!(matches!(world.begin(once(elsewhere(begin(2)))).await, Begun::Unknown));
    let hash = onceward::claim::RequestHash::from_bytes([9; 32]);
    let conflict = world.begin(Begin { hash, ..elsewhere(pinned(begin(0), Pin::Always)) }).await;
    assert!(matches!(conflict, Begun::Conflict), "another call is that before all else");
}

#[tokio::test]
async fn a_record_that_declares_nothing_keeps_nothing_more() {
    let world = World::new();
    let plain = Begin { dispatch: Dispatch::UNDECLARED, ..begin(0) };
    let ticket = world.first(plain).await;
    assert_eq!(world.store.complete(ticket, ok()).await, Ok(Settled::Done));
    let kept = [&plain].map(|begin| {
        ["dispatch", "attempts", "again", "route", "receipt"].map(|name| world.field(*begin, name))
    });
    assert_eq!(kept, [[None, None, None, None, None]]);
    assert_eq!(route(world.begin(plain).await), None);
}
