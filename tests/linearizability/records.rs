//! P1 to P6 over the records that are read back from Redis, around every step of random histories.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use onceward::claim::counts::Counts;
use onceward::claim::invariant::{self, GroupView, RecordView, StateView, Violation};
use onceward::claim::protocol::{CallId, Outcome};
use onceward::claim::{
    Begin, CompletionSeq, DispatchHash, Fence, Limits, Millis, Reply, RequestHash, Settled,
    TombstoneReason,
};
use onceward::store::redis::{RedisSettings, RedisStore};
use onceward::store::{Asked, Begun, Store, Ticket};
use redis::Commands;

use crate::dispatches::DISPATCHES;
use crate::hammer::{DOMAIN, Random, limits};
use crate::naive::begin_on;
use crate::redis_server::{FAR_OFF, RedisServer, patient};

const SEEDS: u64 = 25;
const STEPS: u64 = 60;
const SLOTS: u8 = 16;

/// A store and a way to look at it. Times are microseconds, as the server has them.
struct World {
    store: Arc<RedisStore>,
    connection: redis::Connection,
    prefix: String,
    limits: Limits,
    asked: Vec<CallId>,
    answered: Vec<CallId>,
}

impl World {
    fn new(server: &RedisServer, prefix: String, limits: Limits) -> Self {
        Self::leased(server, prefix, limits, Duration::from_millis(LEASE))
    }

    fn leased(server: &RedisServer, prefix: String, limits: Limits, lease: Duration) -> Self {
        let mut connection = server.connection();
        let () = connection.hset(domain(&prefix), "stamp", FAR_OFF).expect("the clock is set");
        let settings = RedisSettings {
            connections: 1,
            dispatch_margin: lease / 4,
            ..patient(&server.url(), &prefix, lease)
        };
        let store = RedisStore::start(limits, &settings, []).expect("a thread");
        let (asked, answered) = (Vec::new(), Vec::new());
        Self { store, connection, prefix, limits, asked, answered }
    }

    /// When the next script runs.
    fn now(&mut self) -> Millis {
        let stamp: u64 = self.connection.hget(domain(&self.prefix), "stamp").expect("a stamp");
        Millis(stamp + 1)
    }

    fn advance(&mut self, ms: u64) {
        let by = ms * 1000;
        let _: u64 = self.connection.hincr(domain(&self.prefix), "stamp", by).expect("a stamp");
    }

    /// Every record, whether it stands or not.
    fn records(&mut self) -> Vec<RecordView> {
        let read = |slot: u8| {
            let begin = begin_on(slot, 0);
            let key = format!("{}idem:{{{DOMAIN}}}:{}", self.prefix, begin.slot);
            let fields: BTreeMap<String, Vec<u8>> = self.connection.hgetall(key).expect("a hash");
            (!fields.is_empty()).then(|| view(&begin, &fields, self.limits.ttl))
        };
        (0..SLOTS).filter_map(read).collect()
    }

    /// The counters: what the sets hold that stands.
    fn groups(&mut self, now: Millis) -> (Vec<GroupView>, Counts) {
        let mut groups = BTreeMap::new();
        for begin in (0..SLOTS).map(|slot| begin_on(slot, 0)) {
            for (scope, key) in [
                (None, format!(":p:{}", begin.principal)),
                (Some(begin.scope), format!(":s:{}", begin.scope)),
            ] {
                let [in_flight, completed, tombstones] = self.set_counts(&key, now);
                let records = in_flight + completed + tombstones;
                let principal = begin.principal;
                let group = GroupView { principal, scope, records, in_flight, tombstones };
                groups.insert((principal, scope), group);
            }
        }
        let [in_flight, completed, tombstones] = self.set_counts("", now);
        let counts = Counts { records: in_flight + completed + tombstones, in_flight, completed };
        let groups = groups.into_values().filter(|group| group.records > 0);
        (groups.collect(), counts)
    }

    fn set_counts(&mut self, of: &str, now: Millis) -> [u32; 3] {
        let quotas = domain(&self.prefix);
        let age = now.0 - self.limits.ttl.0 * 1000;
        [("f", now.0), ("c", age), ("t", now.0)].map(|(set, above)| {
            let key = format!("{quotas}{of}:{set}");
            self.connection.zcount(key, format!("({above}"), "+inf").expect("a set")
        })
    }
}

fn domain(prefix: &str) -> String {
    format!("{prefix}quota:{{{DOMAIN}}}")
}

fn number(fields: &BTreeMap<String, Vec<u8>>, name: &str) -> u64 {
    String::from_utf8_lossy(&fields[name]).parse().expect("a number")
}

