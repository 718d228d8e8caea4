//! The attempts under a claim: each is reserved before its first byte is sent, and there is at most
//! one immediate second one (EFFECTS section 5).

use std::time::Instant;

use actix_web::web::Bytes;

use super::answer::{self, First};
use super::pump::{Pump, Pumped};
use super::{Answer, KeyedCall, deliver, settlement, store_unavailable};
use crate::claim::{Fingerprint, TombstoneReason};
use crate::gateway::dispatch::{self, NoReply};
use crate::gateway::error::Refusal;
use crate::gateway::outbound::Outbound;
use crate::gateway::settle::{Settlement, settle};
use crate::gateway::{native, relay, reply};
use crate::observe::{AttemptResult, IdempotencyOutcome};
use crate::policy::Streams;
use crate::store::receipt::{self, AttemptEnd};
use crate::store::{Settled, Ticket};
use crate::upstream::{
    AmbiguousCause, Body, Failure, Finished, Flow, Head, NotKept, Outcome, Permit, Plan, Reading,
    Response, Rules, UnknownReason,
};

/// What the attempts under one claim share.
struct Attempts {
    ticket: Ticket,
    /// The request once more, while a second attempt may come.
    spare: Option<Box<Outbound>>,
    /// An attempt was answered in a way that tells nothing: the call may have taken effect.
    after_unknown: bool,
    /// The claim took up an unknown outcome again.
    redispatched: bool,
    /// When the running attempt was reserved.
    started: Instant,
}

/// What came of one attempt.
enum Tried {
    /// No connection was tried.
    Untried(Refusal),
    /// Proven that nothing was sent.
    Unsent(Refusal),
    /// It broke off after a byte may have left.
    Broken(Refusal),
    /// A reply, read to its end.
    Whole(Box<Replied>),
    /// A reply that passes to the caller while it is read.
    Passing(Box<Passing>),
}

struct Replied {
    status: u16,
    headers: hyper::HeaderMap,
    finished: Finished,
    body: Bytes,
}

struct Passing {
    status: u16,
    headers: hyper::HeaderMap,
    body: Body,
    reading: Reading,
    /// The declared length of the body.
    length: Option<u64>,
    /// What was read of the body and goes out first.
    first: Option<Bytes>,
    permit: Permit,
}

/// The pieces of a body that were not held back, in order.
#[derive(Default)]
struct Pieces {
    parts: Vec<Bytes>,
    bytes: usize,
}

impl Pieces {
    fn add(&mut self, part: Bytes) {
        self.bytes += part.len();
        if !part.is_empty() {
            self.parts.push(part);
        }
    }

    /// One piece without a copy.
    fn join(mut self) -> Option<Bytes> {
        match self.parts.len() {
            0 | 1 => self.parts.pop(),
            _ => Some(self.parts.concat().into()),
        }
    }
}

impl Replied {
    /// A vendor's reply that is too long to be a tool's result.
    fn too_large(status: u16, plan: Plan) -> Self {
        let outcome = match plan {
            Plan::Release => Outcome::Released,
            Plan::Unknown | Plan::Retry => Outcome::Unknown(UnknownReason::Status),
            Plan::Keep | Plan::Record | Plan::NotReplayable(_) => {
                Outcome::NotReplayable(NotKept::TooLarge)
            }
        };
        let finished = Finished { outcome, held: Bytes::new(), retryable: false };
        let body = Bytes::from_static(native::TOO_LARGE.as_bytes());
        Self { status, headers: hyper::HeaderMap::new(), finished, body }
    }
}

impl Attempts {
    fn ended(&mut self, result: receipt::AttemptResult) {
        self.ticket.ended(AttemptEnd::after(result, self.started.elapsed()));
    }
}

impl KeyedCall {
    pub(super) async fn execute(
        mut self: Box<Self>,
        mut ticket: Ticket,
        mut outbound: Outbound,
        answer: Answer,
    ) {
        if !ticket.is_held() {
            tracing::error!("a claim's lease may have ended before its call was sent");
            ticket.untried();
            self.settle(ticket, Settlement::Release).await;
            return self.refuse(store_unavailable(), answer);
        }
        self.audit.outcome(IdempotencyOutcome::First);
        self.audit.dispatch(&mut outbound);
        let spare = self.claim.effect.is_some().then(|| Box::new(outbound.clone()));
        let started = Instant::now();
        let redispatched = ticket.attempt() > 1;
        let mut attempts = Attempts { ticket, spare, after_unknown: false, redispatched, started };
        let mut tried = self.attempt(&mut attempts, outbound).await;
        if let Some(outbound) = self.second(&mut attempts, &tried).await {
            tried = self.attempt(&mut attempts, outbound).await;
        }
        self.conclude(attempts, tried, answer).await;
    }

