//! The pure machines: what a begin with its completion costs in each kind of store, beside one
//! mutex around the same machine and beside a concurrent map that keeps no quota.
//!
//! The ids are `subject/case/records/threads`, in units of one begin with its completion, or one
//! begin where it is answered by a record that stands. Two threads are two shards, each with its
//! records, that share one ledger; one mutex, or one map, is shared by both. What a case is measured
//! with is filled when its measurement begins, so that a filter leaves out the filling too.

mod support;

use std::cell::LazyCell;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use onceward::claim::coordinator::Coordinator;
use onceward::claim::protocol::{
    CallId, CoordinatorDecision, Outcome, ShardDecision, ShardId, ToCoordinator, ToShard,
};
use onceward::claim::shard::Shard;
use onceward::claim::{
    Begin, DigestHash, Fence, Limits, Millis, Reply, RequestHash, Settlement, SlotKey,
};
use onceward::ledger::{Ledger, ShardLedger};
use support::{Leaving, SIZES, conflicting, mix, reply, scaled, together};

/// One machine with its side of the ledger.
struct Machine {
    shard: Shard,
    home: ShardLedger<()>,
    now: Millis,
    out: Vec<ShardDecision>,
}

impl Machine {
    fn new(limits: Limits, ledger: &Arc<Ledger>, shard: usize) -> Self {
        let home = ShardLedger::new(Arc::clone(ledger), ShardId(shard), ());
        Self { shard: Shard::new(limits), home, now: Millis(0), out: Vec::new() }
    }

    fn alone(limits: Limits) -> Self {
        Self::new(limits, &Ledger::new((&limits).into(), 1), 0)
    }

    fn step(&mut self, message: ToShard) {
        self.shard.step(self.now, message, &mut self.home, &mut self.out);
    }

    fn begin(&mut self, begin: Begin) -> Outcome {
        self.step(ToShard::Begin { call: CallId(0), begin });
        match self.out.pop() {
            Some(ShardDecision::Begun { outcome, .. }) => outcome,
            other => panic!("{other:?} instead of an answer"),
        }
    }

    fn complete(&mut self, slot: SlotKey, fence: Fence) {
        let settlement = Settlement::Complete(Arc::new(reply()));
        self.step(ToShard::Settle { call: CallId(0), slot, fence, settlement });
        black_box(self.out.pop());
    }

    fn run(&mut self, leaving: Leaving, begin: Begin) {
        self.now.0 += leaving.tick();
        match self.begin(begin) {
            Outcome::First(fence) => self.complete(begin.slot, fence),
            other => panic!("{other:?} instead of a first"),
        }
    }
}

/// Two machines and their coordinator, every message carried at once.
struct Pair {
    machines: [Machine; 2],
    coordinator: Coordinator,
    ledger: Arc<Ledger>,
    decided: Vec<CoordinatorDecision>,
}

impl Pair {
    fn new(limits: Limits) -> Self {
        let ledger = Ledger::new((&limits).into(), 2);
        let machines = [0, 1].map(|shard| Machine::new(limits, &ledger, shard));
        Self { machines, coordinator: Coordinator::new(2), ledger, decided: Vec::new() }
    }

    fn run(&mut self, begin: Begin) {
        let shard = usize::from(begin.principal.as_bytes()[8]);
        self.machines[shard].step(ToShard::Begin { call: CallId(0), begin });
        let outcome = loop {
            match self.machines[shard].out.pop() {
                Some(ShardDecision::Begun { outcome, .. }) => break outcome,
                Some(ShardDecision::Send(message)) => self.coordinate(message),
                other => panic!("{other:?} instead of an answer"),
            }
        };
        match outcome {
            Outcome::First(fence) => self.machines[shard].complete(begin.slot, fence),
            other => panic!("{other:?} instead of a first"),
        }
    }

    fn coordinate(&mut self, message: ToCoordinator) {
        let now = self.machines[0].now;
        self.coordinator.step(now, message, &mut self.ledger, &mut self.decided);
        while let Some(CoordinatorDecision::Send { shard, message }) = self.decided.pop() {
            let evicts = matches!(message, ToShard::Evict { .. });
            self.machines[shard.0].step(message);
            if evicts && let Some(ShardDecision::Send(answer)) = self.machines[shard.0].out.pop() {
                self.coordinator.step(now, answer, &mut self.ledger, &mut self.decided);
            }
        }
    }
}

/// What a map without quotas keeps for a slot: in flight until there is a reply.
struct Held {
    hash: RequestHash,
    reply: Option<Arc<Reply>>,
}

type Map = DashMap<SlotKey, Held, DigestHash>;

/// Claims and completes in a map without quotas, and takes the oldest out as an expiry would.
fn run_map(map: &Map, begin: Begin, oldest: SlotKey) {
    match map.entry(begin.slot) {
        Entry::Occupied(_) => panic!("a slot that stands instead of a free one"),
        Entry::Vacant(free) => drop(free.insert(Held { hash: begin.hash, reply: None })),
    }
    let reply = Arc::new(reply());
    if let Some(mut held) = map.get_mut(&begin.slot) {
        held.reply = Some(reply);
    }
    map.remove(&oldest);
}

fn fill_map(records: u64) -> Map {
    let map = Map::default();
    for k in 0..records {
        let begin = Leaving::Expiry.begin(k, records);
        map.insert(begin.slot, Held { hash: begin.hash, reply: Some(Arc::new(reply())) });
    }
    map
}

fn look_up(map: &Map, begin: &Begin) -> Option<Arc<Reply>> {
    let held = map.get(&begin.slot)?;
    held.reply.clone().filter(|_| held.hash == begin.hash)
}

