//! Dispatch of a keyed call: claim, upstream call and settling run in one task of their own.
//!
//! The client's disconnect does not end the call: a claim won for a caller who has just left must
//! not be lost, and the reply of a call whose client has left is read to its end and stored
//! (CONTRACT section 4).

use std::sync::Arc;

use actix_web::body::BoxBody;
use actix_web::web::{Bytes, Data};
use actix_web::{HttpResponse, rt};
use tokio::sync::oneshot;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::audit::Auditing;
use super::claim::Claim;
use super::dispatch::{self, NoReply};
use super::error::Refusal;
use super::outbound::Outbound;
use super::pipeline::refuse;
use super::relay;
use super::reply;
use super::router::Route;
use super::settle::{Settlement, settle};
use super::state::Worker;
use crate::claim::{Fingerprint, Reply, TombstoneReason};
use crate::observe::trace::Stage;
use crate::observe::{AttemptResult, IdempotencyOutcome};
use crate::policy::Streams;
use crate::store::{Asked, Begun, Known, Ticket};
use crate::upstream::{
    Body, Failure, Finished, Flow, Head, Outcome, Permit, Plan, Reading, Response, Rules,
    UnknownReason,
};

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
    pub claim: Claim,
    /// The exchange's event.
    pub audit: Auditing,
}

type Answer = oneshot::Sender<HttpResponse>;

/// Runs the call in a task of its own and waits for the answer. Boxed, the call is handed from stage
/// to stage, and its future to the task, without being copied.
pub async fn detached(call: Box<KeyedCall>, outbound: Outbound) -> HttpResponse {
    let id = call.claim.id.clone();
    let (answer, answered) = oneshot::channel();
    rt::spawn(call.run(outbound, answer));
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
    let retrys_id = claim.carries_retrys_id.then(|| claim.id.as_raw());
    let response = reply::replay(stored, retrys_id);
    audit.outcome(IdempotencyOutcome::Replay);
    audit.end(response.status());
    response
}

fn refuse_call(claim: &Claim, refusal: Refusal, audit: Auditing) -> HttpResponse {
    let refusal = refusal.with_key_hash(claim.begin.slot);
    refuse(audit, &refusal, Some(claim.id.as_raw()))
}