    /// The request of the second attempt, where the first deserves one and it could be reserved.
    async fn second(&self, attempts: &mut Attempts, tried: &Tried) -> Option<Outbound> {
        let deserved = match tried {
            Tried::Unsent(_) => true,
            Tried::Whole(replied) => replied.finished.retryable,
            Tried::Untried(_) | Tried::Broken(_) | Tried::Passing(_) => false,
        };
        let outbound = attempts.spare.take().filter(|_| deserved)?;
        match self.worker.gateway.store.reserve_attempt(&mut attempts.ticket).await {
            Ok(Settled::Done) if attempts.ticket.is_held() => {
                attempts.after_unknown = matches!(
                    tried,
                    Tried::Whole(replied) if replied.finished.outcome != Outcome::Released
                );
                attempts.started = Instant::now();
                return Some(*outbound);
            }
            Ok(_) => tracing::warn!("the claim was no longer ours for a second attempt"),
            Err(error) => tracing::error!(%error, "a second attempt could not be reserved"),
        }
        attempts.ticket.untried();
        None
    }

    /// Sends once.
    async fn attempt(&mut self, attempts: &mut Attempts, outbound: Outbound) -> Tried {
        let circuit = self.route.circuit_of(&self.claim.destination);
        match dispatch::attempt(&self.worker, &self.route, circuit, outbound).await {
            Ok((response, permit)) => self.read(attempts, response, permit).await,
            Err(NoReply { refusal, failure: None }) => {
                attempts.ticket.untried();
                Tried::Untried(refusal)
            }
            Err(NoReply { refusal, failure: Some(failure) }) => {
                attempts.ended(broken_as(failure));
                match failure {
                    Failure::Unsent(_) => Tried::Unsent(refusal),
                    Failure::Ambiguous(_) => Tried::Broken(refusal),
                }
            }
        }
    }

    /// Reads a reply: to its end where it is held back, else as far as it is decided.
    async fn read(&self, attempts: &mut Attempts, response: Response, permit: Permit) -> Tried {
        let Response { status, headers, mut body } = response;
        let head = Head::read(status, &headers, body.expected_len());
        let length = head.body_len;
        let vendor = self.claim.destination.callable().is_some();
        let id = (!vendor).then(|| self.claim.id.clone());
        let rules = self.rules(attempts.spare.is_some());
        let mut reading = Reading::start(&head, &rules, id);
        let mut passed = Pieces::default();
        // A body of no bytes has no last one to hold back, so its head waits for the settle.
        while length == Some(0) || reading.holds() || vendor {
            match body.chunk().await {
                Ok(Some(chunk)) => {
                    if let Flow::Pass(bytes) = reading.push(chunk) {
                        passed.add(bytes);
                    }
                }
                Ok(None) => {
                    self.route.metrics.attempt(AttemptResult::Replied);
                    attempts.ended(receipt::AttemptResult::Replied(status));
                    let finished = reading.finish();
                    passed.add(finished.held.clone());
                    let body = passed.join().unwrap_or_default();
                    return Tried::Whole(Box::new(Replied { status, headers, finished, body }));
                }
                Err(failure) => {
                    self.route.metrics.attempt(dispatch::attempt_result(failure));
                    attempts.ended(broken_as(failure));
                    return Tried::Broken(dispatch::refused_by_failure(failure));
                }
            }
            if vendor && passed.bytes > native::MAX_VENDOR_REPLY {
                self.route.metrics.attempt(AttemptResult::Replied);
                attempts.ended(receipt::AttemptResult::Replied(status));
                return Tried::Whole(Box::new(Replied::too_large(status, reading.plan())));
            }
        }
        let first = passed.join();
        Tried::Passing(Box::new(Passing { status, headers, body, reading, length, first, permit }))
    }

