//! Dispatch of what carries no key: forwarded as received, relayed as it comes.
//!
//! A client that leaves cancels its exchange: its response is dropped, and with it the upstream's
//! connection (CONTRACT section 4).

use std::pin::Pin;
use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::web::{Bytes, Data};
use futures_util::stream;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::audit::Auditing;
use super::error::Refusal;
use super::message;
use super::outbound::Outbound;
use super::pipeline::refuse;
use super::relay::{self, Broken};
use super::reply;
use super::router::Route;
use super::state::Worker;
use crate::claim::Millis;
use crate::observe::{AttemptResult, ServerMetrics};
use crate::upstream::{self, AmbiguousCause, Body, Circuit, Failure, Permit, Response};

/// Where and how to forward.
pub struct Forward {
    /// The worker whose client sends.
    pub worker: Data<Worker>,
    /// The server.
    pub route: Arc<Route>,
    /// Keeps a shutdown waiting until the last byte has left.
    pub token: TaskTrackerToken,
    /// Whether the gateway's CORS headers take the place of the upstream's.
    pub cross_origin: bool,
    /// The request's body, whose id a refusal answers.
    pub body: Bytes,
    /// A GET: its stream may be quiet for as long as the client listens.
    pub listening: bool,
}

/// Forwards a request and relays the reply.
pub async fn forward(
    forward: Forward,
    mut outbound: Outbound,
    mut audit: Auditing,
) -> HttpResponse {
    audit.dispatch(&mut outbound);
    match attempt(&forward.worker, &forward.route, &forward.route.circuit, outbound).await {
        Ok((response, permit)) => {
            let response = relay_reply(forward, response, permit);
            audit.end(response.status());
            response
        }
        Err(no_reply) => refuse(audit, &no_reply.refusal, message::id_in(&forward.body).as_deref()),
    }
}

fn relay_reply(forward: Forward, response: Response, permit: Permit) -> HttpResponse {
    let Response { status, headers, body } = response;
    let length = body.expected_len();
    // A stream that a client merely listens to is no running call: it takes no place from calls,
    // and no shutdown waits for it.
    let held = (!forward.listening).then_some((permit, forward.token));
    let closing = forward.listening.then(|| Box::pin(forward.worker.gateway.drain.closing()));
    let state = Relaying { body, closing, _held: held };
    let metrics = Arc::clone(&forward.route.metrics);
    let pieces = stream::unfold(Some(state), move |state| {
        let metrics = Arc::clone(&metrics);
        async move { Relaying::next(state?, &metrics).await }
    });
    reply::head(status, &headers, forward.cross_origin, relay::body(length, pieces))
}

/// A reply that is being relayed; dropping it closes the upstream's connection.
struct Relaying {
    body: Body,
    /// Of a stream that a client listens to: its end where the process stops.
    closing: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    _held: Option<(Permit, TaskTrackerToken)>,
}

impl Relaying {
    async fn next(
        mut self,
        metrics: &ServerMetrics,
    ) -> Option<(Result<Bytes, Broken>, Option<Self>)> {
        loop {
            let chunk = match &mut self.closing {
                None => self.body.chunk().await,
                Some(closing) => tokio::select! {
                    chunk = self.body.chunk() => chunk,
                    () = closing => return None,
                },
            };
            return match chunk {
                Ok(Some(piece)) => Some((Ok(piece), Some(self))),
                Ok(None) => {
                    metrics.attempt(AttemptResult::Replied);
                    None
                }
                Err(Failure::Ambiguous(AmbiguousCause::Timeout)) if self.closing.is_some() => {
                    continue;
                }
                Err(failure) => {
                    metrics.attempt(attempt_result(failure));
                    Some((Err(Broken), None))
                }
            };
        }
    }
}

/// An attempt without a reply.
pub struct NoReply {
    /// The answer to the client.
    pub refusal: Refusal,
    /// How it failed; `None` where the circuit let it not be tried.
    pub failure: Option<Failure>,
}

/// One attempt under a circuit of the server's. The permit holds its place until it is dropped.
///
/// # Errors
///
/// [`NoReply`]: refused by the circuit, or failed.
pub async fn attempt(
    worker: &Worker,
    route: &Route,
    circuit: &Arc<Circuit>,
    outbound: Outbound,
) -> Result<(Response, Permit), NoReply> {
    let clock = &worker.gateway.clock;
    let mut permit = circuit
        .admit(clock.now())
        .map_err(|refusal| NoReply { refusal: refused_by_circuit(refusal), failure: None })?;
    let sent = match worker.client.send(outbound.request).await {
        // 101: the upstream left HTTP, so there will be no reply.
        Ok(response) if response.status < 200 => {
            Err(Failure::Ambiguous(AmbiguousCause::Disconnected))
        }
        sent => sent,
    };
    match sent {
        Ok(response) => {
            verdict(&mut permit, response.status, clock.now());
            Ok((response, permit))
        }
        Err(failure) => {
            permit.failure(clock.now());
            // The circuit bounds how often: it opens after a few in a row.
            let (namespace, server) = (&route.policy.namespace, &route.policy.name);
            tracing::warn!(namespace, server, %failure, "no reply from an upstream");
            route.metrics.attempt(attempt_result(failure));
            Err(NoReply { refusal: refused_by_failure(failure), failure: Some(failure) })
        }
    }
}

/// What a status says about the health of the server.
fn verdict(permit: &mut Permit, status: u16, now: Millis) {
    match status {
        500.. => permit.failure(now),
        _ => permit.success(),
    }
}

/// The refusal of a circuit as an answer.
fn refused_by_circuit(refusal: upstream::Refusal) -> Refusal {
    match refusal {
        upstream::Refusal::CircuitOpen { retry_after_s } => Refusal::circuit_open(retry_after_s),
        upstream::Refusal::Busy => Refusal::busy(),
    }
}

/// A failed exchange as an answer.
pub fn refused_by_failure(failure: Failure) -> Refusal {
    match failure {
        Failure::Unsent(_) => Refusal::unreachable(),
        Failure::Ambiguous(AmbiguousCause::Timeout) => Refusal::upstream_timeout(),
        Failure::Ambiguous(AmbiguousCause::Disconnected) => Refusal::upstream_disconnected(),
    }
}

/// A failed exchange as a metric.
pub fn attempt_result(failure: Failure) -> AttemptResult {
    match failure {
        Failure::Unsent(_) => AttemptResult::Unsent,
        Failure::Ambiguous(AmbiguousCause::Timeout) => AttemptResult::Timeout,
        Failure::Ambiguous(AmbiguousCause::Disconnected) => AttemptResult::Disconnected,
    }
}

/// How a body broke off, as its reading is told. A body breaks only after the request was sent.
pub fn broken_by(failure: Failure) -> AmbiguousCause {
    match failure {
        Failure::Ambiguous(cause) => cause,
        Failure::Unsent(_) => AmbiguousCause::Disconnected,
    }
}
