//! What the benchmarks share: callers and their slots, limits of each kind, and threads that are
//! started together.
//!
//! Every case is a steady state: as many records leave as come, so that the count of records stays
//! what the name of the case says however long it is measured.

#![allow(dead_code, reason = "each benchmark uses a part of it")]

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Bencher, Criterion, SamplingMode};
use onceward::claim::limits::MAX_ENTRIES;
use onceward::claim::{
    Begin, Dispatch, Limits, Millis, PrincipalId, Reply, RequestHash, ScopeId, SlotKey,
};

/// The counts of records that every case is measured with.
pub const SIZES: [u64; 2] = [256, 1_000_000];

/// Records of one principal, all of one scope, where no quota is to be reached: as many as the
/// default quota of a scope.
const PER_PRINCIPAL: u64 = 32;

/// The cap of a scope, and of a principal of two scopes, where that quota is to be reached: the
/// defaults.
pub const SCOPE_CAP: u32 = 32;
pub const PRINCIPAL_CAP: u32 = 64;

/// How a record leaves while another one comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// Below every cap: with every begin the oldest record expires.
    Expiry,
    /// The begin's scope is full.
    Scope,
    /// The begin's principal is full, its scopes are not.
    Principal,
    /// The store is full, and the oldest record is in the shard that is asked.
    Local,
    /// The store is full, and the oldest record is in another shard.
    Remote,
}

impl Leaving {
    pub const ALL: [Self; 5] =
        [Self::Expiry, Self::Scope, Self::Principal, Self::Local, Self::Remote];

    /// The name of the case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Expiry => "below",
            Self::Scope => "scope",
            Self::Principal => "principal",
            Self::Local => "global_local",
            Self::Remote => "global_remote",
        }
    }

    /// Limits under which `records` stand.
    pub fn limits(self, records: u64) -> Limits {
        let entries =
            if matches!(self, Self::Local | Self::Remote) { records as u32 } else { MAX_ENTRIES };
        let principal_entries = if self == Self::Principal { PRINCIPAL_CAP } else { entries };
        let scope_entries = if self == Self::Scope { SCOPE_CAP } else { principal_entries };
        let ttl = Millis(if self == Self::Expiry { records } else { 1 << 40 });
        Limits {
            ttl,
            tombstone_ttl: ttl,
            entries,
            in_flight: entries,
            principal_entries,
            principal_in_flight: principal_entries,
            scope_entries,
            scope_in_flight: scope_entries,
            scope_tombstones: entries,
            reply_bytes: 1024,
        }
    }

    /// How far the clock moves with every begin.
    pub fn tick(self) -> u64 {
        u64::from(self == Self::Expiry)
    }

    /// The begin number `k` of a case: numbers below `records` fill the store, later ones come
    /// while as many leave.
    pub fn begin(self, k: u64, records: u64) -> Begin {
        let filling = k < records;
        let spread = |range: u64| if filling { k % range } else { mix(k) % range };
        match self {
            Self::Expiry | Self::Local => caller(0, spread(records / PER_PRINCIPAL), 0, k),
            // The shard changes after as many begins as there are records: all that stand are then
            // in the other one.
            Self::Remote => caller((k / records) % 2, spread(records / PER_PRINCIPAL), 0, k),
            Self::Scope => caller(0, spread(records / u64::from(SCOPE_CAP)), 0, k),
            Self::Principal => {
                let number = spread(records / u64::from(PRINCIPAL_CAP));
                caller(0, number, (k / (records / u64::from(PRINCIPAL_CAP))) % 2, k)
            }
        }
    }
}

/// A begin on slot `slot` of a principal that lives in the given shard of two.
fn caller(shard: u64, number: u64, scope: u64, slot: u64) -> Begin {
    Begin {
        slot: SlotKey::from_bytes(digest(slot, shard)),
        scope: ScopeId::from_bytes(digest(number * 2 + scope, shard)),
        principal: PrincipalId::from_bytes(digest(number, shard)),
        hash: RequestHash::from_bytes([0; 32]),
        dispatch: Dispatch::UNDECLARED,
    }
}

/// The same begin with another request under its key.
pub fn conflicting(begin: Begin) -> Begin {
    Begin { hash: RequestHash::from_bytes([1; 32]), ..begin }
}

/// Bytes as even as those of a digest where a map looks at them; the second word chooses the shard.
pub fn digest(number: u64, shard: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&mix(number).to_le_bytes());
    bytes[8..16].copy_from_slice(&shard.to_le_bytes());
    bytes[24..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// SplitMix64.
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The reply of every case.
pub fn reply() -> Reply {
    let content_type = Some(Bytes::from_static(b"application/json"));
    let body = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    Reply::new(200, content_type, body, 1024).expect("a short body")
}

/// Iterations of the shortest run: it must be long beside the start of its threads, and the first
/// run of a case is short, because what it is measured with is filled in it.
pub const SHORTEST_RUN: u64 = 20_000;

/// Runs at least [`SHORTEST_RUN`] iterations and says how long `iterations` of them took.
pub fn scaled(iterations: u64, mut run: impl FnMut(u64) -> Duration) -> Duration {
    let done = iterations.max(SHORTEST_RUN);
    run(done).mul_f64(iterations as f64 / done as f64)
}

/// Runs `work` once on each context, each on a thread of its own, all started together, and says
/// how long it took until the last was done.
pub fn together<C: Send>(contexts: &mut [C], work: impl Fn(&mut C) + Sync) -> Duration {
    let barrier = Arc::new(Barrier::new(contexts.len() + 1));
    std::thread::scope(|scope| {
        let threads: Vec<_> = contexts
            .iter_mut()
            .map(|context| {
                let (barrier, work) = (Arc::clone(&barrier), &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(context);
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for thread in threads {
            thread.join().expect("a thread of the benchmark");
        }
        start.elapsed()
    })
}

/// Measures one case. Its id is `subject/case`; every sample has as many iterations as any other,
/// which suits cases of very different lengths.
pub fn measure(c: &mut Criterion, id: &str, work: impl FnMut(&mut Bencher<'_>)) {
    let (subject, case) = id.split_once('/').unwrap_or((id, ""));
    let mut group = c.benchmark_group(subject);
    group.sampling_mode(SamplingMode::Flat).bench_function(case, work);
    group.finish();
}

/// Criterion with times short enough for the whole table; arguments of the command override them.
pub fn criterion() -> Criterion {
    Criterion::default()
        .without_plots()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
}