impl KeyedCall {
    async fn run(mut self: Box<Self>, outbound: Outbound, answer: Answer) {
        // The claim stage has refused a server without one.
        let domain = self.route.policy.uid.as_deref().unwrap_or_default();
        let begun = self.worker.gateway.store.begin(Asked::at(domain, self.claim.begin)).await;
        let (outcome, refusal) = match begun {
            Ok(Begun::First(ticket)) => return self.execute(ticket, outbound, answer).await,
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

    fn refuse(self: Box<Self>, refusal: Refusal, answer: Answer) {
        deliver(answer, refuse_call(&self.claim, refusal, self.audit));
    }

    async fn execute(mut self: Box<Self>, ticket: Ticket, mut outbound: Outbound, answer: Answer) {
        if !ticket.is_held() {
            tracing::error!("a claim's lease may have ended before its call was sent");
            self.settle(ticket, Settlement::Release).await;
            return self.refuse(store_unavailable(), answer);
        }
        self.audit.outcome(IdempotencyOutcome::First);
        self.audit.dispatch(&mut outbound);
        match dispatch::attempt(&self.worker, &self.route, outbound).await {
            Ok((response, permit)) => self.relay(ticket, response, permit, answer).await,
            Err(NoReply { refusal, unsent }) => {
                let settlement = match unsent {
                    true => Settlement::Release,
                    false => Settlement::Tombstone(TombstoneReason::Unknown),
                };
                self.settle(ticket, settlement).await;
                self.refuse(refusal, answer);
            }
        }
    }

    async fn relay(
        self: Box<Self>,
        ticket: Ticket,
        response: Response,
        permit: Permit,
        answer: Answer,
    ) {
        let Response { status, headers, mut body } = response;
        let head = Head::read(status, &headers, body.expected_len());
        let mut reading = Reading::start(&head, self.rules(), self.claim.id.clone());
        let mut first = None;
        // A body of no bytes has no last one to hold back, so its head waits for the settle.
        let empty = head.body_len == Some(0);
        while empty || reading.plan() == Plan::Keep {
            match body.chunk().await {
                Ok(Some(chunk)) => {
                    if let Flow::Pass(bytes) = reading.push(chunk) {
                        first = Some(bytes);
                    }
                }
                Ok(None) => {
                    let finished = reading.finish();
                    return self.whole(ticket, status, finished, &headers, answer).await;
                }
                Err(failure) => return self.broken(ticket, failure, answer).await,
            }
        }
        let patience = self.worker.gateway.body.idle;
        let (sender, relayed) = relay::channel(head.body_len, patience);
        let response = reply::head(status, &headers, self.cross_origin, relayed);
        let Self { worker, route, token, audit, .. } = *self;
        audit.end(response.status());
        deliver(answer, response);
        let pump = Pump { body, reading, remaining: head.body_len, sender, last: None };
        let (result, outcome, rest) = Box::pin(pump.run(first)).await;
        drop(permit);
        route.metrics.attempt(result);
        settle(Arc::clone(&worker.gateway.store), ticket, settlement(outcome), token).await;
        rest.finish().await;
    }

    /// The whole reply is here: settle it, then hand it on.
    async fn whole(
        mut self: Box<Self>,
        ticket: Ticket,
        status: u16,
        finished: Finished,
        headers: &hyper::HeaderMap,
        answer: Answer,
    ) {
        self.route.metrics.attempt(AttemptResult::Replied);
        let Finished { outcome, held } = finished;
        let body = match &outcome {
            Outcome::Complete(stored) => Some(stored.body().clone()),
            // Cut short: to hand it on would be to pass a fragment off as the reply.
            Outcome::Unknown(UnknownReason::CutShort) => None,
            _ => Some(held),
        };
        let response =
            body.map(|body| reply::head(status, headers, self.cross_origin, BoxBody::new(body)));
        self.settle(ticket, settlement(outcome)).await;
        match response {
            Some(response) => {
                self.audit.end(response.status());
                deliver(answer, response);
            }
            None => self.refuse(Refusal::upstream_disconnected(), answer),
        }
    }

    async fn broken(mut self: Box<Self>, ticket: Ticket, failure: Failure, answer: Answer) {
        self.route.metrics.attempt(dispatch::attempt_result(failure));
        self.settle(ticket, Settlement::Tombstone(TombstoneReason::Unknown)).await;
        self.refuse(dispatch::refused_by_failure(failure), answer);
    }

    async fn settle(&mut self, ticket: Ticket, settlement: Settlement) {
        self.audit.stage(Stage::Settle);
        let store = Arc::clone(&self.worker.gateway.store);
        settle(store, ticket, settlement, self.token.clone()).await;
    }

    fn rules(&self) -> Rules {
        let policy = &self.route.policy.idempotency;
        Rules {
            reply_bytes: self.worker.gateway.reply_bytes,
            record_streams: policy.streams == Streams::Record,
            replace_ids: policy.fingerprint == Fingerprint::Call,
        }
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

fn settlement(outcome: Outcome) -> Settlement {
    match outcome {
        Outcome::Complete(stored) => Settlement::Complete(stored),
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

/// A reply that passes to the client while it is read.
struct Pump {
    body: Body,
    reading: Reading,
    /// What the upstream declared and has not sent yet.
    remaining: Option<u64>,
    sender: relay::Sender,
    last: Option<Bytes>,
}

/// What waits for the settle: the last piece and the end of the body, or its abort.
struct Rest {
    sender: relay::Sender,
    last: Option<Bytes>,
    clean: bool,
}

impl Pump {
    async fn run(mut self, first: Option<Bytes>) -> (AttemptResult, Outcome, Rest) {
        if let Some(bytes) = first {
            self.pass(bytes).await;
        }
        loop {
            match self.body.chunk().await {
                Ok(Some(chunk)) => {
                    if let Flow::Pass(bytes) = self.reading.push(chunk) {
                        self.pass(bytes).await;
                    }
                }
                Ok(None) => {
                    let rest = Rest { sender: self.sender, last: self.last, clean: true };
                    return (AttemptResult::Replied, self.reading.finish().outcome, rest);
                }
                Err(failure) => {
                    let outcome = self.reading.broken(dispatch::broken_by(failure));
                    let rest = Rest { sender: self.sender, last: None, clean: false };
                    return (dispatch::attempt_result(failure), outcome, rest);
                }
            }
        }
    }

    /// Passes a piece on, except the one that completes the declared length: the last byte leaves
    /// after the settle, so that a caller who has the whole reply finds it settled.
    async fn pass(&mut self, bytes: Bytes) {
        self.remaining = self.remaining.map(|left| left.saturating_sub(bytes.len() as u64));
        match self.remaining {
            Some(0) => self.last = Some(bytes),
            _ => self.sender.piece(bytes).await,
        }
    }
}

impl Rest {
    async fn finish(mut self) {
        if !self.clean {
            return;
        }
        if let Some(bytes) = self.last {
            self.sender.piece(bytes).await;
        }
        self.sender.end().await;
    }
}
