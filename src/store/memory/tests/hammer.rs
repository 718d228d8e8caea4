//! Many callers on many threads; in the end every permit is given back.

use super::*;
use crate::claim::TombstoneReason;
use crate::claim::protocol::ToShard;
use crate::store::memory::shard::ShardInput;

/// A small deterministic generator, so that a failing seed can be run again.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn crowded() -> Limits {
    Limits {
        ttl: Millis(50),
        tombstone_ttl: Millis(50),
        entries: 12,
        in_flight: 6,
        principal_entries: 6,
        principal_in_flight: 4,
        scope_entries: 4,
        scope_in_flight: 3,
        scope_tombstones: 3,
        reply_bytes: 1024,
    }
}

/// What one caller saw.
#[derive(Debug, Default)]
struct Seen {
    firsts: u32,
    failures: Vec<StoreError>,
}

/// One caller of many: begins, and settles, drops or abandons what it won.
async fn worker(store: Arc<MemoryStore>, clock: Arc<ManualClock>, seed: u64, rounds: u32) -> Seen {
    let mut random = Random(seed | 1);
    let mut seen = Seen::default();
    for _ in 0..rounds {
        clock.advance(Millis(random.below(3)));
        let who = caller(random.below(3), random.below(3));
        let begin = who.begin_in(random.below(2), random.below(8), random.below(2));
        if random.below(16) == 0 {
            let mut leaving = Store::begin(&*store, Asked::at("", begin));
            let _ = futures_util::FutureExt::now_or_never(&mut leaving);
            continue;
        }
        let begun = Store::begin(&*store, Asked::at("", begin)).await;
        let occupancy = store.occupancy();
        assert!(occupancy.records <= 12 && occupancy.in_flight <= 6, "{occupancy:?}");
        let ticket = match begun {
            Ok(Begun::First(ticket)) => ticket,
            Ok(_) => continue,
            Err(failure) => {
                seen.failures.push(failure);
                continue;
            }
        };
        seen.firsts += 1;
        let settled = match random.below(8) {
            0 => continue,
            1 => store.release(ticket).await,
            2 => store.tombstone(ticket, TombstoneReason::NotReplayable).await,
            _ => store.complete(ticket, reply("done")).await,
        };
        seen.failures.extend(settled.err());
    }
    seen
}

type Crowd = Vec<std::thread::JoinHandle<Vec<Seen>>>;

/// Four threads of eight callers each.
fn crowd(store: &Arc<MemoryStore>, clock: &Arc<ManualClock>) -> Crowd {
    let start = |thread: u64| {
        let (store, clock) = (Arc::clone(store), Arc::clone(clock));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let workers = (0..8).map(|n| {
                    let seed = 0x9e37_79b9 * (thread * 8 + n + 1);
                    worker(Arc::clone(&store), Arc::clone(&clock), seed, 150)
                });
                futures_util::future::join_all(workers).await
            })
        })
    };
    (0..4).map(start).collect()
}

async fn all_of(crowd: Crowd) -> Seen {
    until(|| crowd.iter().all(std::thread::JoinHandle::is_finished)).await;
    let seen = crowd.into_iter().flat_map(|thread| thread.join().expect("no panic"));
    seen.fold(Seen::default(), |mut all, seen| {
        all.firsts += seen.firsts;
        all.failures.extend(seen.failures);
        all
    })
}

/// Sweeps everything that has expired in the shards that live: a handful fits one tick.
async fn sweep(store: &MemoryStore, living: &[u64]) {
    store.directory.tell_every_shard(|| ShardInput::Protocol(ToShard::Tick));
    for shard in living {
        // Answered behind the tick.
        if let Ok(Begun::First(ticket)) =
            Store::begin(store, Asked::at("", caller(*shard, 99).begin(1))).await
        {
            store.release(ticket).await.expect("released");
        }
    }
}

#[tokio::test]
async fn after_a_crowd_every_permit_is_given_back() {
    let (store, clock) = store(crowded(), 3);
    let seen = all_of(crowd(&store, &clock)).await;
    assert_eq!(seen.failures, []);
    assert!(seen.firsts > 100, "the crowd got through: {}", seen.firsts);

    // Every claim was settled, dropped or never delivered.
    until(|| store.occupancy().in_flight == 0).await;
    clock.advance(Millis(50));
    sweep(&store, &[0, 1, 2]).await;
    let occupancy = store.occupancy();
    let left = (occupancy.records, occupancy.completed, occupancy.tombstones);
    assert_eq!(left, (0, 0, 0));
    assert_eq!(store.ready(), Ok(()));
    assert_eq!(store.stop().await, Ok(()));
}

#[tokio::test]
async fn a_shard_that_fails_in_a_crowd_hangs_nobody() {
    let (store, clock) = store(crowded(), 3);
    let crowd = crowd(&store, &clock);
    until(|| store.occupancy().evictions > 20).await;
    store.directory.tell_shard(0, ShardInput::Crash(None));
    let seen = all_of(crowd).await;
    assert!(seen.failures.iter().all(|failure| *failure == StoreError::Down), "{seen:?}");

    // What the others hold expires; what the dead one held stays counted, and is no victim.
    clock.advance(Millis(50));
    sweep(&store, &[1, 2]).await;
    let lost = store.occupancy();
    assert_eq!(lost.completed, 0);
    let answer = Store::begin(&*store, Asked::at("", caller(1, 7).begin(1))).await;
    let room = lost.records < 12 && lost.in_flight < 6;
    assert_eq!(matches!(answer, Ok(Begun::First(_))), room, "{answer:?} at {lost:?}");
}

#[tokio::test]
async fn a_store_that_stops_in_a_crowd_answers_everybody() {
    let (store, clock) = store(crowded(), 3);
    let crowd = crowd(&store, &clock);
    until(|| store.occupancy().evictions > 20).await;
    assert_eq!(store.stop().await, Ok(()));
    let seen = all_of(crowd).await;
    assert!(!seen.failures.is_empty());
    assert!(seen.failures.iter().all(|failure| *failure == StoreError::Stopping), "{seen:?}");
}