/// A subject with the number of its next begin.
struct Worker<S> {
    subject: S,
    next: u64,
}

fn bench(
    c: &mut Criterion,
    (subject, case): (&str, &str),
    (records, threads): (u64, u64),
    measure: impl FnMut(u64) -> Duration,
) {
    let mut measure = measure;
    let id = format!("{subject}/{case}/{records}/{threads}t");
    support::measure(c, &id, |b| b.iter_custom(|iterations| scaled(iterations, &mut measure)));
}

/// Begin and completion in shards of their own, one a thread.
fn shards(c: &mut Criterion, leaving: Leaving, records: u64, threads: u64) {
    let limits = leaving.limits(records);
    // Each shard has its records, so a cap of the store is that of all.
    let store = Limits { entries: limits.entries.saturating_mul(threads as u32), ..limits };
    let mut workers = LazyCell::new(|| {
        let ledger = Ledger::new((&store).into(), threads as usize);
        let fill = |shard| {
            let mut machine = Machine::new(limits, &ledger, shard as usize);
            (0..records).for_each(|k| machine.run(leaving, leaving.begin(k, records)));
            Worker { subject: machine, next: records }
        };
        (0..threads).map(fill).collect::<Vec<_>>()
    });
    bench(c, ("shard", leaving.name()), (records, threads), |iterations| {
        together(&mut workers, |worker| {
            for _ in 0..iterations / threads {
                worker.subject.run(leaving, leaving.begin(worker.next, records));
                worker.next += 1;
            }
        })
    });
}

/// An eviction in the other shard with every begin, by way of the coordinator.
fn pair(c: &mut Criterion, records: u64) {
    let leaving = Leaving::Remote;
    let mut workers = LazyCell::new(|| {
        let mut pair = Pair::new(leaving.limits(records));
        (0..records).for_each(|k| pair.run(leaving.begin(k, records)));
        [Worker { subject: pair, next: records }]
    });
    bench(c, ("shard", leaving.name()), (records, 1), |iterations| {
        together(&mut *workers, |worker| {
            for _ in 0..iterations {
                worker.subject.run(leaving.begin(worker.next, records));
                worker.next += 1;
            }
        })
    });
}

/// The same machine behind one mutex, which is held for each of the two steps.
fn mutex(c: &mut Criterion, leaving: Leaving, records: u64, threads: u64) {
    let machine = LazyCell::new(|| Mutex::new(full(leaving, records)));
    let mut workers = numbered(records, threads);
    bench(c, ("mutex", leaving.name()), (records, threads), |iterations| {
        let machine = &*machine;
        together(&mut workers, |worker| {
            for _ in 0..iterations / threads {
                let begin = leaving.begin(worker.next, records);
                worker.next += threads;
                let outcome = {
                    let mut machine = machine.lock().expect("no panic");
                    machine.now.0 += leaving.tick();
                    machine.begin(begin)
                };
                if let Outcome::First(fence) = outcome {
                    machine.lock().expect("no panic").complete(begin.slot, fence);
                }
            }
        })
    });
}

fn map(c: &mut Criterion, records: u64, threads: u64) {
    let leaving = Leaving::Expiry;
    let map = LazyCell::new(|| fill_map(records));
    let mut workers = numbered(records, threads);
    bench(c, ("dashmap", leaving.name()), (records, threads), |iterations| {
        let map = &*map;
        together(&mut workers, |worker| {
            for _ in 0..iterations / threads {
                let oldest = leaving.begin(worker.next - records, records).slot;
                run_map(map, leaving.begin(worker.next, records), oldest);
                worker.next += threads;
            }
        })
    });
}

/// One machine of `records` records.
fn full(leaving: Leaving, records: u64) -> Machine {
    let mut machine = Machine::alone(leaving.limits(records));
    (0..records).for_each(|k| machine.run(leaving, leaving.begin(k, records)));
    machine
}

/// Workers that share a subject and divide the numbers of its begins.
fn numbered(records: u64, threads: u64) -> Vec<Worker<()>> {
    (0..threads).map(|thread| Worker { subject: (), next: records + thread }).collect()
}

/// Replays and conflicts, where the shard is asked (the read index is measured with the store).
fn standing(c: &mut Criterion, records: u64) {
    let leaving = Leaving::Local;
    let mut machine = LazyCell::new(|| full(leaving, records));
    let map = LazyCell::new(|| fill_map(records));
    let mut next = 0;
    let mut measure = |subject, case, work: &mut dyn FnMut(Begin)| {
        bench(c, (subject, case), (records, 1), |iterations| {
            // What is filled lazily is filled before the clock is started.
            work(leaving.begin(0, records));
            let start = Instant::now();
            for _ in 0..iterations {
                next += 1;
                work(leaving.begin(mix(next) % records, records));
            }
            start.elapsed()
        });
    };
    measure("shard", "replay", &mut |begin| drop(black_box(machine.begin(begin))));
    measure("shard", "conflict", &mut |begin| drop(black_box(machine.begin(conflicting(begin)))));
    measure("dashmap", "replay", &mut |begin| drop(black_box(look_up(&map, &begin))));
}

fn all(c: &mut Criterion) {
    for records in SIZES {
        for threads in [1, 2] {
            for leaving in [Leaving::Expiry, Leaving::Scope, Leaving::Principal, Leaving::Local] {
                // Two shards at the store's cap evict from one another; that is the pair.
                if threads == 1 || leaving != Leaving::Local {
                    shards(c, leaving, records, threads);
                }
                mutex(c, leaving, records, threads);
            }
            map(c, records, threads);
        }
        pair(c, records);
        standing(c, records);
    }
}

criterion_group! { name = benches; config = support::criterion(); targets = all }
criterion_main!(benches);
