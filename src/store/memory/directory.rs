//! Where to reach each actor.

use actix::Addr;

use super::coordinator::{CoordinatorActor, CoordinatorInput};
use super::shard::{ShardActor, ShardInput};
use crate::claim::{Fence, Settlement, SlotKey, TombstoneReason};
use crate::store::SettleOnDrop;

/// The addresses of the store's actors. Sending never blocks; what is sent to an actor that is gone
/// is dropped, and with it the reply channel inside, which its caller sees.
#[derive(Debug)]
pub(super) struct Directory {
    shards: Box<[Addr<ShardActor>]>,
    coordinator: Addr<CoordinatorActor>,
}

impl Directory {
    pub(super) fn new(
        shards: Box<[Addr<ShardActor>]>,
        coordinator: Addr<CoordinatorActor>,
    ) -> Self {
        Self { shards, coordinator }
    }

    pub(super) fn tell_shard(&self, shard: usize, input: ShardInput) {
        if let Some(address) = self.shards.get(shard) {
            address.do_send(input);
        }
    }

    pub(super) fn tell_every_shard(&self, input: impl Fn() -> ShardInput) {
        for address in &self.shards {
            address.do_send(input());
        }
    }

    pub(super) fn tell_coordinator(&self, input: CoordinatorInput) {
        self.coordinator.do_send(input);
    }

    /// Ends a claim without waiting for the answer.
    pub(super) fn settle(&self, slot: SlotKey, fence: Fence, home: usize, settlement: Settlement) {
        self.tell_shard(home, ShardInput::Settle { slot, fence, settlement, reply: None });
    }
}

impl SettleOnDrop for Directory {
    fn settle_unknown(&self, slot: SlotKey, fence: Fence, home: usize) {
        self.settle(slot, fence, home, Settlement::Tombstone(TombstoneReason::Unknown));
    }
}
