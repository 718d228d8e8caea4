//! The way of a request: inspect → policy → authenticate → authorize → claim → dispatch → settle →
//! audit (CONTRACT section 3).
//!
//! Every stage is a function from what the earlier ones found to its own finding or a refusal. The
//! claim stands after authorization, so that a replay is never served from stale authorization.

use std::sync::Arc;

use actix_web::body::{BodySize, MessageBody};
use actix_web::http::header::HeaderMap;
use actix_web::http::{ConnectionType, Version};
use actix_web::web::{Bytes, Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use jiff::Timestamp;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::admit::{self, Admitted};
use super::audit::Auditing;
use super::claim::{self, Claim};
use super::error::Refusal;
use super::inspect::{self, Media};
use super::message::{self, Message};
use super::outbound::Outbound;
use super::router::Route;
use super::state::{Gateway, Worker};
use super::{authenticate, authorize, cors, dispatch, era, execute, key, resource_metadata};
use crate::claim::Document;
use crate::identity::{Credentials, Identity, Peer};
use crate::observe::IdempotencyOutcome;
use crate::observe::trace::Stage;
use crate::store::Known;

/// Handles one request.
pub async fn handle(request: HttpRequest, payload: Payload, worker: Data<Worker>) -> HttpResponse {
    let gateway = &worker.gateway;
    let mut audit = Auditing::begin(gateway, request.head());
    let Some(token) = gateway.drain.enter() else {
        return refuse(audit, &Refusal::shutting_down(), None);
    };
    let origin = match admit::origin(gateway, request.head()) {
        Ok(origin) => origin,
        Err(refusal) => return refuse(audit, &refusal, None),
    };
    let mut response = match own_answer(gateway, &request, origin.is_some()) {
        Some((reason, response)) => {
            audit.refused(reason);
            audit.passed();
            audit.end(response.status());
            response
        }
        None => match admit::head(gateway, request.head()) {
            Err(refusal) => refuse(audit, &refusal, None),
            Ok(admitted) => {
                audit.server(&admitted.route);
                let exchange = Exchange { request: &request, worker: &worker, admitted, token };
                exchange.run(payload, audit, origin.is_some()).await
            }
        },
    };
    if let Some(origin) = origin {
        cors::apply(&mut response, origin);
    }
    fit(&mut response, &request);
    response
}

/// What the gateway answers of itself, whoever asks, with the audit's word for it.
fn own_answer(
    gateway: &Gateway,
    request: &HttpRequest,
    cross_origin: bool,
) -> Option<(&'static str, HttpResponse)> {
    if cross_origin && cors::is_preflight(request) {
        return Some(("preflight", cors::preflight(request)));
    }
    Some(("resource_metadata", resource_metadata::answer(gateway, request.head())?))
}

/// Answers in a form that the request's connection can carry: a client of HTTP/1.0 knows no chunks,
/// and after an offer to upgrade the HTTP server closes the connection, which the answer must not
/// call an upgrade.
fn fit(response: &mut HttpResponse, request: &HttpRequest) {
    let endless = response.body().size() == BodySize::Stream;
    let unframed = endless && request.version() < Version::HTTP_11;
    if unframed {
        response.head_mut().no_chunking(true);
    }
    if unframed || request.head().upgrade() {
        response.head_mut().set_connection_type(ConnectionType::Close);
    }
}

/// Ends an exchange with a refusal.
pub fn refuse(mut audit: Auditing, refusal: &Refusal, id: Option<&str>) -> HttpResponse {
    audit.refused(refusal.reason);
    if refusal.counts_as_rejected() {
        audit.outcome(IdempotencyOutcome::Rejected);
    }
    audit.end(refusal.status);
    refusal.response(id)
}

/// One request on its way.
struct Exchange<'r> {
    request: &'r HttpRequest,
    worker: &'r Data<Worker>,
    admitted: Admitted,
    token: TaskTrackerToken,
}

/// Where an authorized request goes.
enum Next {
    /// Without a key: to the upstream.
    Forward(Outbound),
    /// With a key: to the store first.
    Claim(Claim, Outbound),
    /// With a key that a completed record holds: nowhere.
    Known(Claim, Known),
}

