//! What the machines share with one another: the store-wide counts, the completion counter, what
//! each shard publishes, and the read index.
//!
//! In production these are atomics and a concurrent map; in a model they are plain values. The
//! order in which a machine calls these methods is part of the protocol.

use std::sync::Arc;

use super::counts::{Counts, Full, InFlightFull, Room};
use super::protocol::ShardId;
use super::{Completion, CompletionSeq, Millis, SlotKey};

/// What every machine sees.
pub trait Shared {
    /// One reading of the three counts.
    fn counts(&self) -> Counts;

    /// Takes a permit for a record in flight: F+1 R+1.
    ///
    /// # Errors
    ///
    /// [`Full`]: which cap is reached, from one reading; nothing changed.
    fn start(&mut self) -> Result<(), Full>;

    /// Gives back the permit of a record in flight: F−1 R−1.
    fn release(&mut self);

    /// The number that the next completion will draw, or a later one.
    fn next_completion(&self) -> CompletionSeq;

    /// How many shards there are.
    fn shards(&self) -> usize;

    /// What a shard publishes as its oldest completion: its number, or one below it. `None`: it has
    /// none, but the next one may already be under way.
    fn oldest(&self, shard: ShardId) -> Option<CompletionSeq>;

    /// When the next record of a shard expires, or an earlier time; [`Millis::NEVER`] for none.
    fn next_expiry(&self, shard: ShardId) -> Millis;
}

/// What one shard alone may do.
pub trait Home: Shared {
    /// Which shard this is.
    fn shard(&self) -> ShardId;

    /// Takes over the permit of a completed record of this shard: F+1 C−1.
    ///
    /// # Errors
    ///
    /// [`InFlightFull`]; nothing changed.
    fn evict(&mut self) -> Result<(), InFlightFull>;

    /// Takes a free permit if there is one, else that of a completed record of this shard.
    ///
    /// # Errors
    ///
    /// [`InFlightFull`]; nothing changed.
    fn start_or_evict(&mut self) -> Result<Room, InFlightFull>;

    /// A tombstone of this shard is in flight again: F+1.
    ///
    /// # Errors
    ///
    /// [`InFlightFull`]; nothing changed.
    fn redispatch(&mut self) -> Result<(), InFlightFull>;

    /// In flight becomes completed: F−1 C+1. Lower bounds of what the completion will change are
    /// published first, then its number is drawn, then the counts move.
    fn complete(&mut self, expires: Millis) -> CompletionSeq;

    /// In flight becomes a tombstone: F−1, its expiry published first.
    fn tombstone(&mut self, expires: Millis);

    /// Expired records of this shard are gone: R−`records` C−`completed`.
    fn sweep(&mut self, records: u32, completed: u32);

    /// Publishes the exact oldest completion and next expiry; every step ends with it.
    fn publish(&mut self, oldest: Option<CompletionSeq>, next_expiry: Millis);

    /// Puts a completed reply into the read index.
    fn show(&mut self, completion: &Arc<Completion>);

    /// Takes a reply out of the read index. An eviction does so before its counts move, or a
    /// reader could still replay what another caller has seen evicted.
    fn hide(&mut self, slot: SlotKey);
}

/// The read index, as a shard sees it.
pub trait Index {
    /// Puts a completed reply into the index.
    fn show(&mut self, completion: &Arc<Completion>);

    /// Takes a reply out of the index.
    fn hide(&mut self, slot: SlotKey);
}

/// No index: every begin asks its shard.
impl Index for () {
    fn show(&mut self, _: &Arc<Completion>) {}

    fn hide(&mut self, _: SlotKey) {}
}

/// The least that the oldest completion of any shard but `but` can be, now or later: none of them
/// holds or will hold a completed record with a smaller number.
///
/// The counter is read before the published values are: a shard that was seen with none had not
/// drawn its next number by then, so it draws one at or above the counter as read.
pub fn bound_of_others(shared: &impl Shared, but: ShardId) -> CompletionSeq {
    let counter = shared.next_completion();
    (0..shared.shards())
        .map(ShardId)
        .filter(|shard| *shard != but)
        .filter_map(|shard| shared.oldest(shard))
        .fold(counter, Ord::min)
}
