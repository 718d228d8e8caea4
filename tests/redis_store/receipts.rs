//! What receipts say, how many are kept and for how long, and how they are read.

use std::time::Duration;

use onceward::claim::{Begin, TombstoneReason};
use onceward::store::receipt::{AttemptEnd, AttemptResult, ReceiptOutcome};
use onceward::store::{
    Asked, Begun, Domain, Receipt, ReceiptId, ReceiptPage, ReceiptQuery, ReceiptSettings, Settled,
    Store, Ticket,
};
use redis::Commands;

use crate::support::{
    LEASE, UID, World, asked, begin, behind_a_proxy, eventually, ok, once, opening, room, taken,
    unknown,
};

fn replied(status: u16) -> AttemptEnd {
    AttemptEnd::after(AttemptResult::Replied(status), Duration::from_millis(40))
}

fn query(limit: usize) -> ReceiptQuery {
    ReceiptQuery { limit, ..ReceiptQuery::default() }
}

impl World {
    async fn receipts(&self) -> Vec<Receipt> {
        self.store.receipts(query(200)).await.expect("a page").receipts
    }

    /// The only one.
    async fn receipt(&self) -> Receipt {
        let mut all = self.receipts().await;
        assert_eq!(all.len(), 1, "{all:?}");
        let receipt = all.remove(0);
        let by_its_id = self.store.receipt(receipt.id.clone()).await.expect("an answer");
        assert_eq!(by_its_id.as_ref(), Some(&receipt));
        receipt
    }

    fn key(name: &str) -> String {
        format!("t:quota:{{{UID}}}:{name}")
    }
}

fn numbers(receipt: &Receipt) -> Vec<u32> {
    receipt.attempts.iter().map(|attempt| attempt.number).collect()
}

#[tokio::test]
async fn it_tells_of_the_call_of_every_attempt_and_of_the_outcome() {
    let world = World::new();
    let mut ticket = world.opened(begin(0)).await;
    let running = world.receipt().await;
    assert_eq!(running.opening, opening(&begin(0), "pay"));
    assert_eq!(running.attempts[0].reserved_at, running.opening.opened_at);
    assert_eq!((running.attempt_count, running.outcome), (1, ReceiptOutcome::InFlight));
    assert!(running.id.is_of(&Domain::Server(UID)));

    ticket.ended(replied(503));
    assert_eq!(world.store.reserve_attempt(&mut ticket).await, Ok(Settled::Done));
    let second = world.receipt().await;
    assert_eq!((second.attempt_count, numbers(&second)), (2, vec![1, 2]));
    assert_eq!((second.attempts[0].end, second.attempts[1].end), (Some(replied(503)), None));

    ticket.ended(replied(201));
    assert_eq!(world.store.complete(ticket, ok()).await, Ok(Settled::Done));
    let settled = world.receipt().await;
    assert_eq!((settled.id, settled.attempt_count), (running.id, 2));
    assert_eq!(settled.attempts[1].end, Some(replied(201)));
    assert_eq!(settled.outcome, ReceiptOutcome::Completed);
    let (reserved, at) = (settled.attempts[1].reserved_at, settled.settled_at.expect("a time"));
    assert!(running.opening.opened_at < reserved && reserved <= at);
    let elsewhere = world.store.receipt(ReceiptId::new(&Domain::Server("x"), [0; 16])).await;
    assert_eq!(elsewhere, Ok(None));
}

