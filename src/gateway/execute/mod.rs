//! Dispatch of a keyed call: claim, upstream call and settling run in one task of their own.
//!
//! The client's disconnect does not end the call: a claim won for a caller who has just left must
//! not be lost, and the reply of a call whose client has left is read to its end and stored
//! (CONTRACT section 4).

mod answer;
mod attempts;
mod pump;

use std::sync::Arc;

use actix_web::web::Data;
use actix_web::{HttpResponse, rt};
use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::audit::Auditing;
use super::claim::Claim;
use super::error::Refusal;
use super::outbound::Outbound;
use super::pipeline::refuse;
use super::router::Route;
use super::settle::{Settlement, settle};
use super::state::Worker;
use crate::claim::{Reply, TombstoneReason};
use crate::observe::IdempotencyOutcome;
use crate::observe::trace::Stage;
use crate::store::{Asked, Begun, Known, Ticket};
use crate::upstream::Outcome;

/// A keyed call on its way.
pub struct KeyedCall {
    /// The worker whose client sends.
    pub worker: Data<Worker>,
    /// The server.
    pub route: Arc<Route>,
    /// Keeps a shutdown waiting until the call has settled.
    pub token: TaskTrackerToken,
    /// Whether the gateway's CORS headers take the place of the upstream's.
    pub cross_origin: bool,
    /// What the store is asked.
    pub claim: Box<Claim>,
    /// The exchange's event.
    pub audit: Auditing,
}

type Answer = oneshot::Sender<HttpResponse>;

/// Runs the call in a task of its own and waits for the answer. Boxed, the call is handed from stage
/// to stage, and its future to the task, without being copied: a task's future moves several times
/// before it runs, and this one has kilobytes.
///
/// A call that cannot be sent is refused where no record stands for it.
pub async fn detached(call: Box<KeyedCall>, outbound: Result<Outbound, Refusal>) -> HttpResponse {
    let id = call.claim.id.clone();
    let (answer, answered) = oneshot::channel();
    rt::spawn(Box::pin(call.run(outbound, answer)));
    match answered.await {
        Ok(response) => response,
        // The task ended without an answer, so its ticket has settled the claim as unknown.
        Err(_) => Refusal::upstream_disconnected().response(Some(id.as_raw())),
    }
}

/// Answers with what a completed record holds.
pub fn known(claim: &Claim, known: Known, audit: Auditing) -> HttpResponse {
    match known {
        Known::Replay(stored) => replay(claim, &stored, audit),
        Known::Conflict => conflict(claim, Refusal::conflict(), audit),
        Known::OtherRoute => conflict(claim, Refusal::other_route(), audit),
    }
}

fn conflict(claim: &Claim, refusal: Refusal, mut audit: Auditing) -> HttpResponse {
    audit.outcome(IdempotencyOutcome::Conflict);
    refuse_call(claim, refusal, audit)
}

fn replay(claim: &Claim, stored: &Reply, mut audit: Auditing) -> HttpResponse {
    let response = answer::replay(claim, stored);
    audit.outcome(IdempotencyOutcome::Replay);
    audit.end(response.status());
    response
}

fn refuse_call(claim: &Claim, refusal: Refusal, audit: Auditing) -> HttpResponse {
    let refusal = refusal.with_key_hash(claim.begin.slot);
    refuse(audit, &refusal, Some(claim.id.as_raw()))
}

impl KeyedCall {
    async fn run(mut self: Box<Self>, outbound: Result<Outbound, Refusal>, answer: Answer) {
        let (outcome, refusal) = match self.begin().await {
            Ok(Begun::First(ticket)) => {
                return match outbound {
                    Ok(outbound) => self.execute(ticket, outbound, answer).await,
                    Err(refusal) => self.give_up(ticket, refusal, answer).await,
                };
            }
            Ok(Begun::Replay(stored)) => {
                return deliver(answer, replay(&self.claim, &stored, self.audit));
            }
            Ok(Begun::Conflict) => (IdempotencyOutcome::Conflict, Refusal::conflict()),
            Ok(Begun::OtherRoute) => (IdempotencyOutcome::Conflict, Refusal::other_route()),
            Ok(Begun::InFlight) => (IdempotencyOutcome::InFlight, Refusal::in_flight()),
            Ok(Begun::Unknown) => (IdempotencyOutcome::UnknownOutcome, Refusal::outcome_unknown()),
            Ok(Begun::NotReplayable) => {
                (IdempotencyOutcome::NotReplayable, Refusal::not_replayable())
            }
            Ok(Begun::Capacity(limit)) => (IdempotencyOutcome::Capacity, Refusal::capacity(limit)),
            Err(error) => {
                tracing::error!(%error, "a keyed call was refused because the store did not answer");
                return self.refuse(store_unavailable(), answer);
            }
        };
        self.audit.outcome(outcome);
        self.refuse(refusal, answer);
    }

    /// Ends a claim whose call is not sent.
    async fn give_up(mut self: Box<Self>, mut ticket: Ticket, refusal: Refusal, answer: Answer) {
        self.audit.outcome(IdempotencyOutcome::First);
        ticket.untried();
        self.settle(ticket, Settlement::Release).await;
        self.refuse(refusal, answer);
    }

    async fn begin(&self) -> Result<Begun, crate::store::StoreError> {
        let Self { worker, route, claim, .. } = self;
        let store = &worker.gateway.store;
        let opening = store.keeps_receipts();
        let opening = opening.then(|| Box::new(claim.opening(&route.names, Timestamp::now())));
        let asked = Asked { domain: claim.domain(&route.policy), begin: claim.begin, opening };
        store.begin(asked).await
    }

    fn refuse(self: Box<Self>, refusal: Refusal, answer: Answer) {
        deliver(answer, refuse_call(&self.claim, refusal, self.audit));
    }

    async fn settle(&mut self, ticket: Ticket, settlement: Settlement) {
        self.audit.stage(Stage::Settle);
        let store = Arc::clone(&self.worker.gateway.store);
        settle(store, ticket, settlement, self.token.clone()).await;
    }
}

fn store_unavailable() -> Refusal {
    Refusal::key_unavailable(
        "The idempotency store does not answer; nothing was executed, send the same call with the \
         same key later.",
    )
}

/// Hands the answer on; a client that has left gets none, and nothing else changes.
fn deliver(answer: Answer, response: HttpResponse) {
    if answer.send(response).is_err() {
        tracing::debug!("the client had left before its answer");
    }
}

/// How a claim settles by the outcome of its last attempt. `after_unknown`: an attempt before it may
/// have taken effect, of which a rejection of this one says nothing (EFFECTS section 5).
fn settlement(outcome: Outcome, after_unknown: bool) -> Settlement {
    match outcome {
        Outcome::Complete(stored) => Settlement::Complete(stored),
        Outcome::Released if after_unknown => Settlement::Tombstone(TombstoneReason::Unknown),
        Outcome::Released => Settlement::Release,
        Outcome::NotReplayable(why) => {
            tracing::debug!(%why, "a reply is not kept");
            Settlement::Tombstone(TombstoneReason::NotReplayable)
        }
        Outcome::Unknown(why) => {
            tracing::warn!(%why, "the outcome of a keyed call is unknown");
            Settlement::Tombstone(TombstoneReason::Unknown)
        }
    }
}
