//! The running store: actors, threads and callers that come and go.

mod capacity;
mod claims;
mod failure;
mod hammer;
mod receipts;
mod storm;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::MemoryStore;
use crate::claim::{Dispatch, Limits, Millis, PrincipalId, Reply, RequestHash, ScopeId, SlotKey};
use crate::store::{Asked, Begin, Begun, Clock, ReceiptSettings, Store, StoreError, Ticket};

/// A clock that stands still until it is told otherwise. It is read in the middle of a handler:
/// now and then a reader gives way, so that others find the actor busy.
#[derive(Debug, Default)]
struct ManualClock {
    now: AtomicU64,
    readings: AtomicU64,
}

impl ManualClock {
    fn advance(&self, by: Millis) {
        self.now.fetch_add(by.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        if self.readings.fetch_add(1, Ordering::Relaxed).is_multiple_of(16) {
            std::thread::yield_now();
        }
        Millis(self.now.load(Ordering::SeqCst))
    }
}

/// A store with its clock.
fn store(limits: Limits, shards: usize) -> (Arc<MemoryStore>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    assert_eq!(limits.validate(), Ok(()));
    let shared = Arc::clone(&clock) as Arc<dyn Clock>;
    let store = MemoryStore::start(limits, ReceiptSettings::default(), shards, shared);
    (store.expect("a thread"), clock)
}

fn small() -> Limits {
    Limits { ttl: Millis(100), tombstone_ttl: Millis(100), ..Limits::default() }
}

/// A caller: a principal that lives in the given shard, of any number of shards above it.
#[derive(Debug, Clone, Copy)]
struct Caller {
    shard: u64,
    number: u64,
}

fn caller(shard: u64, number: u64) -> Caller {
    Caller { shard, number }
}

fn digest(parts: [u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (place, part) in bytes.chunks_exact_mut(8).zip(parts) {
        place.copy_from_slice(&part.to_le_bytes());
    }
    bytes
}

impl Caller {
    /// A begin on one of this caller's slots, in its scope 0.
    fn begin(self, slot: u64) -> Begin {
        self.begin_in(0, slot, 0)
    }

    fn begin_in(self, scope: u64, slot: u64, hash: u64) -> Begin {
        let spread = |number: u64| (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (shard, number) = (self.shard, self.number);
        Begin {
            slot: SlotKey::from_bytes(digest([spread(slot), shard, number, scope])),
            scope: ScopeId::from_bytes(digest([spread(scope), shard, number, 0])),
            principal: PrincipalId::from_bytes(digest([spread(number), shard, 0, 0])),
            hash: RequestHash::from_bytes(digest([hash, 0, 0, 0])),
            dispatch: Dispatch::UNDECLARED,
        }
    }
}

fn reply(body: &'static str) -> Reply {
    Reply::new(200, None, Bytes::from_static(body.as_bytes()), 1024).expect("it fits")
}

fn first(begun: Result<Begun, StoreError>) -> Ticket {
    match begun {
        Ok(Begun::First(ticket)) => ticket,
        other => panic!("{other:?} instead of a first"),
    }
}

fn body(begun: Result<Begun, StoreError>) -> Bytes {
    match begun {
        Ok(Begun::Replay(reply)) => reply.body().clone(),
        other => panic!("{other:?} instead of a replay"),
    }
}

/// Begins and completes.
async fn complete(store: &MemoryStore, begin: Begin) {
    let ticket = first(Store::begin(store, Asked::at("", begin)).await);
    let settled = store.complete(ticket, reply("done")).await;
    assert_eq!(settled, Ok(crate::store::Settled::Done));
}

/// Waits until a condition holds that a message on its way will make true.
async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}
