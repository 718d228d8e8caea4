//! The way of a request: inspect → policy → authenticate → authorize → claim → dispatch → settle →
//! audit (CONTRACT section 3).
//!
//! Every stage is a function from what the earlier ones found to its own finding or a refusal. The
//! claim stands after authorization, so that a replay is never served from stale authorization.

use std::cell::OnceCell;
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
use super::destination::Destination;
use super::error::Refusal;
use super::inspect::{self, Media};
use super::message::{self, Message, ToolCall};
use super::outbound::{Forwarded, Outbound};
use super::router::Route;
use super::state::{Gateway, Worker};
use super::{
    authenticate, authorize, cors, dispatch, era, execute, key, native, receipts,
    resource_metadata, telling,
};
use crate::claim::{Document, Key};
use crate::identity::{Credentials, Identity, Peer, Verified};
use crate::observe::IdempotencyOutcome;
use crate::observe::trace::Stage;
use crate::policy::{Callable, Catalog, KeyBinding, Keys, Native, ServerPolicy, Tool};
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
            Err(refusal) => match receipts::asked(gateway, request.head()) {
                Some(route) => own_receipts(gateway, &route, &request, audit).await,
                None => refuse(audit, &refusal, None),
            },
            Ok(admitted) => {
                audit.server(&admitted.route);
                let effective = OnceCell::new();
                let exchange =
                    Exchange { request: &request, worker: &worker, admitted, token, effective };
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

/// A workspace's receipts, or why its caller does not get them.
async fn own_receipts(
    gateway: &Gateway,
    route: &Route,
    request: &HttpRequest,
    mut audit: Auditing,
) -> HttpResponse {
    match receipts::answer(gateway, route, request.head()).await {
        Ok(response) => {
            audit.refused("receipts");
            audit.passed();
            audit.end(response.status());
            response
        }
        Err(refusal) => refuse(audit, &refusal, None),
    }
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
    /// The effective key, once it is known, on a server with `keys: always`.
    effective: OnceCell<Key>,
}

/// Where an authorized request goes.
enum Next {
    /// Without a key: to the upstream.
    Forward(Outbound),
    /// With a key: to the store first. A capability's call may be one that today's route refuses, and
    /// that a record stands for all the same.
    Claim(Box<Claim>, Result<Outbound, Refusal>),
    /// With a key that a completed record holds: nowhere.
    Known(Box<Claim>, Known),
    /// To a vendor, without a key.
    Vendor(Box<native::Unkeyed>),
    /// Nowhere: the gateway's own answer, as the MCP server of its native tools.
    Own(HttpResponse),
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
        let Self { request, worker, admitted, token, effective } = self;
        let worker = Data::clone(worker);
        let route = admitted.route;
        let mut response = match next {
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
            // Every exchange would have room for a vendor's, the largest of them.
            Ok(Next::Vendor(call)) => Box::pin(native::call(&worker, &route, *call, audit)).await,
            Ok(Next::Own(response)) => {
                audit.end(response.status());
                response
            }
        };
        if let Some(key) = effective.get() {
            telling::tell_key(&mut response, key);
        }
        response
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
        let called = message.and_then(Message::call).map(|call| self.called(&identity, call));
        let always = policy.idempotency.keys == Keys::Always && called.is_some();
        let keyed = always || key::is_present(headers, &policy.idempotency, message);
        let declared = called.as_ref().and_then(|called| called.declared(policy));
        let asked = authorize::Asked { credentials: &credentials, message, declared, keyed };
        let decision = authorize::decide(policy, &identity, &asked);
        audit.decision(&decision);
        if !decision.allowed {
            let refusal = Refusal::unauthorized(decision.status, decision.reason);
            return Err(refusal.at_server(&policy.auth));
        }
        let key = match key::read(headers, &policy.idempotency, message)? {
            None if always => Some(key::mint()?),
            key => key,
        };
        if let (true, Some(key)) = (always, &key) {
            // Nobody else has set it.
            let _ = self.effective.set(key.clone());
        }
        if policy.target.native().is_some()
            && let Some(refusal) = message.and_then(|message| native::unspoken(message, headers))
        {
            return Ok(Next::Own(refusal));
        }
        let authorized = Authorized { identity, message, body, session: decision.session };
        match (called, key) {
            (Some(called), Some(key)) => {
                audit.stage(Stage::Claim);
                self.keyed(&authorized, called, key, audit)
            }
            (called, _) => self.unkeyed(&authorized, called),
        }
    }

    /// Where a `tools/call` leads.
    fn called<'c>(&self, identity: &Identity, call: &'c ToolCall<'_, '_>) -> Called<'c> {
        let route = &self.admitted.route;
        let Some(native) = route.policy.target.native() else {
            return Called { tool: &call.tool, native: false, callable: None };
        };
        let catalog = catalog(native, identity);
        let callable = catalog.and_then(|catalog| catalog.0.get(call.tool.as_ref())).cloned();
        Called { tool: &call.tool, native: true, callable }
    }

    fn keyed(
        &self,
        authorized: &Authorized<'_>,
        called: Called<'_>,
        key: Key,
        audit: &mut Auditing,
    ) -> Result<Next, Refusal> {
        let Authorized { identity, message, session, .. } = authorized;
        let (policy, call) = (&self.admitted.route.policy, message.and_then(Message::call));
        // Only a call was looked for.
        let call = call.ok_or_else(Refusal::key_unsupported)?;
        if identity.verified().is_none() {
            return Err(Refusal::key_without_identity());
        }
        let destination = called.destination(&self.admitted.route)?;
        let session = session.as_deref();
        let asking = claim::Asking { policy, identity, session, call, destination };
        let claim = Box::new(claim::claim(asking, key)?);
        audit.slot(claim.begin.slot);
        self.hold(identity)?;
        // A native tool's arguments are judged before the claim.
        let vendor = match claim.destination.callable() {
            Some(callable) => Some(native::keyed_outbound(callable, call, claim.binding())?),
            None => None,
        };
        if let Some(known) = self.worker.gateway.store.look_up(&claim.begin) {
            return Ok(Next::Known(claim, known));
        }
        let outbound = match vendor {
            Some(outbound) => outbound,
            None => Ok(self.forwarded(authorized, claim.binding(), true)?),
        };
        Ok(Next::Claim(claim, outbound))
    }

    fn unkeyed(
        &self,
        authorized: &Authorized<'_>,
        called: Option<Called<'_>>,
    ) -> Result<Next, Refusal> {
        let Authorized { identity, message, .. } = authorized;
        let route = &self.admitted.route;
        let Some(tools) = route.policy.target.native() else {
            return Ok(Next::Forward(self.forwarded(authorized, None, false)?));
        };
        match (called, message.and_then(Message::call)) {
            (Some(called), Some(call)) => {
                let callable = called.callable()?;
                let outbound = native::outbound(&callable, call, None)?;
                Ok(Next::Vendor(Box::new(native::Unkeyed::new(callable, call, outbound))))
            }
            _ => {
                let (catalog, headers) = (catalog(tools, identity), self.request.headers());
                native::answer(&route.policy, catalog, *message, headers).map(Next::Own)
            }
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

    fn forwarded(
        &self,
        authorized: &Authorized<'_>,
        key: Option<(&KeyBinding, &Key)>,
        keyed: bool,
    ) -> Result<Outbound, Refusal> {
        let Authorized { identity, message, body, .. } = authorized;
        let policy = &self.admitted.route.policy;
        // A native server's requests are not forwarded.
        let upstream = policy.target.mcp().ok_or_else(Refusal::key_unsupported)?;
        let head = self.request.head();
        let sent = Forwarded { head, body, message: *message, identity, key, keyed };
        Outbound::new(policy, upstream, &sent)
    }
}

/// The native tools that a caller may see.
fn catalog<'n>(native: &'n Native, identity: &Identity) -> Option<&'n Catalog> {
    let workspace = identity.verified().and_then(Verified::workspace);
    native.catalog(workspace.map(|id| &**id))
}

/// What was found of a request that may pass.
struct Authorized<'e> {
    identity: Identity,
    message: Option<&'e Message<'e, 'e>>,
    body: &'e Bytes,
    /// The governed session that it is bound to.
    session: Option<String>,
}

/// A tool as it was called, and the native one that it names.
struct Called<'c> {
    tool: &'c str,
    native: bool,
    callable: Option<Arc<Callable>>,
}

impl Called<'_> {
    fn declared<'p>(&'p self, policy: &'p ServerPolicy) -> Option<&'p Tool> {
        match self.native {
            true => self.callable.as_ref().map(|callable| &callable.tool),
            false => policy.tool(self.tool),
        }
    }

    /// # Errors
    ///
    /// A native server has no such tool.
    fn callable(self) -> Result<Arc<Callable>, Refusal> {
        self.callable.ok_or_else(Refusal::unknown_tool)
    }

    fn destination(self, route: &Route) -> Result<Destination, Refusal> {
        match self.native {
            true => Ok(Destination::native(&self.callable()?)),
            false => Ok(route.destination(self.tool)),
        }
    }
}
