//! The ledger as plain values: what a model checker, a property test or a single-threaded
//! benchmark drives the machines with. It can be cloned, compared and hashed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::claim::counts::{Counts, Full, InFlightFull, Room, StoreCaps};
use crate::claim::protocol::ShardId;
use crate::claim::shared::{Home, Shared};
use crate::claim::{Completion, CompletionSeq, Limits, Millis, SlotKey};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PlainPublished {
    oldest: Option<CompletionSeq>,
    next_expiry: Millis,
    completed: u32,
}

/// The whole ledger, the published values and the read index.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlainLedger {
    caps: StoreCaps,
    counts: Counts,
    completions: u64,
    published: Vec<PlainPublished>,
    index: BTreeMap<SlotKey, Arc<Completion>>,
}

impl PlainLedger {
    /// An empty ledger for `shards` shards.
    pub fn new(limits: &Limits, shards: usize) -> Self {
        let nothing = PlainPublished { oldest: None, next_expiry: Millis::NEVER, completed: 0 };
        Self {
            caps: limits.into(),
            counts: Counts::default(),
            completions: 0,
            published: vec![nothing; shards],
            index: BTreeMap::new(),
        }
    }

    /// The side of one shard.
    ///
    /// # Panics
    ///
    /// Its methods panic when there is no such shard.
    pub fn shard(&mut self, shard: ShardId) -> PlainShard<'_> {
        PlainShard { ledger: self, shard }
    }

    /// What the read index holds for a slot.
    pub fn indexed(&self, slot: SlotKey) -> Option<&Arc<Completion>> {
        self.index.get(&slot)
    }

    /// How many replies the read index holds.
    pub fn indexed_len(&self) -> usize {
        self.index.len()
    }

    /// A shard has died: see `ShardLedger::abandon`.
    pub fn abandon(&mut self, shard: ShardId) {
        let own = &mut self.published[shard.0];
        self.counts = self.counts.forget(std::mem::take(&mut own.completed));
        own.oldest = None;
        own.next_expiry = Millis::NEVER;
    }
}

impl Shared for PlainLedger {
    fn counts(&self) -> Counts {
        self.counts
    }

    fn start(&mut self) -> Result<(), Full> {
        self.counts = self.counts.start(self.caps)?;
        Ok(())
    }

    fn release(&mut self) {
        self.counts = self.counts.release();
    }

    fn next_completion(&self) -> CompletionSeq {
        CompletionSeq(self.completions)
    }

    fn shards(&self) -> usize {
        self.published.len()
    }

    fn oldest(&self, shard: ShardId) -> Option<CompletionSeq> {
        self.published[shard.0].oldest
    }

    fn next_expiry(&self, shard: ShardId) -> Millis {
        self.published[shard.0].next_expiry
    }
}

/// One shard's side of a [`PlainLedger`].
#[derive(Debug)]
pub struct PlainShard<'l> {
    ledger: &'l mut PlainLedger,
    shard: ShardId,
}

impl PlainShard<'_> {
    fn own(&mut self) -> &mut PlainPublished {
        &mut self.ledger.published[self.shard.0]
    }
}

impl Shared for PlainShard<'_> {
    fn counts(&self) -> Counts {
        self.ledger.counts
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

impl Home for PlainShard<'_> {
    fn shard(&self) -> ShardId {
        self.shard
    }

    fn evict(&mut self) -> Result<(), InFlightFull> {
        self.ledger.counts = self.ledger.counts.evict(self.ledger.caps)?;
        self.own().completed -= 1;
        Ok(())
    }

    fn start_or_evict(&mut self) -> Result<Room, InFlightFull> {
        let (counts, room) = self.ledger.counts.start_or_evict(self.ledger.caps)?;
        self.ledger.counts = counts;
        if room == Room::Evicted {
            self.own().completed -= 1;
        }
        Ok(room)
    }

    fn redispatch(&mut self) -> Result<(), InFlightFull> {
        self.ledger.counts = self.ledger.counts.redispatch(self.ledger.caps)?;
        Ok(())
    }

    fn complete(&mut self, expires: Millis) -> CompletionSeq {
        let seq = self.ledger.next_completion();
        self.ledger.completions += 1;
        let own = self.own();
        own.oldest = Some(own.oldest.unwrap_or(seq));
        own.next_expiry = own.next_expiry.min(expires);
        own.completed += 1;
        self.ledger.counts = self.ledger.counts.complete();
        seq
    }

    fn tombstone(&mut self, expires: Millis) {
        let own = self.own();
        own.next_expiry = own.next_expiry.min(expires);
        self.ledger.counts = self.ledger.counts.tombstone();
    }

    fn sweep(&mut self, records: u32, completed: u32) {
        self.ledger.counts = self.ledger.counts.sweep(records, completed);
        self.own().completed -= completed;
    }

    fn publish(&mut self, oldest: Option<CompletionSeq>, next_expiry: Millis) {
        let own = self.own();
        own.oldest = oldest;
        own.next_expiry = next_expiry;
    }

    fn show(&mut self, completion: &Arc<Completion>) {
        self.ledger.index.insert(completion.claim.slot, Arc::clone(completion));
    }

    fn hide(&mut self, slot: SlotKey) {
        self.ledger.index.remove(&slot);
    }
}
