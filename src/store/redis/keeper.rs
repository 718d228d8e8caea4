//! What happens while nobody calls: leases are renewed, the server is looked at.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;

use super::Shared;
use super::answer::Word;
use super::calls::Arguments;
use super::domain::{Domain, Seen};
use super::held::TICKET;
use super::pool::Failure;
use super::script::Operation;
use super::settings::difference;
use crate::claim::{Begin, Dispatch, Millis, PrincipalId, RequestHash, ScopeId, SlotKey};
use crate::store::StoreError;

/// Between two looks at the server.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Parts of a lease: it is renewed after the second, and who renews looks every part.
const PARTS: u64 = 6;

/// Renews leases for as long as the store runs.
pub(super) async fn renew(shared: Arc<Shared>) {
    let part = Millis((shared.lease.0 / PARTS).max(1));
    loop {
        tokio::time::sleep(Duration::from_millis(part.0)).await;
        let old = Millis(shared.now().0.saturating_sub(2 * part.0));
        let due = shared.held.due(old);
        join_all(due.iter().map(|claim| shared.renew(claim))).await;
    }
}

/// Looks at the server and at every domain for as long as the store runs.
pub(super) async fn look(shared: Arc<Shared>) {
    loop {
        shared.look().await;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

impl Shared {
    /// Looks once at the server and at every known domain.
    pub(super) async fn look(&self) {
        let looked = self.look_at_servers().await;
        let reachable = looked.is_ok();
        *self.health.lock().unwrap_or_else(PoisonError::into_inner) = looked;
        if !reachable {
            return;
        }
        for domain in self.domains.all() {
            if let Err(failure) = self.count(&domain).await {
                tracing::debug!(?failure, "a domain could not be counted");
            }
        }
    }

    /// Every node that has a known domain's keys.
    async fn look_at_servers(&self) -> Result<(), StoreError> {
        let routes: BTreeSet<_> = self.domains.all().iter().map(|domain| domain.route()).collect();
        for route in routes.iter().chain(routes.is_empty().then_some(&None)) {
            if let Err(error) = self.pool.probe(route).await {
                // The node may be gone for good, and others know who has taken its place.
                let domains = self.domains.all();
                let lost = domains.iter().filter(|domain| domain.route() == *route);
                lost.for_each(|domain| domain.reroute(None));
                return Err(error);
            }
        }
        Ok(())
    }

    async fn count(&self, domain: &Domain) -> Result<(), Failure> {
        let seen = domain.seen(self.now()).unwrap_or_else(|_| Seen::default());
        let arguments = Arguments::of(&NOBODY, "", &[0; TICKET], &self.limits, self.lease);
        let keys = domain.keys.of_domain();
        let mut link = self.link(domain).await?;
        let asking = self.ask(&mut link, domain, &seen, Operation::Occupancy, &keys, &arguments);
        let answer = asking.await?;
        link.give_back();
        domain.compare_clocks(&answer);
        if let Word::Occupancy(counts) = answer.word {
            domain.counted(counts.clone(), self.wrong_with(&counts));
        }
        Ok(())
    }

    /// Other limits hold for as long as records stand that were counted under them.
    fn wrong_with(&self, counts: &super::answer::Counts) -> Option<StoreError> {
        let empty = counts.in_flight + counts.completed + counts.tombstones == 0;
        if empty || counts.limits.is_empty() {
            return None;
        }
        difference(&self.limits, Duration::from_millis(self.lease.0), &counts.limits)
    }
}

/// Where a script asks for a claim and reads none.
pub(super) const NOBODY: Begin = Begin {
    slot: SlotKey::from_bytes([0; 32]),
    scope: ScopeId::from_bytes([0; 32]),
    principal: PrincipalId::from_bytes([0; 32]),
    hash: RequestHash::from_bytes([0; 32]),
    dispatch: Dispatch::UNDECLARED,
};
