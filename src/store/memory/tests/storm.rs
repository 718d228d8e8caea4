//! Everything at once: callers that leave at any point, tickets that are dropped, and a part of the
//! store that fails, or a stop, in the middle of it. Many seeds; a seed that fails is named, and
//! `ONCEWARD_SEED` runs it alone.
//!
//! Whatever happens, everybody gets an answer, nobody executes what another executes or may have
//! executed, and in the end nothing is counted but what a dead part took with it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::claim::invariant::{RecordView, recount_store};
use crate::claim::protocol::ToShard;
use crate::claim::{SlotKey, TombstoneReason};
use crate::store::memory::coordinator::CoordinatorInput;
use crate::store::memory::shard::ShardInput;

const SEEDS: u64 = 12;
const SHARDS: u64 = 3;
const PRINCIPALS: u64 = 3;
const THREADS: u64 = 3;
const WORKERS: u64 = 6;
const ROUNDS: u64 = 25;

/// The shard that fails.
const VICTIM: u64 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Shard,
    Coordinator,
    Stop,
}

/// What the callers know of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Free, or completed and perhaps evicted.
    Open,
    Executing,
    /// Nobody knows whether it was executed: it must not be again. Nothing expires in a storm.
    Closed,
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// One storm, seen by all its callers.
struct Storm {
    store: Arc<MemoryStore>,
    fault: Fault,
    /// After so many begins the fault happens.
    due: u64,
    begins: AtomicU64,
    slots: Mutex<HashMap<SlotKey, Known>>,
    /// What the shard that fails held at its end.
    census: Mutex<Option<Receiver<Vec<RecordView>>>>,
}

impl Storm {
    /// Somebody begins; whoever is the one after which the fault is due brings it about.
    async fn count_begin(&self) {
        if self.begins.fetch_add(1, Ordering::SeqCst) != self.due {
            return;
        }
        match self.fault {
            Fault::None => {}
            Fault::Shard => {
                let (sender, receiver) = channel();
                *self.census.lock().expect("unpoisoned") = Some(receiver);
                self.store.directory.tell_shard(VICTIM as usize, ShardInput::Crash(Some(sender)));
            }
            Fault::Coordinator => {
                self.store.directory.tell_coordinator(CoordinatorInput::Crash);
            }
            Fault::Stop => assert_eq!(self.store.stop().await, Ok(())),
        }
    }

    /// A begin was won. What another executes, or may have executed, must not be executed.
    fn execute(&self, slot: SlotKey) {
        let before = self.slots.lock().expect("unpoisoned").insert(slot, Known::Executing);
        let open = matches!(before, None | Some(Known::Open));
        assert!(open, "{slot:?} is executed although it is {before:?}");
    }

    /// What is known of a slot from the moment at which its settle may land.
    fn know(&self, slot: SlotKey, known: Known) {
        self.slots.lock().expect("unpoisoned").insert(slot, known);
    }

    fn may_fail(&self, error: StoreError) {
        let expected = match self.fault {
            Fault::None => false,
            Fault::Shard | Fault::Coordinator => error == StoreError::Down,
            Fault::Stop => error == StoreError::Stopping,
        };
        assert!(expected, "{error} in a storm with {:?}", self.fault);
    }

    async fn work(&self, mut random: Random) {
        for _ in 0..ROUNDS {
            self.count_begin().await;
            let who = caller(random.below(SHARDS), random.below(PRINCIPALS));
            let begin = who.begin_in(random.below(2), random.below(6), random.below(8) / 7);
            let asking = Store::begin(&*self.store, Asked::at("", begin));
            // Of those that leave, some leave at once, others while they wait.
            let patience = if random.below(4) == 0 { random.below(4) } else { u64::MAX };
            let answer = tokio::select! {
                biased;
                answer = asking => answer,
                () = yields(patience) => continue,
            };
            match answer {
                Ok(Begun::First(ticket)) => {
                    self.execute(begin.slot);
                    tokio::task::yield_now().await;
                    self.settle(ticket, &mut random).await;
                }
                Ok(_) => {}
                Err(error) => self.may_fail(error),
            }
        }
    }

    async fn settle(&self, ticket: Ticket, random: &mut Random) {
        let slot = ticket.slot();
        let choice = random.below(8);
        self.know(slot, if choice < 3 { Known::Closed } else { Known::Open });
        let settling = match choice {
            0 => return drop(ticket),
            1 => return drop(self.store.complete(ticket, reply("never sent"))),
            2 => self.store.tombstone(ticket, TombstoneReason::NotReplayable),
            3 => self.store.release(ticket),
            _ => self.store.complete(ticket, reply("done")),
        };
        if let Err(error) = settling.await {
            self.may_fail(error);
        }
    }
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    let Ok(one) = std::env::var("ONCEWARD_SEED") else { return 0..count };
    let one = one.parse().expect("ONCEWARD_SEED is a number");
    one..one + 1
}

/// Gives way so often, that others on this thread and elsewhere get on.
async fn yields(times: u64) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

