//! One shard's side of the ledger.

use std::sync::Arc;

use super::Ledger;
use crate::claim::counts::{Counts, Full, InFlightFull, Room};
use crate::claim::protocol::ShardId;
use crate::claim::shared::{Home, Index, Shared};
use crate::claim::{Completion, CompletionSeq, Millis, SlotKey};

/// The ledger as one shard uses it, with that shard's view of the read index.
///
/// It counts the shard's own completed records beside the word, with nothing between the two that
/// could fail, so that exactly they can leave the word when the shard dies.
#[derive(Debug)]
pub struct ShardLedger<I> {
    ledger: Arc<Ledger>,
    shard: ShardId,
    completed: u32,
    oldest: Option<CompletionSeq>,
    next_expiry: Millis,
    index: I,
}

impl<I> ShardLedger<I> {
    /// The side of `shard`, which must be used by one owner alone.
    pub fn new(ledger: Arc<Ledger>, shard: ShardId, index: I) -> Self {
        Self { ledger, shard, completed: 0, oldest: None, next_expiry: Millis::NEVER, index }
    }

    /// The shard has died: its completed records leave the word, since nobody can evict them, and
    /// it publishes nothing any more. Its permits stay counted.
    ///
    /// The count leaves before the published value does: completed records that nobody publishes
    /// would keep the coordinator looking.
    pub fn abandon(&mut self) {
        let completed = std::mem::take(&mut self.completed);
        self.ledger.word.replace(|counts| counts.forget(completed));
        self.set_oldest(None);
        self.set_next_expiry(Millis::NEVER);
    }

    fn set_oldest(&mut self, oldest: Option<CompletionSeq>) {
        if self.oldest != oldest {
            self.oldest = oldest;
            if let Some(published) = self.ledger.published.get(self.shard.0) {
                published.set_oldest(oldest);
            }
        }
    }

    fn set_next_expiry(&mut self, next_expiry: Millis) {
        if self.next_expiry != next_expiry {
            self.next_expiry = next_expiry;
            if let Some(published) = self.ledger.published.get(self.shard.0) {
                published.set_next_expiry(next_expiry);
            }
        }
    }
}

impl<I> Shared for ShardLedger<I> {
    fn counts(&self) -> Counts {
        self.ledger.counts()
    }

    fn start(&mut self) -> Result<(), Full> {
        self.ledger.start()
    }

    fn release(&mut self) {
        self.ledger.release();
    }

    fn next_completion(&self) -> CompletionSeq {
        self.ledger.next_completion()
    }

    fn shards(&self) -> usize {
        self.ledger.shards()
    }

    fn oldest(&self, shard: ShardId) -> Option<CompletionSeq> {
        self.ledger.oldest(shard)
    }

    fn next_expiry(&self, shard: ShardId) -> Millis {
        self.ledger.next_expiry(shard)
    }
}

impl<I: Index> Home for ShardLedger<I> {
    fn shard(&self) -> ShardId {
        self.shard
    }

    fn evict(&mut self) -> Result<(), InFlightFull> {
        let caps = self.ledger.caps;
        self.ledger.word.change(|counts| counts.evict(caps).map(|next| (next, ())))?;
        self.completed = self.completed.saturating_sub(1);
        self.ledger.count_eviction();
        Ok(())
    }

    fn start_or_evict(&mut self) -> Result<Room, InFlightFull> {
        let caps = self.ledger.caps;
        let room = self.ledger.word.change(|counts| counts.start_or_evict(caps))?;
        if room == Room::Evicted {
            self.completed = self.completed.saturating_sub(1);
            self.ledger.count_eviction();
        }
        Ok(room)
    }

    fn redispatch(&mut self) -> Result<(), InFlightFull> {
        let caps = self.ledger.caps;
        self.ledger.word.change(|counts| counts.redispatch(caps).map(|next| (next, ())))
    }

    fn complete(&mut self, expires: Millis) -> CompletionSeq {
        if self.oldest.is_none() {
            let bound = self.ledger.next_completion();
            self.set_oldest(Some(bound));
        }
        self.set_next_expiry(self.next_expiry.min(expires));
        let seq = self.ledger.draw();
        self.ledger.word.replace(Counts::complete);
        self.completed += 1;
        seq
    }

    fn tombstone(&mut self, expires: Millis) {
        self.set_next_expiry(self.next_expiry.min(expires));
        self.ledger.word.replace(Counts::tombstone);
    }

    fn sweep(&mut self, records: u32, completed: u32) {
        self.ledger.word.replace(|counts| counts.sweep(records, completed));
        self.completed = self.completed.saturating_sub(completed);
    }

    fn publish(&mut self, oldest: Option<CompletionSeq>, next_expiry: Millis) {
        self.set_oldest(oldest);
        self.set_next_expiry(next_expiry);
    }

    fn show(&mut self, completion: &Arc<Completion>) {
        self.index.show(completion);
    }

    fn hide(&mut self, slot: SlotKey) {
        self.index.hide(slot);
    }
}
