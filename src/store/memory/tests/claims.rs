//! One slot: who gets it, what it answers, and how a ticket ends.

use futures_util::FutureExt;
use futures_util::future::join_all;

use super::*;
use crate::claim::TombstoneReason;
use crate::store::Settled;
use crate::store::memory::shard::ShardInput;

#[tokio::test]
async fn of_many_begins_on_one_slot_exactly_one_is_first() {
    let (store, _) = store(small(), 2);
    let begin = caller(0, 1).begin(1);
    let answers = join_all((0..64).map(|_| Store::begin(&*store, Asked::at("", begin)))).await;
    let firsts = answers.iter().filter(|a| matches!(a, Ok(Begun::First(_)))).count();
    let in_flight = answers.iter().filter(|a| matches!(a, Ok(Begun::InFlight))).count();
    assert_eq!((firsts, in_flight), (1, 63));
}

#[tokio::test]
async fn a_slot_answers_by_its_record() {
    let (store, _) = store(small(), 2);
    let begin = caller(1, 1).begin(1);
    let other = caller(1, 1).begin_in(0, 1, 9);
    let ticket = first(Store::begin(&*store, Asked::at("", begin)).await);
    assert!(matches!(Store::begin(&*store, Asked::at("", begin)).await, Ok(Begun::InFlight)));
    assert!(matches!(Store::begin(&*store, Asked::at("", other)).await, Ok(Begun::Conflict)));

    assert_eq!(store.complete(ticket, reply("paid")).await, Ok(Settled::Done));
    assert_eq!(body(Store::begin(&*store, Asked::at("", begin)).await), "paid");
    assert!(matches!(Store::begin(&*store, Asked::at("", other)).await, Ok(Begun::Conflict)));

    let kept = caller(1, 1).begin(2);
    let ticket = first(Store::begin(&*store, Asked::at("", kept)).await);
    let settled = store.tombstone(ticket, TombstoneReason::NotReplayable).await;
    assert_eq!(settled, Ok(Settled::Done));
    assert!(matches!(Store::begin(&*store, Asked::at("", kept)).await, Ok(Begun::NotReplayable)));
    let conflicting = caller(1, 1).begin_in(0, 2, 9);
    assert!(matches!(Store::begin(&*store, Asked::at("", conflicting)).await, Ok(Begun::Conflict)));

    let freed = caller(1, 1).begin(3);
    let ticket = first(Store::begin(&*store, Asked::at("", freed)).await);
    assert_eq!(store.release(ticket).await, Ok(Settled::Done));
    first(Store::begin(&*store, Asked::at("", freed)).await);
}

#[tokio::test]
async fn a_reply_is_gone_at_its_ttl_and_a_tombstone_at_its_own() {
    let limits = Limits { tombstone_ttl: Millis(150), ..small() };
    let (store, clock) = store(limits, 1);
    let (replied, lost) = (caller(0, 1).begin(1), caller(0, 1).begin(2));
    complete(&store, replied).await;
    let ticket = first(Store::begin(&*store, Asked::at("", lost)).await);
    assert_eq!(store.tombstone(ticket, TombstoneReason::Unknown).await, Ok(Settled::Done));

    clock.advance(Millis(99));
    assert_eq!(body(Store::begin(&*store, Asked::at("", replied)).await), "done");
    clock.advance(Millis(1));
    first(Store::begin(&*store, Asked::at("", replied)).await);
    clock.advance(Millis(49));
    assert!(matches!(Store::begin(&*store, Asked::at("", lost)).await, Ok(Begun::Unknown)));
    clock.advance(Millis(1));
    first(Store::begin(&*store, Asked::at("", lost)).await);
}

#[tokio::test]
async fn a_dropped_ticket_is_unknown() {
    let (store, _) = store(small(), 2);
    let begin = caller(0, 1).begin(1);
    drop(first(Store::begin(&*store, Asked::at("", begin)).await));
    assert!(matches!(Store::begin(&*store, Asked::at("", begin)).await, Ok(Begun::Unknown)));
    let occupancy = store.occupancy();
    assert_eq!((occupancy.records, occupancy.in_flight, occupancy.tombstones), (1, 0, 1));
}

