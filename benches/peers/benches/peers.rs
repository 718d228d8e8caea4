//! The running store beside the memory store of the crate `idempotent`, in one process.
//!
//! The ids are `peers/subject/records/where it runs/in flight`. Of both, one record goes with every
//! one that comes because it has expired. `idempotent` keeps no quota and no order; it is measured
//! on one thread, which saves it every wake-up across threads, and on a pool of two.

#[path = "../../support/clients.rs"]
mod clients;
#[path = "../../support/running.rs"]
mod running;
#[path = "../../support/mod.rs"]
mod support;

use std::cell::LazyCell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use idempotent::fingerprint::{DefaultFingerprintStrategy, Fingerprint, FingerprintStrategy};
use idempotent::store::memory::MemoryStore;
use idempotent::store::{IdempotencyStore, InsertResult};
use idempotent::{CachedResponse, IdempotencyEntry, IdempotencyKey, Metadata};
use tokio::runtime::{Builder, Runtime};

use clients::Clients;
use running::Running;
use support::{Leaving, SHORTEST_RUN, SIZES};

/// Messages that may wait for the peer's store: more than are ever in flight.
const BUFFER: usize = 1024;

/// The peer's sweep looks at every record; it is left out of the measurement.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// Threads of clients, and begins that they keep in flight together.
const LOADS: [(u64, u64); 3] = [(1, 1), (1, 32), (2, 32)];

/// The peer's store, with as many keys as it holds records.
struct Peer {
    store: MemoryStore,
    keys: Vec<IdempotencyKey>,
    fingerprint: Fingerprint,
    next: AtomicU64,
}

impl Peer {
    fn new(records: u64) -> Self {
        let key = |k| IdempotencyKey::new(format!("order-{k:012}")).expect("a short key");
        Self {
            store: MemoryStore::new(BUFFER, NEVER),
            keys: (0..records).map(key).collect(),
            fingerprint: DefaultFingerprintStrategy.compute("tools/call", b"{}"),
            next: AtomicU64::new(0),
        }
    }

    /// Claims the next key, whose record has expired, and completes it.
    async fn begin_and_complete(&self) {
        let k = self.next.fetch_add(1, Ordering::Relaxed) as usize;
        let key = &self.keys[k % self.keys.len()];
        let entry = IdempotencyEntry::new(self.fingerprint, Duration::ZERO);
        match self.store.try_insert(key, entry.clone()).await {
            Ok(InsertResult::Claimed { fencing_token }) => {
                let body = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
                let metadata = Metadata::default();
                let reply = entry.complete(CachedResponse { status_code: 200, metadata, body });
                let _ = black_box(self.store.complete(key, reply, fencing_token).await);
            }
            other => panic!("{other:?} instead of a claim"),
        }
    }

    /// Runs `calls` of them in tasks of the runtime.
    async fn run(self: &Arc<Self>, calls: u64, in_flight: u64) -> Duration {
        let each = calls.max(SHORTEST_RUN).div_ceil(in_flight);
        let start = Instant::now();
        let tasks: Vec<_> = (0..in_flight)
            .map(|_| {
                let peer = Arc::clone(self);
                tokio::spawn(async move {
                    for _ in 0..each {
                        peer.begin_and_complete().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a client");
        }
        start.elapsed().mul_f64(calls as f64 / (each * in_flight) as f64)
    }
}

fn peer(c: &mut Criterion, runtime: &Runtime, place: &str, records: u64) {
    let peer = LazyCell::new(|| {
        let peer = runtime.block_on(async { Arc::new(Peer::new(records)) });
        runtime.block_on(peer.run(records, 32));
        peer
    });
    for in_flight in [1, 32] {
        let id = format!("peers/idempotent/{records}/{place}/{in_flight}f");
        support::measure(c, &id, |b| {
            b.iter_custom(|calls| runtime.block_on(peer.run(calls, in_flight)));
        });
    }
}

fn ours(c: &mut Criterion, runtime: &Runtime, records: u64) {
    let mut running = None;
    let mut next = records;
    for (threads, in_flight) in LOADS {
        let mut clients = Clients::new(threads, in_flight, next);
        let id = format!("peers/onceward/{records}/{threads}t/{in_flight}f");
        support::measure(c, &id, |b| {
            b.iter_custom(|iterations| {
                let leaving = Leaving::Expiry;
                let running = Running::in_place(&mut running, leaving, records).clone();
                clients.run(iterations, move |k| {
                    let running = running.clone();
                    async move { running.begin_and_complete(k).await }
                })
            });
        });
        next = clients.next();
    }
    Running::stop(running, runtime);
}

fn all(c: &mut Criterion) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    for records in SIZES {
        ours(c, &runtime, records);
        let one = Builder::new_current_thread().enable_all().build().expect("a runtime");
        peer(c, &one, "1t", records);
        let pool =
            Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        peer(c, &pool, "2t", records);
    }
}

criterion_group! { name = benches; config = support::criterion(); targets = all }
criterion_main!(benches);