fn view(begin: &Begin, fields: &BTreeMap<String, Vec<u8>>, ttl: Millis) -> RecordView {
    let until = number(fields, "until");
    let expires = Millis(until);
    let state = match &fields["state"][..] {
        b"flying" => StateView::InFlight { again: fields.contains_key("again") },
        b"completed" => {
            let body = fields["body"].clone().into();
            let reply = Arc::new(Reply::new(200, None, body, 64).expect("a small body"));
            StateView::Completed { seq: CompletionSeq(until - ttl.0 * 1000), expires, reply }
        }
        b"unknown" => StateView::Tombstone { reason: TombstoneReason::Unknown, expires },
        b"not_replayable" => {
            StateView::Tombstone { reason: TombstoneReason::NotReplayable, expires }
        }
        other => panic!("a state {other:?}"),
    };
    RecordView {
        slot: begin.slot,
        scope: begin.scope,
        principal: begin.principal,
        hash: RequestHash::from_bytes(fields["hash"][..].try_into().expect("a digest")),
        dispatch: fields
            .get("dispatch")
            .map(|hash| DispatchHash::from_bytes(hash[..].try_into().expect("a digest"))),
        fence: Some(Fence(u64::from_le_bytes(fields["ticket"][..8].try_into().expect("8 bytes")))),
        state,
    }
}

fn outcome(begun: &Begun) -> Outcome {
    match begun {
        Begun::First(_) => Outcome::First(Fence(0)),
        Begun::Replay(reply) => Outcome::Replay(Arc::clone(reply)),
        Begun::Conflict => Outcome::Conflict,
        Begun::OtherRoute => Outcome::OtherRoute,
        Begun::InFlight => Outcome::InFlight,
        Begun::Unknown => Outcome::Tombstone(TombstoneReason::Unknown),
        Begun::NotReplayable => Outcome::Tombstone(TombstoneReason::NotReplayable),
        Begun::Capacity(limit) => Outcome::Capacity(*limit),
    }
}

/// What a step has left is within the caps, and counted as it is.
fn counted(world: &mut World, records: &[RecordView]) -> Result<(), Violation> {
    let now = world.now();
    let standing: Vec<_> = records.iter().filter(|record| record.stands(now)).cloned().collect();
    let (groups, counts) = world.groups(now);
    invariant::p2_within_caps(&standing, &world.limits)?;
    invariant::p3_counters_match(&standing, &groups, counts, 0)
}

/// Says whether it took an unknown record again.
async fn begin(world: &mut World, random: &mut Random, held: &mut Vec<Ticket>) -> bool {
    let slot = random.below(u64::from(SLOTS)) as u8;
    let dispatch = DISPATCHES[random.below(DISPATCHES.len() as u64) as usize];
    let begin = Begin { dispatch, ..begin_on(slot, u8::from(random.below(8) == 0)) };
    let (now, before) = (world.now(), world.records());
    let call = CallId(world.asked.len() as u64);
    world.asked.push(call);
    let begun = world.store.begin(Asked::at(DOMAIN, begin)).await.expect("an answer");
    world.answered.push(call);
    let after = world.records();
    // Its own slot may be taken again where no record stood, or by a redispatch.
    let stood = before.iter().find(|r| r.slot == begin.slot && r.stands(now));
    let redispatched = stood.filter(|_| matches!(begun, Begun::First(_)));
    let declared: Vec<_> = redispatched.iter().map(|_| begin).collect();
    invariant::p1_one_execution(&before, &after, now, &declared)
        .or_else(|error| if stood.is_some() { Err(error) } else { Ok(()) })
        .expect("P1");
    let outcome = match redispatched {
        Some(record) => Outcome::Redispatched {
            fence: Fence(0),
            before: record.fence.expect("it was read back"),
        },
        None => outcome(&begun),
    };
    let limits = world.limits;
    let standing: Vec<_> = after.iter().filter(|r| r.stands(now)).cloned().collect();
    invariant::p4_quotas_nest(&before, &standing, &limits, now, &begin, &outcome).expect("P4");
    counted(world, &after).expect("P2 and P3");
    if let Begun::First(ticket) = begun {
        held.push(ticket);
    }
    redispatched.is_some()
}

async fn settle(world: &mut World, random: &mut Random, held: &mut Vec<Ticket>) {
    let ticket = held.swap_remove(random.below(held.len() as u64) as usize);
    let (now, before) = (world.now(), world.records());
    let slot = ticket.slot();
    let settled = match random.below(6) {
        0 => world.store.release(ticket).await,
        1 | 5 => world.store.tombstone(ticket, TombstoneReason::Unknown).await,
        2 => world.store.tombstone(ticket, TombstoneReason::NotReplayable).await,
        _ => {
            let reply = Reply::new(200, None, bytes::Bytes::from_static(b"ok"), 64);
            world.store.complete(ticket, reply.expect("two bytes")).await
        }
    };
    let settled = settled.expect("an answer");
    let after = world.records();
    assert_eq!(settled, Settled::Done, "the lease is long");
    invariant::p6_stale_changes_nothing(&before, &after, settled).expect("P6");
    let others = |records: &[RecordView]| {
        records.iter().filter(|record| record.slot != slot).cloned().collect::<Vec<_>>()
    };
    assert_eq!(others(&before), others(&after), "a settle changes its own record alone");
    invariant::p1_one_execution(&before, &after, now, &[]).expect("P1");
    counted(world, &after).expect("P2 and P3");
}

