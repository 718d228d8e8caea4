//! The caller's trace context, and the one that is passed on (W3C Trace Context).

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{SpanContext, TraceContextExt};
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// What a request's headers say.
#[derive(Debug, Clone, Default)]
pub struct Incoming {
    /// The one `traceparent` line; `None` where there is none, or more than one.
    pub traceparent: Option<String>,
    /// The `tracestate` lines, joined by commas.
    pub tracestate: Option<String>,
}

/// What the upstream's headers are to say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outgoing {
    /// The value of `traceparent`.
    pub traceparent: String,
    /// The value of `tracestate`; empty where there is none.
    pub tracestate: String,
}

impl Incoming {
    /// The caller's span, if its context is valid; nothing otherwise, so that a new trace begins.
    pub(super) fn parent(&self) -> Context {
        TraceContextPropagator::new().extract_with_context(&Context::new(), self)
    }
}

impl Outgoing {
    /// The context of a span.
    pub(super) fn of(span: &SpanContext) -> Self {
        let context = Context::new().with_remote_span_context(span.clone());
        let mut outgoing = Self::default();
        TraceContextPropagator::new().inject_context(&context, &mut outgoing);
        outgoing
    }
}

impl Extractor for Incoming {
    fn get(&self, name: &str) -> Option<&str> {
        match name {
            "traceparent" => self.traceparent.as_deref(),
            "tracestate" => self.tracestate.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

impl Injector for Outgoing {
    fn set(&mut self, name: &str, value: String) {
        match name {
            "traceparent" => self.traceparent = value,
            "tracestate" => self.tracestate = value,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(traceparent: &str, tracestate: &str) -> SpanContext {
        let incoming = Incoming {
            traceparent: Some(traceparent.to_owned()),
            tracestate: Some(tracestate.to_owned()),
        };
        incoming.parent().span().span_context().clone()
    }

    /// The example of the recommendation, section 3.2.
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_context_passes_unchanged() {
        let span = parent(PARENT, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7");
        let outgoing = Outgoing::of(&span);
        assert_eq!(outgoing.traceparent, PARENT);
        assert_eq!(outgoing.tracestate, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7");
        assert_eq!(Outgoing::of(&parent(PARENT, "")).tracestate, "");
    }

    #[test]
    fn a_context_that_is_not_valid_is_none() {
        for bad in [
            "",
            "00",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e47-00f067aa0ba902b7-01-\u{e9}",
        ] {
            assert!(!parent(bad, "a=b").is_valid(), "{bad}");
        }
        // A later version may have more fields.
        assert!(parent(&PARENT.replacen("00-", "01-", 1), "a=b").is_valid());
    }
}
