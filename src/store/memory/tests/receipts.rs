//! Receipts: what they say of a claim, how many are kept and for how long, and how they are read.

use std::time::Duration;

use jiff::Timestamp;
use smallvec::smallvec;

use super::*;
use crate::claim::{DispatchHash, Fence, Pin, TombstoneReason};
use crate::store::memory::receipts::{ClaimOf, MAX_SCAN};
use crate::store::memory::shard::ShardInput;
use crate::store::receipt::{
    Attempt, AttemptEnd, AttemptResult, MAX_LISTED_ATTEMPTS, MAX_RECEIPT_PAGE, Opening,
    ReceiptOutcome,
};
use crate::store::{Domain, Receipt, ReceiptId, ReceiptPage, ReceiptQuery, Settled};

const DOMAIN: Domain<'_> = Domain::Server("uid-1");

/// A store that keeps so many receipts for a minute.
fn keeping(entries: u32) -> (Arc<MemoryStore>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let settings = ReceiptSettings { entries, retention: Duration::from_secs(60) };
    let shared = Arc::clone(&clock) as Arc<dyn Clock>;
    (MemoryStore::start(small(), settings, 2, shared).expect("a thread"), clock)
}

/// A tool that may be sent again after an unknown outcome.
fn again(begin: Begin) -> Begin {
    let hash = Some(DispatchHash::from_bytes([7; 32]));
    Begin { dispatch: Dispatch { hash, pin: Pin::Free, redispatch: true }, ..begin }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("a time")
}

fn opening(begin: Begin) -> Opening {
    Opening {
        key: None,
        key_hash: begin.slot,
        request_hash: begin.hash,
        workspace: None,
        human: Some("ada".into()),
        agent: None,
        team: None,
        session: None,
        namespace: "".into(),
        server: "payments".into(),
        tool: "charge".into(),
        route: None,
        binding: None,
        opened_at: at(0),
    }
}

fn asked(begin: Begin, opening: Opening) -> Asked<'static> {
    Asked { domain: DOMAIN, begin, opening: Some(Box::new(opening)) }
}

/// Begins with a receipt.
async fn begin(store: &MemoryStore, begin: Begin) -> Result<Begun, StoreError> {
    Store::begin(store, asked(begin, opening(begin))).await
}

async fn page(store: &MemoryStore, query: ReceiptQuery) -> ReceiptPage {
    store.receipts(query).await.expect("a page")
}

async fn all(store: &MemoryStore) -> Vec<Receipt> {
    page(store, ReceiptQuery { limit: MAX_RECEIPT_PAGE, ..ReceiptQuery::default() }).await.receipts
}