#[tokio::test]
async fn a_settle_says_what_came_of_it() {
    let world = World::new();
    let slots = (0..).map(begin);
    let mut tickets = Vec::new();
    for begin in slots.take(4) {
        tickets.push(world.opened(begin).await);
    }
    let [mut unsent, mut untried, unkept, dropped] =
        <[Ticket; 4]>::try_from(tickets).expect("four");
    unsent.ended(AttemptEnd::after(AttemptResult::Unsent, Duration::ZERO));
    assert_eq!(world.store.release(unsent).await, Ok(Settled::Done));
    untried.untried();
    assert_eq!(world.store.release(untried).await, Ok(Settled::Done));
    let settled = world.store.tombstone(unkept, TombstoneReason::NotReplayable).await;
    assert_eq!(settled, Ok(Settled::Done));
    drop(dropped);
    let expected = [
        (1, ReceiptOutcome::Unknown),
        (1, ReceiptOutcome::NotReplayable),
        (0, ReceiptOutcome::Released),
        (1, ReceiptOutcome::Released),
    ];
    eventually("the dropped claim to settle", || async {
        let all = world.receipts().await;
        let found: Vec<_> = all.iter().map(|r| (r.attempt_count, r.outcome)).collect();
        (found == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn only_the_first_opens_one() {
    let world = World::new();
    let ticket = world.opened(begin(0)).await;
    let other = Begin { hash: onceward::claim::RequestHash::from_bytes([9; 32]), ..begin(0) };
    let again = |begin| world.store.begin(asked(Domain::Server(UID), begin));
    assert!(matches!(again(begin(0)).await, Ok(Begun::InFlight)));
    assert!(matches!(again(other).await, Ok(Begun::Conflict)));
    assert_eq!(world.store.complete(ticket, ok()).await, Ok(Settled::Done));
    assert!(matches!(again(begin(0)).await, Ok(Begun::Replay(_))));
    assert_eq!(world.receipt().await.attempt_count, 1);
}

#[tokio::test]
async fn without_one_nothing_is_kept() {
    let off = |settings: &mut onceward::store::redis::RedisSettings| settings.receipts.entries = 0;
    for world in [World::new(), World::with(room(9), off)] {
        let kept = world.settings.receipts.entries > 0;
        let asked = match kept {
            true => Asked::at(UID, begin(0)),
            false => asked(Domain::Server(UID), begin(0)),
        };
        let mut ticket = taken(world.store.begin(asked).await.expect("an answer"));
        ticket.ended(replied(503));
        assert_eq!(world.store.reserve_attempt(&mut ticket).await, Ok(Settled::Done));
        ticket.ended(replied(200));
        assert_eq!(world.store.complete(ticket, ok()).await, Ok(Settled::Done));
        let keys: Vec<String> = world.server.connection().keys("*receipts*").expect("keys");
        assert_eq!(keys, [""; 0]);
        assert_eq!(world.receipts().await, []);
    }
}

#[tokio::test]
async fn a_redispatch_goes_on_with_it() {
    let world = World::new();
    let mut ticket = world.opened(begin(0)).await;
    ticket.ended(AttemptEnd::after(AttemptResult::Timeout, Duration::from_secs(60)));
    unknown(&world.store, ticket).await;
    let before = world.receipt().await;
    let mut again = world.opened(begin(0)).await;
    let running = world.receipt().await;
    assert_eq!((&running.id, numbers(&running)), (&before.id, vec![1, 2]));
    assert_eq!((running.outcome, running.settled_at), (ReceiptOutcome::InFlight, None));
    again.untried();
    assert_eq!(world.store.release(again).await, Ok(Settled::Done));
    let released = world.receipt().await;
    assert_eq!((released.outcome, numbers(&released)), (ReceiptOutcome::Unknown, vec![1]));
    let third = world.opened(begin(0)).await;
    assert_eq!(world.store.complete(third, ok()).await, Ok(Settled::Done));
    let completed = world.receipt().await;
    assert_eq!((completed.outcome, numbers(&completed)), (ReceiptOutcome::Completed, vec![1, 2]));
}

#[tokio::test]
async fn a_redispatch_opens_another_where_it_is_gone() {
    let world = World::new();
    let ticket = world.opened(begin(0)).await;
    unknown(&world.store, ticket).await;
    let gone = world.receipt().await.id;
    let mut connection = world.server.connection();
    let _: u32 = connection.hdel(World::key("receipts"), gone.to_string()).expect("a hash");
    let _: u32 = connection.zrem(World::key("receipts:order"), gone.to_string()).expect("a set");
    let again = world.opened(begin(0)).await;
    let second = world.receipt().await;
    assert_ne!(second.id, gone);
    assert_eq!((again.attempt(), numbers(&second)), (2, vec![2]));
}

#[tokio::test]
async fn one_that_is_told_of_very_many_attempts_counts_them_all_and_stays_short() {
    let world = World::new();
    let (mut longest, mut shortened) = (0, false);
    for number in 1..=250 {
        let mut ticket = world.opened(begin(0)).await;
        ticket.ended(AttemptEnd::after(AttemptResult::Timeout, Duration::from_secs(60)));
        match number % 10 {
            0 => {
                ticket.untried();
                assert_eq!(world.store.release(ticket).await, Ok(Settled::Done));
            }
            _ => unknown(&world.store, ticket).await,
        }
        let mut connection = world.server.connection();
        let lines: Vec<String> = connection.hvals(World::key("receipts")).expect("a hash");
        shortened |= lines[0].len() < longest;
        longest = longest.max(lines[0].len());
    }
    assert!(shortened && longest < 33 * 1024, "{longest} bytes");
    let receipt = world.receipt().await;
    assert_eq!(receipt.attempt_count, 225, "each tenth was taken back");
    assert!(receipt.attempts.len() <= 100);
    assert_eq!(receipt.attempts.last().map(|last| last.number), Some(225));
}

#[tokio::test]
async fn a_late_reply_is_on_it_and_so_is_a_late_end() {
    let world = World::new();
    let (late, mut ended) = (world.opened(begin(0)).await, world.opened(begin(1)).await);
    world.advance(LEASE);
    assert!(matches!(world.begin(once(begin(0))).await, Begun::Unknown));
    assert_eq!(world.store.complete(late, ok()).await, Ok(Settled::Done));
    ended.ended(AttemptEnd::after(AttemptResult::Disconnected, Duration::from_secs(1)));
    unknown(&world.store, ended).await;
    let outcomes: Vec<_> = world.receipts().await.iter().map(|r| r.outcome).collect();
    assert_eq!(outcomes, [ReceiptOutcome::Unknown, ReceiptOutcome::Completed]);
    // Once somebody else has it, the old owner tells it nothing.
    let mut old = world.opened(begin(2)).await;
    world.advance(LEASE);
    let _again = world.opened(begin(2)).await;
    old.ended(replied(200));
    assert_eq!(world.store.complete(old, ok()).await, Ok(Settled::Stale));
    let newest = &world.receipts().await[0];
    assert_eq!((numbers(newest), newest.attempts[0].end), (vec![1, 2], None));
}

#[tokio::test]
async fn a_claim_that_nobody_took_has_no_attempt() {
    let (world, proxy) = behind_a_proxy(room(9)).await;
    proxy.lose_the_reply_and_shut("opened");
    let mut begun = world.store.begin(asked(Domain::Server(UID), begin(0)));
    let given_up = tokio::select! {
        _ = &mut begun => false,
        () = proxy.lost() => true,
    };
    assert!(given_up);
    drop(begun);
    proxy.open();
    let released = eventually("the release", || async {
        let all = world.store.receipts(query(1)).await.ok()?.receipts;
        all.into_iter().find(|receipt| receipt.outcome == ReceiptOutcome::Released)
    });
    assert_eq!(numbers(&released.await), [0; 0]);
    assert!(world.field(begin(0), "state").is_none());
}

#[tokio::test]
async fn the_oldest_goes_at_the_cap() {
    let three = ReceiptSettings { entries: 3, ..ReceiptSettings::default() };
    let world = World::with(room(100), |settings| settings.receipts = three);
    let mut ids = Vec::new();
    for slot in 0..7 {
        let ticket = world.opened(begin(slot)).await;
        ids.insert(0, world.receipts().await[0].id.clone());
        assert_eq!(world.store.complete(ticket, ok()).await, Ok(Settled::Done));
    }
    let kept: Vec<_> = world.receipts().await.into_iter().map(|receipt| receipt.id).collect();
    assert_eq!(kept, ids[..3]);
    let mut connection = world.server.connection();
    let counts: (u32, u32) = (
        connection.hlen(World::key("receipts")).expect("a hash"),
        connection.zcard(World::key("receipts:order")).expect("a set"),
    );
    assert_eq!(counts, (3, 3));
    // A cap that was lowered is reached two at a time; what was trimmed is told nothing.
    let lower = world.another(|settings| settings.receipts.entries = 1);
    lower.opened(begin(50)).await.untried();
    assert_eq!(connection.zcard(World::key("receipts:order")), Ok(2));
    let _ticket = lower.opened(begin(51)).await;
    assert_eq!(connection.zcard(World::key("receipts:order")), Ok(1));
}

#[tokio::test]
async fn it_is_kept_for_its_time_and_no_longer() {
    let hour = ReceiptSettings { retention: Duration::from_secs(3600), ..Default::default() };
    let world = World::with(room(100), |settings| settings.receipts = hour);
    for slot in 0..3 {
        let ticket = world.opened(begin(slot)).await;
        assert_eq!(world.store.complete(ticket, ok()).await, Ok(Settled::Done));
    }
    let id = world.receipts().await[0].id.clone();
    world.advance(3600 * 1000 - 1);
    assert_eq!(world.receipts().await.len(), 3);
    world.advance(1);
    assert_eq!(world.receipts().await, []);
    assert_eq!(world.store.receipt(id).await, Ok(None));
    let ticket = world.opened(begin(9)).await;
    let mut connection = world.server.connection();
    assert_eq!(connection.hlen(World::key("receipts")), Ok(2), "a begin trims two");
    assert_eq!(world.receipt().await.key_hash(), begin(9).slot.to_string());
    drop(ticket);
    let lives: i64 = connection.ttl(World::key("receipts")).expect("a time");
    assert!(lives > 0, "nobody has to come by for it to go");
}

trait KeyHash {
    fn key_hash(&self) -> String;
}

impl KeyHash for Receipt {
    fn key_hash(&self) -> String {
        self.opening.key_hash.to_string()
    }
}

/// Nine receipts in three domains, one after the other.
async fn in_three_domains() -> (World, Vec<String>) {
    let world = World::new();
    world.far_off("quota", "other");
    world.far_off("workspace", "acme");
    let mut slots = Vec::new();
    for slot in 0..9 {
        let record = format!("stripe:ab:{slot}");
        let domain = match slot % 3 {
            0 => Domain::Server(UID),
            1 => Domain::Server("other"),
            _ => Domain::Workspace { id: "acme", record: &record },
        };
        let mut asked = asked(domain, begin(slot));
        let opening = asked.opening.as_mut().expect("an opening");
        opening.tool = if slot < 6 { "pay" } else { "refund" }.into();
        let ticket = taken(world.store.begin(asked).await.expect("an answer"));
        assert_eq!(world.store.complete(ticket, ok()).await, Ok(Settled::Done));
        slots.insert(0, begin(slot).slot.to_string());
    }
    (world, slots)
}

fn slots_of(page: &ReceiptPage) -> Vec<String> {
    page.receipts.iter().map(KeyHash::key_hash).collect()
}

#[tokio::test]
async fn pages_go_through_all_domains_without_a_gap() {
    let (world, slots) = in_three_domains().await;
    for limit in [1, 2, 4, 9, 200] {
        let (mut found, mut asked) = (Vec::new(), query(limit));
        loop {
            let page = world.store.receipts(asked.clone()).await.expect("a page");
            assert!(page.receipts.len() <= limit);
            found.extend(slots_of(&page));
            asked.after = page.next;
            if asked.after.is_none() {
                break;
            }
        }
        // Domains have clocks of their own: within each, newest first, and all of it.
        let mut expected = slots.clone();
        for of in 0..3 {
            let in_domain = |all: &[String]| -> Vec<String> {
                let ours = (0..9).filter(|slot| slot % 3 == of);
                let ours: Vec<_> = ours.map(|slot| begin(slot).slot.to_string()).collect();
                all.iter().filter(|slot| ours.contains(slot)).cloned().collect()
            };
            assert_eq!(in_domain(&found), in_domain(&slots), "pages of {limit}");
        }
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "pages of {limit}");
    }
}

/// More receipts than one page looks at, in two domains.
async fn very_many(world: &World) -> usize {
    let ticket = world.opened(begin(0)).await;
    let mut connection = world.server.connection();
    let first = world.receipt().await.id;
    let lines: String = connection.hget(World::key("receipts"), first.to_string()).expect("lines");
    world.far_off("quota", "other");
    let other = asked(Domain::Server("other"), begin(1));
    let other = taken(world.store.begin(other).await.expect("an answer"));
    let stamp: u64 = connection.hget(format!("t:quota:{{{UID}}}"), "stamp").expect("a stamp");
    let mut pipe = redis::pipe();
    for (uid, count) in [(UID, 1900_u64), ("other", 200)] {
        for number in 0..count {
            let id = ReceiptId::new(&Domain::Server(uid), u128::from(number).to_be_bytes());
            let (id, key) = (id.to_string(), format!("t:quota:{{{uid}}}:receipts"));
            pipe.hset(&key, &id, &lines).ignore();
            pipe.zadd(format!("{key}:order"), id, stamp - number * 1000).ignore();
        }
    }
    pipe.exec(&mut connection).expect("they are written");
    drop((ticket, other));
    1900 + 200 + 2
}

#[tokio::test]
async fn one_page_looks_at_a_bounded_number_and_the_next_goes_on() {
    let world = World::new();
    let count = very_many(&world).await;
    let none = ReceiptQuery { tool: Some("none".to_owned()), ..query(200) };
    let page = world.store.receipts(none.clone()).await.expect("a page");
    assert!(page.receipts.is_empty() && page.next.is_some(), "it may go on");
    let rest = world.store.receipts(ReceiptQuery { after: page.next, ..none }).await;
    assert_eq!(rest, Ok(ReceiptPage::default()));
    let (mut ids, mut asked) = (std::collections::BTreeSet::new(), query(199));
    loop {
        let page = world.store.receipts(asked.clone()).await.expect("a page");
        let before = ids.len();
        ids.extend(page.receipts.iter().map(|receipt| receipt.id.clone()));
        assert_eq!(ids.len(), before + page.receipts.len(), "none comes twice");
        asked.after = page.next;
        if asked.after.is_none() {
            break;
        }
    }
    assert_eq!(ids.len(), count);
}

#[tokio::test]
async fn a_query_finds_what_it_asks_for() {
    let (world, _) = in_three_domains().await;
    let found = async |query: ReceiptQuery| {
        let mut slots = slots_of(&world.store.receipts(query).await.expect("a page"));
        slots.sort();
        slots
    };
    let slots = |numbers: &[u8]| -> Vec<_> {
        numbers.iter().map(|slot| begin(*slot).slot.to_string()).collect()
    };
    let tool = ReceiptQuery { tool: Some("refund".to_owned()), ..query(200) };
    assert_eq!(found(tool).await, slots(&[6, 7, 8]));
    let prefix = begin(4).slot.to_string()[..16].to_owned();
    assert_eq!(found(ReceiptQuery { key_hash: Some(prefix), ..query(200) }).await, slots(&[4]));
    let released = ReceiptQuery { outcome: Some(ReceiptOutcome::Released), ..query(200) };
    assert_eq!(found(released).await, slots(&[]));
    // The opening says nothing of a workspace, so the domain alone does not make it one's own.
    let workspace = ReceiptQuery { workspace: Some("acme".to_owned()), ..query(200) };
    assert_eq!(found(workspace).await, slots(&[]));
    let gone = ReceiptId::new(&Domain::Server(UID), [0; 16]);
    let after = ReceiptQuery { after: Some(gone), ..query(200) };
    assert_eq!(world.store.receipts(after).await, Ok(ReceiptPage::default()));
}

#[tokio::test]
async fn another_gateway_reads_them_too() {
    let world = World::new();
    let ticket = world.opened(begin(0)).await;
    let id = world.receipt().await.id;
    let known = onceward::store::redis::RedisStore::start(
        world.limits,
        &world.settings,
        [Domain::Server(UID)],
    );
    let found = known.expect("a thread").receipt(id).await.expect("an answer");
    assert_eq!(found.expect("a receipt").attempt_count, 1);
    drop(ticket);
}
