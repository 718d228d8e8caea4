//! Where to reach each actor.

use std::sync::Arc;

use super::coordinator::{CoordinatorActor, CoordinatorInput};
use super::keeper::Bell;
use super::shard::{ShardActor, ShardInput};
use crate::claim::protocol::ToShard;
use crate::claim::{Fence, Settlement, SlotKey, TombstoneReason};
use crate::mailbox::{Left, Mailbox};
use crate::store::{Notes, SettleOnDrop};

/// The mailboxes of the store's actors. Sending never waits for another's handler; what is sent to
/// an actor that is gone is dropped, and with it the reply channel inside, which its caller sees.
///
/// The actors know it weakly: it is theirs as long as a sender or the store holds it.
pub(super) struct Directory {
    shards: Box<[Mailbox<ShardActor>]>,
    coordinator: Mailbox<CoordinatorActor>,
    keeper: Arc<Bell>,
}

impl Directory {
    pub(super) fn new(
        shards: impl Iterator<Item = ShardActor>,
        coordinator: CoordinatorActor,
        keeper: Arc<Bell>,
    ) -> Self {
        let (shards, coordinator) = (shards.map(Mailbox::new).collect(), Mailbox::new(coordinator));
        Self { shards, coordinator, keeper }
    }

    pub(super) fn tell_shard(&self, shard: usize, input: ShardInput) {
        if let Some(mailbox) = self.shards.get(shard) {
            self.look_after(mailbox.send(input));
        }
    }

    pub(super) fn tell_every_shard(&self, input: impl Fn() -> ShardInput) {
        for mailbox in &self.shards {
            self.look_after(mailbox.send(input()));
        }
    }

    pub(super) fn tell_coordinator(&self, input: CoordinatorInput) {
        self.look_after(self.coordinator.send(input));
    }

    /// Ends a claim without waiting for the answer.
    pub(super) fn settle(
        &self,
        slot: SlotKey,
        fence: Fence,
        home: usize,
        settlement: Settlement,
        notes: Notes,
    ) {
        self.tell_shard(home, ShardInput::Settle { slot, fence, settlement, notes, reply: None });
    }

    /// Lets every shard sweep what is due.
    pub(super) fn tick(&self) {
        self.tell_every_shard(|| ShardInput::Protocol(ToShard::Tick));
    }

    /// Handles one batch of the mail that senders left, in each mailbox.
    pub(super) fn resume(&self) {
        for mailbox in &self.shards {
            self.look_after(mailbox.resume());
        }
        self.look_after(self.coordinator.resume());
    }

    fn look_after(&self, left: Left) {
        if left == Left::Mail {
            self.keeper.ring();
        }
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

impl SettleOnDrop for Directory {
    fn settle_unknown(&self, slot: SlotKey, fence: Fence, home: usize) {
        // How its attempt ended, nobody says any more.
        let notes = Notes::of(0, false);
        self.settle(slot, fence, home, Settlement::Tombstone(TombstoneReason::Unknown), notes);
    }
}