/// The one receipt that there is.
async fn only(store: &MemoryStore) -> Receipt {
    let mut all = all(store).await;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn numbers(receipt: &Receipt) -> Vec<u32> {
    receipt.attempts.iter().map(|attempt| attempt.number).collect()
}

fn after(result: AttemptResult, ms: u64) -> AttemptEnd {
    AttemptEnd::after(result, Duration::from_millis(ms))
}

#[tokio::test]
async fn a_claim_opens_one_and_nothing_else_does() {
    let (store, _) = keeping(8);
    let (call, other) = (caller(0, 1).begin(1), caller(0, 1).begin_in(0, 1, 9));
    let ticket = first(begin(&store, call).await);
    let opened = Receipt {
        id: only(&store).await.id,
        opening: opening(call),
        attempt_count: 1,
        attempts: smallvec![Attempt { number: 1, reserved_at: at(0), end: None }],
        outcome: ReceiptOutcome::InFlight,
        settled_at: None,
    };
    assert_eq!(only(&store).await, opened);
    assert!(opened.id.is_of(&DOMAIN) && !opened.id.is_of(&Domain::Server("uid-2")));
    assert_eq!(ReceiptId::parse(&opened.id.to_string()), Some(opened.id.clone()));
    assert_eq!(store.receipt(opened.id.clone()).await, Ok(Some(opened.clone())));
    let unknown = ReceiptId::new(&DOMAIN, [0; 16]);
    assert_eq!(store.receipt(unknown).await, Ok(None));

    assert!(matches!(begin(&store, call).await, Ok(Begun::InFlight)));
    assert!(matches!(begin(&store, other).await, Ok(Begun::Conflict)));
    assert_eq!(store.complete(ticket, reply("paid")).await, Ok(Settled::Done));
    assert_eq!(body(begin(&store, call).await), "paid");
    assert_eq!(only(&store).await.id, opened.id);

    // Nor does a claim that asks for none, and its settle tells nobody's.
    let silent = first(Store::begin(&*store, Asked::at("uid-1", caller(0, 1).begin(2))).await);
    assert_eq!(store.release(silent).await, Ok(Settled::Done));
    assert_eq!(only(&store).await.outcome, ReceiptOutcome::Completed);
}

#[tokio::test]
async fn a_settle_says_what_the_claim_came_to_and_how_its_attempts_ended() {
    let (store, _) = keeping(8);
    let before = Timestamp::now();
    let mut ticket = first(begin(&store, caller(0, 1).begin(1)).await);
    ticket.ended(after(AttemptResult::Unsent, 5));
    assert_eq!(store.reserve_attempt(&mut ticket).await, Ok(Settled::Done));

    // The reservation is written when it returns, with what it knows of the attempt before.
    let reserved = only(&store).await;
    assert_eq!((reserved.attempt_count, numbers(&reserved)), (2, vec![1, 2]));
    assert_eq!(reserved.attempts[0].end, Some(after(AttemptResult::Unsent, 5)));
    assert_eq!((reserved.attempts[1].end, reserved.outcome), (None, ReceiptOutcome::InFlight));
    assert!(reserved.attempts[1].reserved_at >= before);

    ticket.ended(after(AttemptResult::Replied(201), 40));
    assert_eq!(store.complete(ticket, reply("paid")).await, Ok(Settled::Done));
    let settled = only(&store).await;
    assert_eq!(settled.attempts[1].end, Some(after(AttemptResult::Replied(201), 40)));
    assert_eq!((settled.attempt_count, settled.outcome), (2, ReceiptOutcome::Completed));
    assert!(settled.settled_at.is_some_and(|at| at >= before));
}

#[tokio::test]
async fn each_end_has_its_word() {
    let (store, _) = keeping(8);
    let ends: [(u64, ReceiptOutcome); 5] = [
        (1, ReceiptOutcome::Completed),
        (2, ReceiptOutcome::Unknown),
        (3, ReceiptOutcome::NotReplayable),
        (4, ReceiptOutcome::Released),
        (5, ReceiptOutcome::Unknown),
    ];
    for (slot, expected) in ends {
        let ticket = first(begin(&store, caller(0, 1).begin(slot)).await);
        let settled = match slot {
            1 => store.complete(ticket, reply("done")).await,
            2 => store.tombstone(ticket, TombstoneReason::Unknown).await,
            3 => store.tombstone(ticket, TombstoneReason::NotReplayable).await,
            4 => store.release(ticket).await,
            _ => {
                drop(ticket);
                Ok(Settled::Done)
            }
        };
        assert_eq!(settled, Ok(Settled::Done));
        let newest = all(&store).await.remove(0);
        assert_eq!((newest.outcome, newest.attempt_count), (expected, 1));
        assert_eq!(newest.attempts[0].end, None, "nobody said how it ended");
        assert!(newest.settled_at.is_some());
    }
}

#[tokio::test]
async fn an_attempt_without_a_connection_is_taken_back() {
    let (store, _) = keeping(8);
    let mut ticket = first(begin(&store, caller(0, 1).begin(1)).await);
    ticket.untried();
    assert_eq!(store.release(ticket).await, Ok(Settled::Done));
    let released = only(&store).await;
    assert_eq!((released.attempt_count, numbers(&released)), (0, vec![]));
    assert_eq!(released.outcome, ReceiptOutcome::Released);

    // The second one is taken back alone.
    let mut ticket = first(begin(&store, caller(0, 1).begin(2)).await);
    ticket.ended(after(AttemptResult::Unsent, 5));
    assert_eq!(store.reserve_attempt(&mut ticket).await, Ok(Settled::Done));
    ticket.untried();
    assert_eq!(store.release(ticket).await, Ok(Settled::Done));
    let released = all(&store).await.remove(0);
    assert_eq!((released.attempt_count, numbers(&released)), (1, vec![1]));
    assert_eq!(released.attempts[0].end, Some(after(AttemptResult::Unsent, 5)));
}

#[tokio::test]
async fn a_claim_that_nobody_received_was_released_without_an_attempt() {
    let (store, _) = keeping(8);
    let call = caller(0, 1).begin(1);
    let receipt = store.receipts.draft(&DOMAIN, Some(Box::new(opening(call)))).expect("a name");
    let in_mailbox = store.admissions[0].clone().acquire_owned().await.expect("open");
    let (reply, asking) = tokio::sync::oneshot::channel();
    let input = ShardInput::Begin { begin: call, receipt, reply, in_mailbox };
    store.directory.tell_shard(0, input);
    drop(asking);
    until(|| store.occupancy().records == 0).await;
    let released = only(&store).await;
    assert_eq!((released.attempt_count, released.outcome), (0, ReceiptOutcome::Released));
}

#[tokio::test]
async fn a_redispatch_goes_on_with_its_receipt() {
    let (store, _) = keeping(8);
    let call = again(caller(0, 1).begin(1));
    let mut ticket = first(begin(&store, call).await);
    ticket.ended(after(AttemptResult::Timeout, 60_000));
    assert_eq!(store.tombstone(ticket, TombstoneReason::Unknown).await, Ok(Settled::Done));
    let unknown = only(&store).await;

    let later = Opening { opened_at: at(9), ..opening(call) };
    let mut ticket = first(Store::begin(&*store, asked(call, later)).await);
    assert_eq!(ticket.attempt(), 2, "attempt numbers go on");
    let retried = only(&store).await;
    assert_eq!((&retried.id, &retried.opening), (&unknown.id, &unknown.opening));
    assert_eq!((retried.outcome, retried.settled_at), (ReceiptOutcome::InFlight, None));
    assert_eq!(retried.attempts[0], unknown.attempts[0]);
    assert_eq!(retried.attempts[1], Attempt { number: 2, reserved_at: at(9), end: None });

    ticket.ended(after(AttemptResult::Replied(503), 8));
    assert_eq!(store.reserve_attempt(&mut ticket).await, Ok(Settled::Done));
    ticket.ended(after(AttemptResult::Replied(200), 9));
    assert_eq!(store.complete(ticket, reply("paid")).await, Ok(Settled::Done));
    let done = only(&store).await;
    assert_eq!((done.attempt_count, numbers(&done)), (3, vec![1, 2, 3]));
    assert_eq!(done.outcome, ReceiptOutcome::Completed);
    assert_eq!(body(begin(&store, call).await), "paid");
}

#[tokio::test]
async fn a_released_redispatch_is_unknown_again() {
    let (store, clock) = keeping(8);
    let call = again(caller(0, 1).begin(1));
    drop(first(begin(&store, call).await));
    clock.advance(Millis(60));
    let mut ticket = first(begin(&store, call).await);
    ticket.untried();
    assert_eq!(store.release(ticket).await, Ok(Settled::Done));
    let receipt = only(&store).await;
    assert_eq!((receipt.outcome, receipt.attempt_count), (ReceiptOutcome::Unknown, 1));

    // It stands for the whole of `tombstone_ttl`, from then on.
    let plain = Begin { dispatch: Dispatch { redispatch: false, ..call.dispatch }, ..call };
    clock.advance(Millis(99));
    assert!(matches!(begin(&store, plain).await, Ok(Begun::Unknown)));
    let ticket = first(begin(&store, call).await);
    assert_eq!(ticket.attempt(), 2, "the number that was taken back");
    assert_eq!(store.complete(ticket, reply("paid")).await, Ok(Settled::Done));
    assert_eq!(only(&store).await.outcome, ReceiptOutcome::Completed);
}

#[tokio::test]
async fn a_redispatch_whose_receipt_is_gone_opens_another() {
    let (store, _) = keeping(1);
    let call = again(caller(0, 1).begin(1));
    drop(first(begin(&store, call).await));
    drop(first(begin(&store, caller(0, 2).begin(2)).await));
    let ticket = first(begin(&store, call).await);
    let receipt = only(&store).await;
    assert_eq!((&receipt.opening, numbers(&receipt)), (&opening(call), vec![1]));
    assert_eq!(store.release(ticket).await, Ok(Settled::Done));
    assert_eq!(only(&store).await.outcome, ReceiptOutcome::Unknown);
}

#[tokio::test]
async fn a_redispatch_goes_on_with_the_receipt_of_its_own_record_alone() {
    let (store, clock) = keeping(8);
    let call = again(caller(0, 1).begin(1));
    drop(first(begin(&store, call).await));
    clock.advance(Millis(100));
    // Its record has expired; the next one on the slot asked for no receipt.
    drop(first(Store::begin(&*store, Asked::at("uid-1", call)).await));
    let ticket = first(begin(&store, call).await);
    assert_eq!(ticket.attempt(), 1);
    let all = all(&store).await;
    let outcomes: Vec<_> = all.iter().map(|receipt| receipt.outcome).collect();
    assert_eq!(outcomes, [ReceiptOutcome::InFlight, ReceiptOutcome::Unknown]);
}

#[tokio::test]
async fn attempts_are_all_counted_and_the_newest_listed() {
    let (store, _) = keeping(1);
    let mut ticket = first(begin(&store, caller(0, 1).begin(1)).await);
    let all = MAX_LISTED_ATTEMPTS as u32 + 5;
    for _ in 1..all {
        assert_eq!(store.reserve_attempt(&mut ticket).await, Ok(Settled::Done));
    }
    let receipt = only(&store).await;
    assert_eq!((receipt.attempt_count, ticket.attempt()), (all, all));
    assert_eq!(numbers(&receipt), (6..=all).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_page_is_the_newest_first_and_goes_on_after_its_last() {
    let (store, _) = keeping(8);
    for slot in 0..5 {
        drop(first(begin(&store, caller(slot % 2, slot).begin(slot)).await));
    }
    let newest = all(&store).await;
    let slots: Vec<_> = newest.iter().map(|receipt| receipt.opening.key_hash).collect();
    let expected = [4, 3, 2, 1, 0].map(|n| caller(n % 2, n).begin(n).slot);
    assert_eq!(slots, expected);

    let mut query = ReceiptQuery { limit: 2, ..ReceiptQuery::default() };
    let (mut read, mut pages) = (Vec::new(), 0);
    loop {
        let page = page(&store, query.clone()).await;
        assert!(page.receipts.len() <= 2);
        read.extend(page.receipts);
        pages += 1;
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    assert_eq!((read, pages), (newest, 3));
    query.after = Some(ReceiptId::new(&DOMAIN, [0; 16]));
    assert_eq!(page(&store, query).await, ReceiptPage::default());
}

#[tokio::test]
async fn a_page_holds_what_is_asked_for() {
    let (store, _) = keeping(8);
    for slot in 0..4 {
        let call = caller(0, slot).begin(slot);
        let tool = if slot % 2 == 0 { "charge" } else { "refund" };
        let opening = Opening { tool: tool.into(), ..opening(call) };
        let ticket = first(Store::begin(&*store, asked(call, opening)).await);
        let settled = if slot < 2 {
            store.complete(ticket, reply("done")).await
        } else {
            store.release(ticket).await
        };
        assert_eq!(settled, Ok(Settled::Done));
    }
    let found = |query: ReceiptQuery| {
        let store = Arc::clone(&store);
        async move { page(&store, ReceiptQuery { limit: 9, ..query }).await.receipts.len() }
    };
    let any = ReceiptQuery::default();
    let tool = Some("charge".to_owned());
    assert_eq!(found(ReceiptQuery { tool: tool.clone(), ..any.clone() }).await, 2);
    let outcome = Some(ReceiptOutcome::Released);
    assert_eq!(found(ReceiptQuery { outcome, ..any.clone() }).await, 2);
    assert_eq!(found(ReceiptQuery { outcome, tool, ..any.clone() }).await, 1);
    let principal = |name: &str| Some(name.to_owned());
    assert_eq!(found(ReceiptQuery { principal: principal("ada"), ..any.clone() }).await, 4);
    assert_eq!(found(ReceiptQuery { principal: principal("bob"), ..any.clone() }).await, 0);
    let key_hash = Some(caller(0, 3).begin(3).slot.to_string()[..16].to_owned());
    assert_eq!(found(ReceiptQuery { key_hash, ..any }).await, 1);
}

#[tokio::test]
async fn a_page_looks_at_so_many_and_says_where_the_next_goes_on() {
    let (store, _) = keeping(20_000);
    let call = caller(0, 1).begin(1);
    for number in 0..MAX_SCAN as u64 + 10 {
        let tool = if number == 3 { "refund" } else { "charge" };
        let opening = Opening { tool: tool.into(), ..opening(call) };
        let receipt = store.receipts.draft(&DOMAIN, Some(Box::new(opening))).expect("a name");
        store.receipts.open(ClaimOf { home: 0, fence: Fence(number) }, receipt, Millis(0));
    }
    let tool = Some("refund".to_owned());
    let query = ReceiptQuery { tool, limit: 1, ..ReceiptQuery::default() };
    let none = page(&store, query.clone()).await;
    assert!(none.receipts.is_empty() && none.next.is_some());
    let found = page(&store, ReceiptQuery { after: none.next, ..query }).await;
    assert_eq!(&*found.receipts[0].opening.tool, "refund");
}

#[tokio::test]
async fn the_oldest_goes_first_and_each_when_its_time_is_over() {
    let (store, clock) = keeping(3);
    let mut ids = Vec::new();
    for slot in 0..5 {
        drop(first(begin(&store, caller(0, slot).begin(slot)).await));
        ids.insert(0, all(&store).await[0].id.clone());
        clock.advance(Millis(10_000));
    }
    let kept: Vec<_> = all(&store).await.into_iter().map(|receipt| receipt.id).collect();
    assert_eq!(kept, ids[..3], "as many as there is room for");
    assert_eq!(store.receipt(ids[3].clone()).await, Ok(None));

    // The oldest of the three was opened at 20 s, and now it is 80 s.
    clock.advance(Millis(29_999));
    assert_eq!(all(&store).await.len(), 3);
    clock.advance(Millis(1));
    assert_eq!(all(&store).await.len(), 2);
    assert_eq!(store.receipt(ids[2].clone()).await, Ok(None));
    store.receipts.sweep();
    let opened = |number: usize| ids[number].clone();
    assert!(store.receipt(opened(1)).await.expect("an answer").is_some());
    clock.advance(Millis(20_000));
    assert_eq!(all(&store).await, []);
    store.receipts.sweep();
    drop(first(begin(&store, caller(0, 9).begin(9)).await));
    assert_eq!(all(&store).await.len(), 1);
}

#[tokio::test]
async fn none_are_kept_where_none_are_wanted() {
    let (store, _) = keeping(0);
    let call = again(caller(0, 1).begin(1));
    drop(first(begin(&store, call).await));
    let mut ticket = first(begin(&store, call).await);
    assert_eq!(store.reserve_attempt(&mut ticket).await, Ok(Settled::Done));
    assert_eq!(store.complete(ticket, reply("paid")).await, Ok(Settled::Done));
    assert_eq!(all(&store).await, []);
}

#[tokio::test]
async fn nothing_is_reserved_in_a_part_that_is_down() {
    let (store, _) = keeping(8);
    let mut ticket = first(begin(&store, caller(0, 1).begin(1)).await);
    store.directory.tell_shard(0, ShardInput::Crash(None));
    until(|| store.ready().is_err()).await;
    assert_eq!(store.reserve_attempt(&mut ticket).await, Err(StoreError::Down));
    assert_eq!(only(&store).await.attempt_count, 1);
}
