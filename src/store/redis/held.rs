//! Claims that this process holds, and until when it may send under them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use super::domain::Domain;
use super::events;
use super::keys::Named;
use crate::claim::{Fence, Millis};
use crate::store::Notes;

/// Bytes of a ticket.
pub(super) const TICKET: usize = 16;

/// One claim. Times are those of this process's monotonic clock.
pub(super) struct Claim {
    pub(super) domain: Arc<Domain>,
    pub(super) named: Named,
    /// A random number that only this claim has.
    pub(super) ticket: [u8; TICKET],
    /// When the last command was sent that began or renewed the lease, as its answer says; 0 once
    /// the lease was found to have ended.
    leased: AtomicU64,
    /// The not-after of a begin that may still be on its way, in the server's microseconds.
    pub(super) stray: Option<i64>,
    /// Whether it keeps a receipt.
    pub(super) receipted: bool,
    /// How attempts ended, in lines that the receipt has not been told of as far as is known.
    untold: Mutex<String>,
}

impl Claim {
    pub(super) fn new(
        domain: Arc<Domain>,
        named: Named,
        ticket: [u8; TICKET],
        sent: Millis,
        stray: Option<i64>,
        receipted: bool,
    ) -> Self {
        let (leased, untold) = (AtomicU64::new(sent.0.max(1)), Mutex::default());
        Self { domain, named, ticket, leased, stray, receipted, untold }
    }

    /// What the receipt has to be told of with the next call; nothing where there is none.
    pub(super) fn untold(&self, notes: &Notes) -> String {
        if !self.receipted {
            return String::new();
        }
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        untold.push_str(&events::ends(notes));
        untold.clone()
    }

    /// The present, for the receipt; nothing where there is none.
    pub(super) fn wall_time(&self) -> String {
        if self.receipted { Timestamp::now().to_string() } else { String::new() }
    }

    /// It was told.
    pub(super) fn told(&self) {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The keys of a script that ends it or goes on with it.
    pub(super) fn keys(&self) -> Vec<String> {
        let mut keys = self.domain.keys.of(&self.named);
        if self.receipted {
            let [receipts, _] = self.domain.keys.receipts();
            keys.push(receipts);
        }
        keys
    }

    /// When the lease was last begun; `None` once it has ended.
    pub(super) fn leased(&self) -> Option<Millis> {
        let leased = self.leased.load(Ordering::Acquire);
        (leased > 0).then_some(Millis(leased))
    }

    /// A renewal that was sent at this time was acknowledged.
    pub(super) fn renewed(&self, sent: Millis) {
        let later = |leased: u64| (leased > 0 && leased < sent.0).then_some(sent.0);
        // A lease that has ended stays so.
        let _ = self.leased.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
    }

    /// The server says that the lease has ended.
    pub(super) fn lapsed(&self) {
        self.leased.store(0, Ordering::Release);
    }
}

/// All claims, by the number that their tickets carry in this process.
#[derive(Default)]
pub(super) struct Held {
    next: AtomicU64,
    claims: Mutex<HashMap<Fence, Arc<Claim>>>,
}

impl Held {
    pub(super) fn add(&self, claim: Claim) -> Fence {
        let fence = Fence(self.next.fetch_add(1, Ordering::Relaxed));
        self.claims().insert(fence, Arc::new(claim));
        fence
    }

    pub(super) fn get(&self, fence: Fence) -> Option<Arc<Claim>> {
        self.claims().get(&fence).cloned()
    }

    pub(super) fn remove(&self, fence: Fence) {
        self.claims().remove(&fence);
    }

    /// Those whose lease was begun before a time and has not ended.
    pub(super) fn due(&self, before: Millis) -> Vec<Arc<Claim>> {
        let claims = self.claims();
        let due = claims.values().filter(|claim| claim.leased().is_some_and(|at| at < before));
        due.cloned().collect()
    }

    fn claims(&self) -> std::sync::MutexGuard<'_, HashMap<Fence, Arc<Claim>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