#[tokio::test]
async fn a_settle_that_is_never_polled_is_unknown() {
    let (store, _) = store(small(), 1);
    let begin = caller(0, 1).begin(1);
    let ticket = first(Store::begin(&*store, Asked::at("", begin)).await);
    drop(store.complete(ticket, reply("never sent")));
    assert!(matches!(Store::begin(&*store, Asked::at("", begin)).await, Ok(Begun::Unknown)));
}

#[tokio::test]
async fn a_settle_lands_although_nobody_awaits_it() {
    let (store, _) = store(small(), 1);
    let begin = caller(0, 1).begin(1);
    let ticket = first(Store::begin(&*store, Asked::at("", begin)).await);
    let mut settle = store.complete(ticket, reply("sent"));
    // One poll sends it.
    let _ = (&mut settle).now_or_never();
    drop(settle);
    // The first begin may pass the settle only if it is answered by the shard after it.
    assert_eq!(body(Store::begin(&*store, Asked::at("", begin)).await), "sent");
}

#[tokio::test]
async fn a_claim_that_nobody_received_is_released() {
    let (store, _) = store(small(), 1);
    let begin = caller(0, 1).begin(1);
    let in_mailbox = store.admissions[0].clone().acquire_owned().await.expect("open");
    let (reply, asking) = tokio::sync::oneshot::channel();
    store.directory.tell_shard(0, ShardInput::Begin { begin, receipt: None, reply, in_mailbox });
    // The shard has answered once a begin behind it has been.
    let behind = caller(0, 2).begin(1);
    drop(first(Store::begin(&*store, Asked::at("", behind)).await));
    assert!(matches!(Store::begin(&*store, Asked::at("", begin)).await, Ok(Begun::InFlight)));
    drop(asking);
    first(Store::begin(&*store, Asked::at("", begin)).await);
}

#[tokio::test]
async fn a_claim_that_came_after_its_caller_left_is_released() {
    let (store, _) = store(small(), 1);
    for slot in 0..200 {
        let begin = caller(0, 1).begin(slot);
        let mut asking = Store::begin(&*store, Asked::at("", begin));
        match (&mut asking).now_or_never() {
            None => drop(asking),
            // Answered within its first poll, it was delivered.
            Some(Ok(Begun::First(ticket))) => drop(store.release(ticket).await),
            Some(_) => {}
        }
    }
    // A begin behind them all; when it is answered, so are they.
    let behind = first(Store::begin(&*store, Asked::at("", caller(0, 2).begin(1))).await);
    store.release(behind).await.expect("released");
    // Nothing was handed out, so nothing may stay, wherever the answer was when its caller left.
    until(|| store.occupancy().records == 0).await;
    first(Store::begin(&*store, Asked::at("", caller(0, 1).begin(0))).await);
}

#[tokio::test]
async fn a_settle_by_an_old_ticket_is_stale() {
    let (store, _) = store(small(), 1);
    let begin = caller(0, 1).begin(1);
    let ticket = first(Store::begin(&*store, Asked::at("", begin)).await);
    let (slot, fence, home, _) = ticket.into_parts();
    let ticket_again = |fence| Ticket::new(slot, fence, home, store.directory.clone());
    assert_eq!(store.release(ticket_again(fence)).await, Ok(Settled::Done));
    let second = first(Store::begin(&*store, Asked::at("", begin)).await);

    assert_eq!(store.complete(ticket_again(fence), reply("old")).await, Ok(Settled::Stale));
    assert!(matches!(Store::begin(&*store, Asked::at("", begin)).await, Ok(Begun::InFlight)));
    assert_eq!(store.complete(second, reply("new")).await, Ok(Settled::Done));
    assert_eq!(store.release(ticket_again(fence)).await, Ok(Settled::Stale));
    assert_eq!(body(Store::begin(&*store, Asked::at("", begin)).await), "new");
}