    fn rules(&self, may_retry: bool) -> Rules<'_> {
        let policy = &self.route.policy.idempotency;
        let effect = self.claim.effect.as_deref();
        let vendor = self.claim.destination.callable().is_some();
        Rules {
            reply_bytes: self.worker.gateway.reply_bytes,
            statuses: effect.map(|effect| &effect.statuses),
            may_retry: may_retry && effect.is_some_and(|effect| effect.binding.is_supported()),
            record_streams: policy.streams == Streams::Record && !vendor,
            replace_ids: policy.fingerprint == Fingerprint::Call && !vendor,
        }
    }

    /// The last attempt's outcome is the call's.
    async fn conclude(mut self: Box<Self>, attempts: Attempts, tried: Tried, answer: Answer) {
        let unknown = Settlement::Tombstone(TombstoneReason::Unknown);
        let (settlement, refusal) = match tried {
            Tried::Whole(replied) => return self.whole(attempts, *replied, answer).await,
            // Streams are few, and the room for one would be part of every call's future.
            Tried::Passing(passing) => {
                return Box::pin(self.pass_on(attempts, *passing, answer)).await;
            }
            Tried::Broken(refusal) => (unknown, refusal),
            // Nothing was sent this time, but something was before.
            Tried::Unsent(_) | Tried::Untried(_) if attempts.after_unknown => {
                (unknown, Refusal::upstream_disconnected())
            }
            Tried::Unsent(refusal) | Tried::Untried(refusal) => (Settlement::Release, refusal),
        };
        self.settle(attempts.ticket, settlement).await;
        self.refuse(refusal, answer);
    }

    /// The whole reply is here: settle it, then hand it on.
    async fn whole(mut self: Box<Self>, attempts: Attempts, replied: Replied, answer: Answer) {
        let Replied { status, headers, finished, body } = replied;
        let outcome = match finished.outcome {
            Outcome::Complete(stored) => Outcome::Complete(self.routed(stored)),
            // The caller is told what the record will say, not what the last status alone does.
            Outcome::Released if attempts.after_unknown || attempts.redispatched => {
                Outcome::Unknown(UnknownReason::Before)
            }
            outcome => outcome,
        };
        // Cut short: to hand it on would be to pass a fragment off as the reply.
        let cut_short = outcome == Outcome::Unknown(UnknownReason::CutShort);
        let response = (!cut_short).then(|| {
            let cross_origin = self.cross_origin;
            let first = First { status, headers: &headers, outcome: &outcome, body, cross_origin };
            answer::first(&self.claim, first)
        });
        let settlement = settlement(outcome, attempts.after_unknown);
        self.settle(attempts.ticket, settlement).await;
        match response {
            Some(response) => {
                self.audit.end(response.status());
                deliver(answer, response);
            }
            None => self.refuse(Refusal::upstream_disconnected(), answer),
        }
    }

    /// A reply to keep, with the route that replays tell.
    fn routed(&self, stored: crate::claim::Reply) -> crate::claim::Reply {
        match self.claim.destination.told_route() {
            Some(route) => stored.with_route(route.clone()),
            None => stored,
        }
    }

    /// The reply goes out while it is read, and settles at its end.
    async fn pass_on(self: Box<Self>, mut attempts: Attempts, passing: Passing, answer: Answer) {
        let Passing { status, headers, body, reading, length, first, permit } = passing;
        let patience = self.worker.gateway.body.idle;
        let (sender, relayed) = relay::channel(length, patience);
        let response = reply::head(status, &headers, self.cross_origin, relayed);
        let Self { worker, route, token, audit, .. } = *self;
        audit.end(response.status());
        deliver(answer, response);
        let pump = Pump { body, reading, remaining: length, sender, last: None };
        let Pumped { outcome, broken, rest } = Box::pin(pump.run(first)).await;
        drop(permit);
        route.metrics.attempt(broken.map_or(AttemptResult::Replied, dispatch::attempt_result));
        attempts.ended(broken.map_or(receipt::AttemptResult::Replied(status), broken_as));
        let settlement = settlement(outcome, attempts.after_unknown);
        let store = std::sync::Arc::clone(&worker.gateway.store);
        settle(store, attempts.ticket, settlement, token).await;
        rest.finish().await;
    }
}

/// A failed exchange as a receipt tells it.
fn broken_as(failure: Failure) -> receipt::AttemptResult {
    match failure {
        Failure::Unsent(_) => receipt::AttemptResult::Unsent,
        Failure::Ambiguous(AmbiguousCause::Timeout) => receipt::AttemptResult::Timeout,
        Failure::Ambiguous(AmbiguousCause::Disconnected) => receipt::AttemptResult::Disconnected,
    }
}
