//! An answer on its way to the caller of a begin.

use std::sync::Arc;

use super::directory::Directory;
use super::supervision::Health;
use crate::claim::protocol::Outcome;
use crate::claim::{Fence, Settlement, SlotKey, TombstoneReason};
use crate::store::{Begun, Notes, StoreError, Ticket};

/// The answer to a begin until its caller takes it. A claim that nobody takes was never handed out,
/// so nothing was dispatched under it: it is released. From then on the ticket guards it.
#[derive(Debug)]
pub(super) struct Delivery {
    outcome: Option<Outcome>,
    slot: SlotKey,
    home: usize,
    /// The number of the attempt that is reserved with a claim.
    attempt: u32,
    directory: Arc<Directory>,
}

impl Delivery {
    pub(super) fn new(
        outcome: Outcome,
        slot: SlotKey,
        home: usize,
        attempt: u32,
        directory: Arc<Directory>,
    ) -> Self {
        Self { outcome: Some(outcome), slot, home, attempt, directory }
    }

    /// The caller takes the answer.
    ///
    /// # Errors
    ///
    /// [`StoreError::Down`] when the coordinator is lost, [`StoreError::Overloaded`] when too many
    /// wait.
    pub(super) fn accept(mut self, health: &Health) -> Result<Begun, StoreError> {
        Ok(match self.outcome.take() {
            Some(Outcome::First(fence) | Outcome::Redispatched { fence, .. }) => {
                Begun::First(self.ticket(fence))
            }
            Some(Outcome::Replay(reply)) => Begun::Replay(reply),
            Some(Outcome::Conflict) => Begun::Conflict,
            Some(Outcome::OtherRoute) => Begun::OtherRoute,
            Some(Outcome::InFlight) => Begun::InFlight,
            Some(Outcome::Tombstone(TombstoneReason::Unknown)) => Begun::Unknown,
            Some(Outcome::Tombstone(TombstoneReason::NotReplayable)) => Begun::NotReplayable,
            Some(Outcome::Capacity(limit)) => Begun::Capacity(limit),
            Some(Outcome::Unavailable) | None => return Err(health.why_unavailable()),
        })
    }

    fn ticket(&self, fence: Fence) -> Ticket {
        Ticket::numbered(self.slot, fence, self.home, self.directory.clone(), self.attempt)
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(Outcome::First(fence) | Outcome::Redispatched { fence, .. }) =
            self.outcome.take()
        {
            let notes = Notes::of(self.attempt, true);
            self.directory.settle(self.slot, fence, self.home, Settlement::Release, notes);
        }
    }
}