/// Rages until every caller is through, and returns what it left.
async fn rage(seed: u64, fault: Fault, limits: Limits) -> (Arc<Storm>, Arc<ManualClock>) {
    let (store, clock) = store(limits, SHARDS as usize);
    let mut random = Random(seed);
    let due = random.below(THREADS * WORKERS * ROUNDS / 2);
    let storm = Arc::new(Storm {
        store,
        fault,
        due,
        begins: AtomicU64::new(0),
        slots: Mutex::default(),
        census: Mutex::default(),
    });
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let storm = Arc::clone(&storm);
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(async {
                    let worker = |n| storm.work(Random(seed << 16 | thread << 8 | n));
                    futures_util::future::join_all((0..WORKERS).map(worker)).await;
                });
            })
        })
        .collect();
    until(|| threads.iter().all(std::thread::JoinHandle::is_finished)).await;
    for thread in threads {
        assert!(thread.join().is_ok(), "seed {seed}, {fault:?}: a caller panicked");
    }
    (storm, clock)
}

/// Lets everything expire, and waits until as much is counted as was lost.
async fn calm(storm: &Storm, clock: &ManualClock, gone: impl Fn(&MemoryStore) -> bool) {
    let store = &storm.store;
    clock.advance(Millis(100));
    until(|| {
        store.directory.tell_every_shard(|| ShardInput::Protocol(ToShard::Tick));
        gone(store)
    })
    .await;
}

/// Less room than the callers want, so that many wait.
fn crowded() -> Limits {
    Limits {
        entries: 8,
        in_flight: 4,
        principal_entries: 8,
        principal_in_flight: 4,
        scope_entries: 4,
        scope_in_flight: 3,
        scope_tombstones: 3,
        ..small()
    }
}

#[tokio::test]
async fn callers_that_leave_leave_nothing() {
    let mut evictions = 0;
    for seed in seeds(SEEDS * 2) {
        let (storm, clock) = rage(seed, Fault::None, crowded()).await;
        calm(&storm, &clock, |store| store.occupancy().records == 0).await;
        let occupancy = storm.store.occupancy();
        assert_eq!((occupancy.in_flight, occupancy.completed), (0, 0), "seed {seed}");
        assert_eq!(storm.store.ready(), Ok(()));
        assert_eq!(storm.store.stop().await, Ok(()));
        evictions += occupancy.evictions;
    }
    assert!(evictions > 0, "the store was never full");
}

/// What is counted in the end is what the dead shard held; where `waited`, and the permits of its
/// begins that the coordinator admitted when it could no longer hear of it.
async fn lose_a_shard(limits: Limits, waited: bool) {
    for seed in seeds(SEEDS) {
        let (storm, clock) = rage(seed, Fault::Shard, limits).await;
        let census = storm.census.lock().expect("unpoisoned").take().expect("it has failed");
        let held = recount_store(&census.recv().expect("it said what it held"));
        let lost = if waited { PRINCIPALS as u32 } else { 0 };
        let rest = held.records - held.in_flight;
        calm(&storm, &clock, |store| {
            let now = store.occupancy();
            now.completed == 0 && now.tombstones == rest && now.in_flight <= held.in_flight + lost
        })
        .await;
        let now = storm.store.occupancy();
        assert!(now.in_flight >= held.in_flight, "seed {seed}: {now:?}, it held {held:?}");
        assert_eq!(storm.store.ready(), Err(StoreError::Down));
        let answer = Store::begin(&*storm.store, Asked::at("", caller(VICTIM, 0).begin(0))).await;
        assert_eq!(answer.err(), Some(StoreError::Down), "seed {seed}");
        assert_eq!(storm.store.stop().await, Ok(()));
    }
}

#[tokio::test]
async fn a_shard_that_fails_takes_exactly_its_own_permits_with_it() {
    lose_a_shard(Limits { scope_tombstones: 4, ..small() }, false).await;
}

#[tokio::test]
async fn a_shard_that_fails_while_others_wait_for_it_frees_nothing() {
    lose_a_shard(crowded(), true).await;
}

/// An owner may have admitted one waiter when the coordinator could no longer pass it on.
#[tokio::test]
async fn a_coordinator_that_fails_frees_nothing_and_hangs_nobody() {
    for seed in seeds(SEEDS) {
        let (storm, clock) = rage(seed, Fault::Coordinator, crowded()).await;
        calm(&storm, &clock, |store| {
            let now = store.occupancy();
            let failed = store.ready() == Err(StoreError::Down);
            failed && now.records <= 1 && now.records == now.in_flight
        })
        .await;
        assert_eq!(storm.store.stop().await, Ok(()));
    }
}

#[tokio::test]
async fn a_stop_among_begins_answers_everybody() {
    for seed in seeds(SEEDS) {
        let (storm, _) = rage(seed, Fault::Stop, crowded()).await;
        let answer = Store::begin(&*storm.store, Asked::at("", caller(0, 0).begin(0))).await;
        assert_eq!(answer.err(), Some(StoreError::Stopping), "seed {seed}");
        assert_eq!(storm.store.ready(), Err(StoreError::Stopping));
    }
}
