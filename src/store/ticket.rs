//! The proof of a won claim.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::receipt::AttemptEnd;
use crate::claim::{Fence, SlotKey};

/// What a dropped ticket calls: the store's way to write `tombstone(unknown)` without waiting.
pub trait SettleOnDrop: Send + Sync {
    /// Settles the claim as unknown. Must not block and must not panic.
    fn settle_unknown(&self, slot: SlotKey, fence: Fence, home: usize);

    /// Whether the claim is still its owner's, by the owner's own clock. A store that leases claims
    /// to their owners says no once the lease may have ended; in memory a claim has no end.
    fn is_held(&self, _fence: Fence) -> bool {
        true
    }
}

/// Proof of a won claim. Settling consumes it; a ticket that is dropped instead (a panic, a
/// cancelled task) settles as `tombstone(unknown)`, so that neither can free a slot.
pub struct Ticket {
    slot: SlotKey,
    fence: Fence,
    home: usize,
    guard: Option<Arc<dyn SettleOnDrop>>,
    notes: Notes,
}

/// What a receipt will be told of the attempts under a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notes {
    /// The number of the attempt that is reserved and not ended yet, or ended last.
    pub attempt: u32,
    /// How attempts ended that the receipt has not been told of, each with its number.
    pub ended: SmallVec<[(u32, AttemptEnd); 2]>,
    /// The reserved attempt was given up before a connection was tried.
    pub untried: bool,
}

impl Notes {
    /// That nothing more is known of an attempt than whether a connection was tried.
    pub(crate) fn of(attempt: u32, untried: bool) -> Self {
        Self { attempt, ended: SmallVec::new(), untried }
    }
}

impl Ticket {
    /// A ticket of the claim `fence` on `slot`, kept by part `home` of the store.
    pub fn new(slot: SlotKey, fence: Fence, home: usize, guard: Arc<dyn SettleOnDrop>) -> Self {
        Self::numbered(slot, fence, home, guard, 1)
    }

    /// A ticket whose first reserved attempt has this number, after a redispatch.
    pub fn numbered(
        slot: SlotKey,
        fence: Fence,
        home: usize,
        guard: Arc<dyn SettleOnDrop>,
        attempt: u32,
    ) -> Self {
        let notes = Notes::of(attempt, false);
        Self { slot, fence, home, guard: Some(guard), notes }
    }

    /// The number of the attempt that is reserved; a store counts it up.
    pub fn attempt(&self) -> u32 {
        self.notes.attempt
    }

    /// The reserved attempt ended; its receipt learns of it with the next reservation or the settle.
    pub fn ended(&mut self, end: AttemptEnd) {
        self.notes.ended.push((self.notes.attempt, end));
    }

    /// The reserved attempt is given up before a connection was tried: a settle takes it back.
    pub fn untried(&mut self) {
        self.notes.untried = true;
    }

    /// The claimed slot.
    pub fn slot(&self) -> SlotKey {
        self.slot
    }

    /// Whether a call may still be sent under this claim; to be asked before the first byte of each
    /// attempt (STORE section 4, "Tickets and leases").
    pub fn is_held(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.is_held(self.fence))
    }

    /// Takes the ticket apart for a settle: from here on dropping does nothing.
    pub(crate) fn into_parts(mut self) -> (SlotKey, Fence, usize, Notes) {
        self.guard = None;
        let notes = Notes::of(self.notes.attempt, false);
        (self.slot, self.fence, self.home, std::mem::replace(&mut self.notes, notes))
    }

    /// The next attempt is reserved: what the receipt is told of the ones before.
    pub(crate) fn reserve(&mut self) -> (SlotKey, Fence, usize, Notes) {
        self.notes.attempt += 1;
        let ended = std::mem::take(&mut self.notes.ended);
        let notes = Notes { ended, ..Notes::of(self.notes.attempt, false) };
        (self.slot, self.fence, self.home, notes)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.settle_unknown(self.slot, self.fence, self.home);
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("slot", &self.slot).field("fence", &self.fence).finish()
    }
}
