//! The lock-free ledger of the memory store (STORE section 3): the three store-wide counts in one
//! atomic word, the completion counter, and what each shard publishes.
//!
//! While there is room, shards start and settle records here alone, without a message. Every
//! transition of the word is one compare-and-swap, and that is its linearization point.

mod plain;
mod published;
mod shard;
mod sync;
mod word;

use std::sync::Arc;

pub use plain::{PlainLedger, PlainShard};
pub use shard::ShardLedger;

use crate::claim::counts::{Counts, Full, StoreCaps};
use crate::claim::protocol::ShardId;
use crate::claim::shared::Shared;
use crate::claim::{CompletionSeq, Millis};
use published::Published;
use sync::{AtomicU64, Ordering};
use word::Word;

/// What the shards and the coordinator of one memory store share.
#[derive(Debug)]
pub struct Ledger {
    caps: StoreCaps,
    word: Word,
    completions: AtomicU64,
    evictions: AtomicU64,
    published: Box<[Published]>,
}

impl Ledger {
    /// An empty ledger for `shards` shards.
    pub fn new(caps: StoreCaps, shards: usize) -> Arc<Self> {
        Arc::new(Self {
            caps,
            word: Word::new(),
            completions: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            published: (0..shards).map(|_| Published::new()).collect(),
        })
    }

    /// One reading of the three counts.
    pub fn counts(&self) -> Counts {
        self.word.load()
    }

    /// Completed records evicted since the start. A statistic: it orders nothing.
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    fn count_eviction(&self) {
        self.evictions.fetch_add(1, Ordering::Relaxed);
    }

    /// Draws the next completion number.
    ///
    /// Release: who reads the counter past this number (acquire) also sees the lower bound that the
    /// shard published before drawing it. Later draws by other shards continue the release
    /// sequence, so that this holds for whichever number is read.
    fn draw(&self) -> CompletionSeq {
        CompletionSeq(self.completions.fetch_add(1, Ordering::AcqRel))
    }
}

/// The coordinator's view.
impl Shared for Arc<Ledger> {
    fn counts(&self) -> Counts {
        self.word.load()
    }

    fn start(&mut self) -> Result<(), Full> {
        self.word.change(|counts| counts.start(self.caps).map(|next| (next, ())))
    }

    fn release(&mut self) {
        self.word.replace(Counts::release);
    }

    fn next_completion(&self) -> CompletionSeq {
        CompletionSeq(self.completions.load(Ordering::Acquire))
    }

    fn shards(&self) -> usize {
        self.published.len()
    }

    fn oldest(&self, shard: ShardId) -> Option<CompletionSeq> {
        self.published.get(shard.0).and_then(Published::oldest)
    }

    fn next_expiry(&self, shard: ShardId) -> Millis {
        self.published.get(shard.0).map_or(Millis::NEVER, Published::next_expiry)
    }
}

#[cfg(test)]
mod tests;
