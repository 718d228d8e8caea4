//! Settle: the record gets what the upstream's reply was worth (CONTRACT section 4).

use std::sync::Arc;
use std::time::Duration;

use actix_web::rt;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::claim::{Reply, SlotKey, TombstoneReason};
use crate::patience::within;
use crate::store::{Settled, Store, StoreError, Ticket};

/// How long the last byte of a reply waits for its settle. Past it the reply leaves all the same,
/// and retries find the call in flight until the settle lands.
const SETTLE_WAIT: Duration = Duration::from_secs(5);

/// How a claim ends.
#[derive(Debug)]
pub enum Settlement {
    /// With a reply to replay.
    Complete(Reply),
    /// With a reason why there is none.
    Tombstone(TombstoneReason),
    /// Nothing was executed: the slot is free again.
    Release,
}

/// Settles, and waits for it within a bound. The settle goes on past the bound; `token` keeps a
/// shutdown waiting for it.
pub async fn settle(
    store: Arc<dyn Store>,
    ticket: Ticket,
    settlement: Settlement,
    token: TaskTrackerToken,
) {
    let slot = ticket.slot();
    let mut settling = Box::pin(async move {
        let _token = token;
        report(slot, apply(store.as_ref(), ticket, settlement).await);
    });
    if within(SETTLE_WAIT, &mut settling).await.is_err() {
        tracing::error!(key_hash = %format_args!("{slot:.16}"), "the settle has not landed in time");
        rt::spawn(settling);
    }
}

fn report(slot: SlotKey, settled: Result<Settled, StoreError>) {
    match settled {
        Ok(Settled::Done) => {}
        Ok(Settled::Stale) => {
            tracing::warn!(key_hash = %format_args!("{slot:.16}"), "the claim was no longer ours to settle");
        }
        Err(error) => {
            tracing::error!(key_hash = %format_args!("{slot:.16}"), %error, "the settle failed");
        }
    }
}

async fn apply(
    store: &dyn Store,
    ticket: Ticket,
    settlement: Settlement,
) -> Result<Settled, StoreError> {
    match settlement {
        Settlement::Complete(reply) => store.complete(ticket, reply).await,
        Settlement::Tombstone(reason) => store.tombstone(ticket, reason).await,
        Settlement::Release => store.release(ticket).await,
    }
}
