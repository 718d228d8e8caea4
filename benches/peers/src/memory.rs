//! How many bytes a record takes, in a store of a million whose replies have no bodies.
//!
//! `memory shard|store|idempotent` prints the subject, the bytes a record was allocated and the
//! bytes a record by which the process grew. One subject a process: what another one gave back
//! would be used again.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use idempotent::fingerprint::{DefaultFingerprintStrategy, FingerprintStrategy};
use idempotent::store::{IdempotencyStore, InsertResult};
use idempotent::{CachedResponse, IdempotencyEntry, IdempotencyKey, Metadata};
use onceward::claim::protocol::{CallId, Outcome, ShardDecision, ShardId, ToShard};
use onceward::claim::shard::Shard;
use onceward::claim::{
    Dispatch,
    Begin, Limits, Millis, PrincipalId, Reply, RequestHash, ScopeId, Settlement, SlotKey,
};
use onceward::ledger::{Ledger, ShardLedger};
use onceward::store::memory::MemoryStore;
use onceward::store::{Asked, Begun, MonotonicClock, ReceiptSettings, Store};
use tokio::runtime::Runtime;

const RECORDS: u64 = 1_000_000;

/// The default quotas: every scope and every principal is full.
const PER_SCOPE: u64 = 32;
const PER_PRINCIPAL: u64 = 64;

/// Begins in flight while the store is filled.
const FILLERS: u64 = 64;

/// An hour: nothing expires while it is counted.
const TTL: Duration = Duration::from_secs(60 * 60);

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.fetch_add(size, Ordering::Relaxed);
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The pages that the process holds, in bytes.
fn resident() -> usize {
    const PAGE: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").expect("a Linux system");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("the second field of statm") * PAGE
}

/// Bytes as even as those of a digest where a map looks at them; the second word chooses the shard.
fn digest(number: u64, shard: u64) -> [u8; 32] {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    bytes[8..16].copy_from_slice(&shard.to_le_bytes());
    bytes[24..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Begin number `k`, of principals spread over two shards.
fn begin(k: u64) -> Begin {
    let principal = k / PER_PRINCIPAL;
    let shard = principal % 2;
    Begin {
        slot: SlotKey::from_bytes(digest(k, shard)),
        scope: ScopeId::from_bytes(digest(k / PER_SCOPE, shard)),
        principal: PrincipalId::from_bytes(digest(principal, shard)),
        hash: RequestHash::from_bytes(digest(k, 0)), dispatch: Dispatch::UNDECLARED }
}

fn limits() -> Limits {
    let ttl = Millis(TTL.as_millis() as u64);
    let entries = RECORDS as u32;
    Limits { entries, ttl, tombstone_ttl: ttl, in_flight: 256, ..Limits::default() }
}

fn reply() -> Reply {
    let content_type = Some(Bytes::from_static(b"application/json"));
    Reply::new(200, content_type, Bytes::new(), 0).expect("no body")
}

/// One machine, without a read index.
fn shard() -> impl Sized {
    let ledger = Ledger::new((&limits()).into(), 1);
    let mut home = ShardLedger::new(ledger, ShardId(0), ());
    let mut shard = Shard::new(limits());
    let mut out = Vec::new();
    for k in 0..RECORDS {
        let (call, begin) = (CallId(k), begin(k));
        shard.step(Millis(0), ToShard::Begin { call, begin }, &mut home, &mut out);
        let fence = match out.pop() {
            Some(ShardDecision::Begun { outcome: Outcome::First(fence), .. }) => fence,
            other => panic!("{other:?} instead of a first"),
        };
        let settlement = Settlement::Complete(Arc::new(reply()));
        let settle = ToShard::Settle { call, slot: begin.slot, fence, settlement };
        shard.step(Millis(0), settle, &mut home, &mut out);
        out.clear();
    }
    (shard, home)
}

/// The running store with its read index.
async fn store() -> impl Sized {
    let receipts = ReceiptSettings { entries: 0, ..ReceiptSettings::default() };
    let clock = Arc::new(MonotonicClock::start());
    let store = MemoryStore::start(limits(), receipts, 2, clock).expect("a thread");
    let fillers: Vec<_> = (0..FILLERS)
        .map(|filler| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for k in (filler..RECORDS).step_by(FILLERS as usize) {
                    // The fillers stand side by side in one scope, more than it may have in flight.
                    while !claim(&store, k).await {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for filler in fillers {
        filler.await.expect("a filler");
    }
    assert_eq!(u64::from(store.occupancy().completed), RECORDS);
    store
}

/// Claims and completes slot `k`, unless its scope has too much in flight.
async fn claim(store: &MemoryStore, k: u64) -> bool {
    match Store::begin(store, Asked::at("", begin(k))).await {
        Ok(Begun::First(ticket)) => store.complete(ticket, reply()).await.is_ok(),
        Ok(Begun::Capacity(_)) => false,
        other => panic!("{other:?} instead of a first"),
    }
}

/// The memory store of the crate `idempotent`, with keys as long as a UUID.
async fn idempotent() -> impl Sized {
    let store = idempotent::store::memory::MemoryStore::new(1024, TTL);
    let fingerprint = DefaultFingerprintStrategy.compute("tools/call", b"{}");
    for k in 0..RECORDS {
        let key = IdempotencyKey::new(format!("{k:036}")).expect("a short key");
        let entry = IdempotencyEntry::new(fingerprint, TTL);
        let Ok(InsertResult::Claimed { fencing_token }) =
            store.try_insert(&key, entry.clone()).await
        else {
            panic!("a key that stands instead of a free one");
        };
        let (metadata, body) = (Metadata::default(), Bytes::new());
        let reply = entry.complete(CachedResponse { status_code: 200, metadata, body });
        let _ = store.complete(&key, reply, fencing_token).await;
    }
    store
}

/// Keeps what `fill` made until it is measured.
fn measure<T>(subject: &str, fill: impl FnOnce() -> T) {
    let (allocated, pages) = (ALLOCATED.load(Ordering::Relaxed), resident());
    let filled = fill();
    let each = |now: usize, before: usize| now.saturating_sub(before) as f64 / RECORDS as f64;
    let allocated = each(ALLOCATED.load(Ordering::Relaxed), allocated);
    println!("{subject} {allocated:.0} {:.0}", each(resident(), pages));
    std::mem::forget(filled);
}

fn main() -> ExitCode {
    let runtime = Runtime::new().expect("a runtime");
    match std::env::args().nth(1).as_deref() {
        Some("shard") => measure("shard", shard),
        Some("store") => measure("store", || runtime.block_on(store())),
        Some("idempotent") => measure("idempotent", || runtime.block_on(idempotent())),
        _ => {
            eprintln!("usage: memory shard|store|idempotent");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
