//! Audit: one event per exchange, whatever way it ends, and its span (CONTRACT section 8).

use std::sync::Arc;
use std::time::Instant;

use actix_web::dev::RequestHead;
use actix_web::http::StatusCode;
use jiff::Timestamp;

use super::outbound::Outbound;
use super::router::Route;
use super::state::Gateway;
use super::trace;
use crate::claim::SlotKey;
use crate::identity::Principal;
use crate::observe::trace::{ExchangeSpan, Stage};
use crate::observe::{AuditDecision, AuditEvent, IdempotencyOutcome};
use crate::policy::Decision;

/// The field's word for a client that left before there was an answer.
const CLIENT_CLOSED_REQUEST: u16 = 499;
const CLIENT_LEFT: &str = "client_disconnected";

/// The event of an exchange that still runs. Dropped without an end (the caller left), it says so
/// itself: an exchange has exactly one event.
pub struct Auditing {
    gateway: Arc<Gateway>,
    started: Instant,
    time: Timestamp,
    route: Option<Arc<Route>>,
    principal: Option<Principal>,
    method: Option<String>,
    tool: Option<String>,
    decision: Option<Decision>,
    refused: Option<&'static str>,
    outcome: Option<IdempotencyOutcome>,
    slot: Option<SlotKey>,
    passed: bool,
    ended: bool,
    /// The exchange's span, where traces are on.
    span: Option<Box<ExchangeSpan>>,
}

impl Auditing {
    /// An exchange begins.
    pub fn begin(gateway: &Arc<Gateway>, head: &RequestHead) -> Self {
        let span = gateway.traces.as_ref().map(|traces| {
            Box::new(traces.begin(&trace::incoming(head.headers()), head.method.as_str()))
        });
        Self {
            gateway: Arc::clone(gateway),
            started: Instant::now(),
            time: Timestamp::now(),
            route: None,
            principal: None,
            method: None,
            tool: None,
            decision: None,
            refused: None,
            outcome: None,
            slot: None,
            passed: false,
            ended: false,
            span,
        }
    }

    /// A stage begins.
    pub fn stage(&mut self, stage: Stage) {
        if let Some(span) = &mut self.span {
            span.stage(stage);
        }
    }

    /// The request is about to be sent: the upstream is told of the trace.
    pub fn dispatch(&mut self, outbound: &mut Outbound) {
        if let Some(span) = &mut self.span {
            span.stage(Stage::Dispatch);
            trace::pass_on(&span.outgoing(), outbound.request.headers_mut());
        }
    }

    /// The governed server is known.
    pub fn server(&mut self, route: &Arc<Route>) {
        self.route = Some(Arc::clone(route));
    }

    /// The message is known.
    pub fn message(&mut self, method: Option<&str>, tool: Option<&str>) {
        self.method = method.map(str::to_owned);
        self.tool = tool.map(str::to_owned);
    }

    /// The caller is known.
    pub fn caller(&mut self, principal: &Principal) {
        self.principal = Some(principal.clone());
    }

    /// The policy has decided.
    pub fn decision(&mut self, decision: &Decision) {
        self.decision = Some(decision.clone());
    }

    /// The exchange goes on to claim or dispatch: what comes of it is no longer a denial.
    pub fn passed(&mut self) {
        self.passed = true;
    }

    /// The slot is known.
    pub fn slot(&mut self, slot: SlotKey) {
        self.slot = Some(slot);
    }

    /// What the keyed call came to; counted here, so that audit and metric never differ.
    pub fn outcome(&mut self, outcome: IdempotencyOutcome) {
        self.outcome = Some(outcome);
        if let Some(route) = &self.route {
            route.metrics.idempotency(outcome);
        }
    }

    /// The gateway itself answers: its reason is the event's.
    pub fn refused(&mut self, reason: &'static str) {
        self.refused = Some(reason);
    }

    /// The exchange has its answer.
    pub fn end(mut self, status: StatusCode) {
        self.write(status.as_u16());
    }

    fn write(&mut self, status: u16) {
        self.ended = true;
        let latency = self.started.elapsed();
        if let Some(route) = &self.route {
            route.metrics.request(status, latency);
        }
        let policy = self.route.as_ref().map(|route| &route.policy);
        let principal = self.principal.as_ref();
        let decision = self.decision.as_ref();
        let event = AuditEvent {
            time: self.time,
            server: policy.map(|policy| policy.name.as_str()),
            namespace: policy.map(|policy| policy.namespace.as_str()),
            human: principal.and_then(Principal::human),
            agent: principal.and_then(Principal::agent),
            team: principal.and_then(Principal::team),
            session: decision.and_then(|decision| decision.session.as_deref()),
            rpc_method: self.method.as_deref(),
            tool: self.tool.as_deref(),
            decision: if self.passed { AuditDecision::Allow } else { AuditDecision::Deny },
            reason: self.refused.or(decision.map(|decision| decision.reason.as_str())),
            matched_grant: decision.and_then(|decision| decision.grant.as_deref()),
            status,
            latency,
            idempotency: self.outcome,
            idempotency_key_hash: self.slot,
        };
        self.gateway.audit.record(&event);
        if let Some(span) = self.span.take() {
            span.end(&event, policy.map(|policy| policy.path.as_str()));
        }
    }
}

impl Drop for Auditing {
    fn drop(&mut self) {
        if !self.ended {
            self.refused.get_or_insert(CLIENT_LEFT);
            self.write(CLIENT_CLOSED_REQUEST);
        }
    }
}
