//! An answer on its way to the caller of a begin.

use std::sync::Arc;

use super::Shared;
use super::settle::Settlement;
use crate::store::{Begun, Notes, StoreError, Ticket};

/// The answer until its caller takes it. A claim that nobody takes was never handed out, so nothing
/// was dispatched under it: it is released. From then on the ticket guards it.
pub(super) struct Delivery {
    shared: Arc<Shared>,
    begun: Option<Begun>,
}

impl Delivery {
    pub(super) fn new(shared: Arc<Shared>, begun: Begun) -> Self {
        Self { shared, begun: Some(begun) }
    }

    /// The caller takes the answer.
    ///
    /// # Errors
    ///
    /// None but that of an answer that was taken already.
    pub(super) fn accept(mut self) -> Result<Begun, StoreError> {
        self.begun.take().ok_or(StoreError::Stopping)
    }

    fn release(&self, ticket: Ticket) {
        let (_, fence, _, notes) = ticket.into_parts();
        let notes = Notes { untried: true, ..notes };
        let releasing = Arc::clone(&self.shared).settle(fence, Settlement::Release, notes);
        self.shared.spawn(async move {
            if let Err(error) = releasing.await {
                tracing::warn!(%error, "a claim that nobody took could not be released");
            }
        });
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(Begun::First(ticket)) = self.begun.take() {
            self.release(ticket);
        }
    }
}
