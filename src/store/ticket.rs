//! The proof of a won claim.

use std::fmt;
use std::sync::Arc;

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
}

impl Ticket {
    /// A ticket of the claim `fence` on `slot`, kept by part `home` of the store.
    pub fn new(slot: SlotKey, fence: Fence, home: usize, guard: Arc<dyn SettleOnDrop>) -> Self {
        Self { slot, fence, home, guard: Some(guard) }
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
    pub(crate) fn into_parts(mut self) -> (SlotKey, Fence, usize) {
        self.guard = None;
        (self.slot, self.fence, self.home)
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
