//! The span of one exchange and those of its stages.

use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};

use super::{Incoming, Outgoing, Traces};
use crate::observe::audit::{AuditEvent, MAX_VALUE_BYTES};

/// A part of an exchange (CONTRACT section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The body is read and scanned.
    Inspect,
    /// Who calls.
    Authenticate,
    /// Whether they may.
    Authorize,
    /// The key is hashed, and the store asked.
    Claim,
    /// The upstream's part, up to the head of its reply, and to its end where it is held back.
    Dispatch,
    /// The record is written.
    Settle,
}

impl Stage {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Inspect => "inspect",
            Self::Authenticate => "authenticate",
            Self::Authorize => "authorize",
            Self::Claim => "claim",
            Self::Dispatch => "dispatch",
            Self::Settle => "settle",
        }
    }
}

/// The span of an exchange that runs. It ends with [`ExchangeSpan::end`].
#[derive(Debug)]
pub struct ExchangeSpan {
    tracer: SdkTracer,
    method: &'static str,
    root: Context,
    stage: Option<Span>,
}

impl Traces {
    /// An exchange begins, under the caller's trace where its context is valid. `method` is the HTTP
    /// method, which is put into a span's name only where it is a known one.
    pub fn begin(&self, incoming: &Incoming, method: &str) -> ExchangeSpan {
        let tracer = self.tracer.clone();
        let method = known(method);
        let builder = tracer.span_builder(method).with_kind(SpanKind::Server);
        let span = tracer.build_with_context(builder, &incoming.parent());
        ExchangeSpan { tracer, method, root: Context::new().with_span(span), stage: None }
    }
}

impl ExchangeSpan {
    /// A stage begins, and the one before it is over.
    pub fn stage(&mut self, stage: Stage) {
        self.finish_stage(None);
        if self.root.span().is_recording() {
            let kind = match stage {
                Stage::Dispatch => SpanKind::Client,
                _ => SpanKind::Internal,
            };
            let builder = self.tracer.span_builder(stage.as_str()).with_kind(kind);
            self.stage = Some(self.tracer.build_with_context(builder, &self.root));
        }
    }

    /// What the upstream is to be told: the present stage is the parent of its spans, or the
    /// exchange where that is not recorded.
    pub fn outgoing(&self) -> Outgoing {
        match &self.stage {
            Some(stage) => Outgoing::of(stage.span_context()),
            None => Outgoing::of(self.root.span().span_context()),
        }
    }

    /// The exchange has its answer. `route` is the server's path in the policy.
    pub fn end(mut self, event: &AuditEvent<'_>, route: Option<&str>) {
        let failed = event.status >= 500;
        let reason = event.reason.filter(|_| failed);
        self.finish_stage(reason);
        let root = self.root.span();
        if root.is_recording() {
            if let Some(route) = route {
                root.update_name(format!("{} {route}", self.method));
                root.set_attribute(KeyValue::new("http.route", route.to_owned()));
            }
            root.set_attribute(KeyValue::new("http.request.method", self.method));
            root.set_attributes(attributes(event));
            if failed {
                root.set_status(Status::error(reason.unwrap_or_default().to_owned()));
            }
        }
        root.end();
    }

    fn finish_stage(&mut self, failure: Option<&str>) {
        if let Some(mut stage) = self.stage.take() {
            if let Some(reason) = failure {
                stage.set_status(Status::error(reason.to_owned()));
            }
            stage.end();
        }
    }
}

/// What an event says of the exchange, without its caller: the audit trail names people, and traces
/// are read by more of them.
fn attributes(event: &AuditEvent<'_>) -> Vec<KeyValue> {
    let texts = [
        ("onceward.server", event.server),
        ("onceward.namespace", event.namespace),
        ("mcp.method.name", event.rpc_method),
        ("gen_ai.tool.name", event.tool),
        ("onceward.decision", Some(event.decision.as_str())),
        ("onceward.reason", event.reason),
        ("onceward.idempotency.outcome", event.idempotency.map(|outcome| outcome.as_str())),
    ];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text?)));
    let mut attributes: Vec<_> =
        texts.map(|(name, text)| KeyValue::new(name, bounded(text).to_owned())).collect();
    let status = i64::from(event.status);
    attributes.push(KeyValue::new("http.response.status_code", status));
    if let Some(slot) = event.idempotency_key_hash {
        attributes.push(KeyValue::new("onceward.idempotency.key_hash", format!("{slot:.16}")));
    }
    attributes
}

/// At most [`MAX_VALUE_BYTES`], cut at a character.
fn bounded(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_VALUE_BYTES)]
}

/// The method of a span's name: names must not be a caller's to invent.
fn known(method: &str) -> &'static str {
    const KNOWN: [&str; 7] = ["POST", "GET", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH"];
    KNOWN.into_iter().find(|name| *name == method).unwrap_or("_OTHER")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_a_callers_to_invent() {
        assert_eq!(known("POST"), "POST");
        assert_eq!(known("post"), "_OTHER");
        assert_eq!(known("INVENTED-7f3a"), "_OTHER");
    }

    #[test]
    fn values_are_cut_at_a_character() {
        assert_eq!(bounded("pay"), "pay");
        let long = format!("{}é", "t".repeat(MAX_VALUE_BYTES - 1));
        assert_eq!(bounded(&long), "t".repeat(MAX_VALUE_BYTES - 1));
    }
}