impl Exchange<'_> {
    async fn run(
        self,
        mut payload: Payload,
        mut audit: Auditing,
        cross_origin: bool,
    ) -> HttpResponse {
        let limits = self.worker.gateway.body;
        audit.stage(Stage::Inspect);
        let body = match inspect::body(&mut payload, limits).await {
            Ok(body) => body,
            Err(refusal) => return refuse(audit, &refusal, None),
        };
        let next = match self.admitted.media {
            Media::Json => self.message(&body, &mut audit).await,
            Media::NotAPost | Media::OtherWithKey => {
                let next = self.decide(None, &body, &mut audit).await;
                next.and_then(|next| match body.is_empty() {
                    true => Ok(next),
                    false => Err(Refusal::unexpected_body()),
                })
            }
        };
        if next.is_ok() {
            audit.passed();
        }
        let Self { request, worker, admitted, token } = self;
        let worker = Data::clone(worker);
        let route = admitted.route;
        match next {
            Err(refusal) => refuse(audit, &refusal, message::id_in(&body).as_deref()),
            Ok(Next::Forward(outbound)) => {
                let listening = request.method() == actix_web::http::Method::GET;
                let forward =
                    dispatch::Forward { worker, route, token, cross_origin, body, listening };
                dispatch::forward(forward, outbound, audit).await
            }
            Ok(Next::Known(claim, known)) => execute::known(&claim, known, audit),
            Ok(Next::Claim(claim, outbound)) => {
                let call = execute::KeyedCall { worker, route, token, cross_origin, claim, audit };
                execute::detached(Box::new(call), outbound).await
            }
        }
    }

    /// Scans a JSON body and goes on with what it says.
    async fn message(&self, body: &Bytes, audit: &mut Auditing) -> Result<Next, Refusal> {
        let document = Document::parse(body).map_err(|error| Refusal::parse_error(&error))?;
        let message = Message::read(&document)?;
        audit.message(message.method(), message.call().map(|call| call.tool.as_ref()));
        era::check(self.request.headers(), &message)?;
        self.decide(Some(&message), body, audit).await
    }

    /// Authenticate, authorize, and the key.
    async fn decide(
        &self,
        message: Option<&Message<'_, '_>>,
        body: &Bytes,
        audit: &mut Auditing,
    ) -> Result<Next, Refusal> {
        let headers: &HeaderMap = self.request.headers();
        let route: &Arc<Route> = &self.admitted.route;
        let policy = &route.policy;
        audit.stage(Stage::Authenticate);
        let (gateway, head) = (&self.worker.gateway, self.request.head());
        let peer = self.request.conn_data::<Peer>();
        let identity = authenticate::identify(gateway, route, head, peer).await?;
        // Read after an issuer was waited for: a session may have been revoked meanwhile.
        let (sessions, now) = (gateway.sessions.snapshot(), Timestamp::now());
        let credentials = Credentials { headers, peer, sessions: &sessions, now };
        if let Some(principal) = identity.principal() {
            audit.caller(principal);
        }
        audit.stage(Stage::Authorize);
        let keyed = key::is_present(headers, &policy.idempotency, message);
        let asked = authorize::Asked { credentials: &credentials, message, keyed };
        let decision = authorize::decide(policy, &identity, &asked);
        audit.decision(&decision);
        if !decision.allowed {
            let refusal = Refusal::unauthorized(decision.status, decision.reason);
            return Err(refusal.at_server(&policy.auth));
        }
        let key = key::read(headers, &policy.idempotency, message)?;
        match (key, message.and_then(Message::call)) {
            (Some(key), Some(call)) => {
                audit.stage(Stage::Claim);
                let session = decision.session.as_deref().unwrap_or_default();
                let claim = claim::claim(policy, &identity, session, &key, call)?;
                audit.slot(claim.begin.slot);
                self.hold(&identity)?;
                match self.worker.gateway.store.look_up(&claim.begin) {
                    Some(known) => Ok(Next::Known(claim, known)),
                    None => Ok(Next::Claim(claim, self.outbound(&identity, body, true)?)),
                }
            }
            _ => Ok(Next::Forward(self.outbound(&identity, body, false)?)),
        }
    }

    /// A session whose certificates stand for another caller now takes no keys.
    fn hold(&self, identity: &Identity) -> Result<(), Refusal> {
        let policy = &self.admitted.route.policy;
        let named = identity.verified().and_then(|caller| Some((caller.session()?, caller)));
        let (Some((session, caller)), Some(uid)) = (named, &policy.uid) else { return Ok(()) };
        match self.worker.gateway.holders.is_same(uid, session, caller.principal()) {
            true => Ok(()),
            false => Err(Refusal::session_rebound()),
        }
    }

    fn outbound(
        &self,
        identity: &Identity,
        body: &Bytes,
        keyed: bool,
    ) -> Result<Outbound, Refusal> {
        Outbound::new(self.request.head(), &self.admitted.route.policy, identity, body, keyed)
    }
}
