//! What one shard tells the others without a message.

use super::sync::{AtomicU64, Ordering};
use crate::claim::{CompletionSeq, Millis};

/// Stands for "none"; no completion is ever numbered so.
const NONE: u64 = u64::MAX;

/// A lower bound of a shard's oldest completion and of its next expiry, written by it alone.
///
/// Alone on its cache lines: the shard writes often, and others must not pay for it.
///
/// Stores release and loads acquire: who sees a value raised also sees the sweep or eviction that
/// raised it. That a lowered value is seen in time rests on the counter and the word, which are
/// moved after it (see `Ledger::draw` and `Word::load`).
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Published {
    oldest: AtomicU64,
    next_expiry: AtomicU64,
}

impl Published {
    pub(super) fn new() -> Self {
        Self { oldest: AtomicU64::new(NONE), next_expiry: AtomicU64::new(Millis::NEVER.0) }
    }

    pub(super) fn oldest(&self) -> Option<CompletionSeq> {
        match self.oldest.load(Ordering::Acquire) {
            NONE => None,
            seq => Some(CompletionSeq(seq)),
        }
    }

    pub(super) fn set_oldest(&self, oldest: Option<CompletionSeq>) {
        self.oldest.store(oldest.map_or(NONE, |seq| seq.0), Ordering::Release);
    }

    pub(super) fn next_expiry(&self) -> Millis {
        Millis(self.next_expiry.load(Ordering::Acquire))
    }

    pub(super) fn set_next_expiry(&self, next_expiry: Millis) {
        self.next_expiry.store(next_expiry.0, Ordering::Release);
    }
}
