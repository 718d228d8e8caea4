//! Attempts are reserved one after the other, under a claim that runs.

use std::sync::Arc;
use std::time::Duration;

use onceward::claim::TombstoneReason;
use onceward::store::receipt::{AttemptEnd, AttemptResult};
use onceward::store::{Begun, Settled, Store, StoreError};

use crate::support::{
    LEASE, RedisServer, World, all_receipts, begin, behind_a_proxy, eventually, ok, once, room,
    settings,
};

fn failed() -> AttemptEnd {
    AttemptEnd::after(AttemptResult::Unsent, Duration::from_millis(3))
}

#[tokio::test]
async fn each_has_the_next_number() {
    let world = World::new();
    let mut ticket = world.first(begin(0)).await;
    for number in 2..=4 {
        assert_eq!(world.store.reserve_attempt(&mut ticket).await, Ok(Settled::Done));
        assert_eq!(ticket.attempt(), number);
        assert_eq!(world.field(begin(0), "attempts"), Some(number.to_string()));
    }
    // One that the store has not seen the number before of is none.
    let key = format!("HSET t:idem:{{uid-1}}:{} attempts 9", begin(0).slot);
    let _: u32 = world.server.command(&key);
    assert_eq!(world.store.reserve_attempt(&mut ticket).await, Ok(Settled::Stale));
    assert!(!ticket.is_held(), "nothing may be sent");
    assert_eq!(world.field(begin(0), "attempts").as_deref(), Some("9"));
}

#[tokio::test]
async fn a_reservation_begins_the_lease_anew() {
    let world = World::new();
    let mut ticket = world.first(begin(0)).await;
    world.advance(LEASE - 1);
    assert_eq!(world.store.reserve_attempt(&mut ticket).await, Ok(Settled::Done));
    world.advance(LEASE - 1);
    assert!(matches!(world.begin(once(begin(0))).await, Begun::InFlight));
    world.advance(1);
    assert_eq!(world.store.reserve_attempt(&mut ticket).await, Ok(Settled::Stale));
    assert!(!ticket.is_held());
    assert!(matches!(world.begin(once(begin(0))).await, Begun::Unknown));
    assert_eq!(world.field(begin(0), "attempts").as_deref(), Some("2"));
    assert_eq!(world.sets(), [1, 0, 0]);
    assert_eq!(world.store.complete(ticket, ok()).await, Ok(Settled::Done));
}

#[tokio::test]
async fn one_whose_answer_was_lost_is_asked_for_again_and_counts_once() {
    let (world, proxy) = behind_a_proxy(room(9)).await;
    let mut ticket = world.opened(begin(0)).await;
    ticket.ended(failed());
    proxy.lose_the_reply_to("ended");
    assert_eq!(world.store.reserve_attempt(&mut ticket).await, Ok(Settled::Done));
    proxy.lost().await;
    assert_eq!(world.field(begin(0), "attempts").as_deref(), Some("2"));
    assert_eq!(world.store.complete(ticket, ok()).await, Ok(Settled::Done));
    let page = world.store.receipts(all_receipts()).await.expect("a page");
    let [receipt] = &page.receipts[..] else { panic!("{page:?}") };
    let attempts: Vec<_> = receipt.attempts.iter().map(|a| (a.number, a.end)).collect();
    assert_eq!(attempts, [(1, Some(failed())), (2, None)]);
}

#[tokio::test]
async fn without_memory_for_it_none_is_reserved_and_the_claim_still_settles() {
    let world = World::new();
    let mut ticket = world.opened(begin(0)).await;
    let other = world.opened(begin(1)).await;
    let _: String = world.server.command("CONFIG SET maxmemory 1");
    ticket.ended(failed());
    assert_eq!(world.store.reserve_attempt(&mut ticket).await, Err(StoreError::Refused));
    assert_eq!(world.field(begin(0), "attempts"), None);
    assert_eq!(world.store.release(other).await, Ok(Settled::Done));
    // As the gateway says of one that it could not reserve; the one before was sent.
    ticket.untried();
    let settled = world.store.tombstone(ticket, TombstoneReason::Unknown).await;
    assert_eq!(settled, Ok(Settled::Done));
    let page = world.store.receipts(all_receipts()).await.expect("a page");
    let told = page.receipts.iter().find(|r| r.attempt_count == 1 && r.attempts[0].end.is_some());
    assert!(told.is_some(), "what the reservation would have told is told later: {page:?}");
}

#[tokio::test]
async fn one_that_too_few_replicas_have_is_not_granted() {
    let forgetful = ["--save", "", "--repl-diskless-sync-delay", "0"];
    let primary = Arc::new(RedisServer::with(&forgetful));
    let port = primary.port().to_string();
    let replica =
        RedisServer::with(&[&forgetful[..], &["--replicaof", "127.0.0.1", &port]].concat());
    eventually("the replica to be in step", || async {
        let _: String = primary.command("SET probe 1");
        (primary.command::<u32>("WAIT 1 100") == 1).then_some(())
    })
    .await;
    let mut settings = settings(&primary.url());
    (settings.wait_replicas, settings.timeout) = (1, Duration::from_secs(10));
    let world = World::on(primary, room(9), settings);
    let mut ticket = world.first(begin(0)).await;
    assert_eq!(world.store.reserve_attempt(&mut ticket).await, Ok(Settled::Done));
    replica.signal("STOP");
    let refused = world.store.reserve_attempt(&mut ticket).await;
    replica.signal("CONT");
    assert_eq!(refused, Err(StoreError::Unreplicated));
    assert_eq!(world.store.release(ticket).await, Ok(Settled::Done));
}