#[tokio::test]
async fn the_properties_hold_over_the_records_read_back() {
    let server = RedisServer::start();
    let tight = limits((6, 4), (4, 3), (3, 2), 2);
    let (mut firsts, mut again, mut settles) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(&server, format!("records-{seed}:"), tight);
        let (mut random, mut held) = (Random(seed), Vec::new());
        for _ in 0..STEPS {
            match random.below(5) {
                0 => world.advance(1 + random.below(3)),
                1 | 2 if !held.is_empty() => {
                    settle(&mut world, &mut random, &mut held).await;
                    settles += 1;
                }
                _ => {
                    let before = held.len();
                    let redispatched = begin(&mut world, &mut random, &mut held).await;
                    again += u64::from(redispatched);
                    firsts += held.len() - before;
                }
            }
        }
        while !held.is_empty() {
            settle(&mut world, &mut random, &mut held).await;
        }
        invariant::p5_every_begin_answered(&world.asked, &world.answered).expect("P5");
        // After all has settled and expired, everything is zero.
        world.advance(10);
        let now = world.now();
        assert!(world.records().iter().all(|record| !record.stands(now)), "seed {seed}");
        assert_eq!(world.groups(now), (Vec::new(), Counts::default()), "seed {seed}");
    }
    assert!(firsts > 100 && settles > 50, "{firsts} claims, {settles} settles");
    assert!(again > 5, "{again} redispatches");
}

/// The lease of a [`World`], in milliseconds.
const LEASE: u64 = 3600 * 1000;

fn ok() -> Reply {
    Reply::new(200, None, bytes::Bytes::from_static(b"ok"), 64).expect("two bytes")
}

impl World {
    /// A claim whose lease has ended.
    async fn lapsed(&mut self, slot: u8) -> Ticket {
        let begun =
            self.store.begin(Asked::at(DOMAIN, begin_on(slot, 0))).await.expect("an answer");
        let Begun::First(ticket) = begun else { panic!("slot {slot} is not free: {begun:?}") };
        self.advance(LEASE);
        ticket
    }

    async fn finds(&self, slot: u8) -> Outcome {
        let begun =
            self.store.begin(Asked::at(DOMAIN, begin_on(slot, 0))).await.expect("an answer");
        outcome(&begun)
    }
}

#[tokio::test]
async fn a_lapsed_claim_is_a_tombstone_that_its_own_ticket_may_complete() {
    let server = RedisServer::start();
    let mut world = World::new(&server, "lapse:".to_owned(), limits((9, 9), (9, 9), (9, 9), 9));
    let unknown = Outcome::Tombstone(TombstoneReason::Unknown);

    let released = world.lapsed(0).await;
    assert_eq!(world.finds(0).await, unknown);
    let (store, before) = (Arc::clone(&world.store), world.records());
    assert_eq!(store.release(released).await, Ok(Settled::Stale));
    let after = world.records();
    assert_eq!(before, after);
    assert_eq!(world.finds(0).await, unknown);

    let unkept = world.lapsed(1).await;
    let settled = store.tombstone(unkept, TombstoneReason::NotReplayable).await;
    assert_eq!(settled, Ok(Settled::Stale));
    let dropped = world.lapsed(2).await;
    let settled = store.tombstone(dropped, TombstoneReason::Unknown).await;
    assert_eq!(settled, Ok(Settled::Done), "it says what is");
    assert_eq!(world.finds(2).await, unknown);

    let completed = world.lapsed(3).await;
    assert_eq!(world.finds(3).await, unknown);
    assert_eq!(store.complete(completed, ok()).await, Ok(Settled::Done));
    assert_eq!(world.finds(3).await, Outcome::Replay(Arc::new(ok())));

    // It stands for the whole of `tombstone_ttl`, from the end of its lease.
    let late = world.lapsed(4).await;
    world.advance(7);
    assert_eq!(world.finds(4).await, unknown);
    world.advance(1);
    let Outcome::First(_) = world.finds(4).await else { panic!("the slot is free again") };
    assert_eq!(store.complete(late, ok()).await, Ok(Settled::Stale), "another one has it");
}

#[tokio::test]
async fn a_ticket_says_no_before_its_lease_can_have_ended() {
    let server = RedisServer::start();
    let lease = Duration::from_secs(3);
    let world = World::leased(&server, "held:".to_owned(), Limits::default(), lease);
    let asked = Instant::now();
    let begun = world.store.begin(Asked::at(DOMAIN, begin_on(0, 0))).await.expect("an answer");
    let Begun::First(ticket) = begun else { panic!("the slot is free") };
    // Renewed, it is held for longer than one lease.
    while asked.elapsed() < lease * 2 {
        assert!(ticket.is_held(), "nobody renewed it");
        tokio::time::sleep(lease / 20).await;
    }
    server.signal("STOP");
    let stopped = Instant::now();
    while ticket.is_held() {
        assert!(stopped.elapsed() < lease, "it may have lapsed by now");
        tokio::time::sleep(lease / 100).await;
    }
    server.signal("CONT");
}
