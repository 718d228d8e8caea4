//! The caller's trace context, and the one that is passed on (W3C Trace Context).

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{SpanContext, TraceContextExt};
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// The most bytes of a `tracestate` that are taken over: what everybody should pass on at least (W3C
/// Trace Context, 3.3.1.5). Every span that waits to be sent holds them.
pub const MAX_STATE_BYTES: usize = 512;

/// What a request's headers say.
#[derive(Debug, Clone, Default)]
pub struct Incoming {
    /// The one `traceparent` line; `None` where there is none, or more than one.
    pub traceparent: Option<String>,
    /// The `tracestate` lines, joined by commas. Entries at the end that exceed
    /// `MAX_STATE_BYTES` are left out.
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
            // The SDK also reads short identifiers, signs and a dash at the end.
            "traceparent" => self.traceparent.as_deref().filter(|text| is_well_formed(text)),
            "tracestate" => self.tracestate.as_deref().map(bounded),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

/// Whether a `traceparent` has the form of version 00, or of a later one with more behind it
/// (section 3.2). That its numbers mean something is left to the SDK.
fn is_well_formed(traceparent: &str) -> bool {
    let bytes = traceparent.as_bytes();
    let dash = |at| matches!(at, 2 | 35 | 52);
    let hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let Some((head, rest)) = bytes.split_at_checked(55) else { return false };
    head.iter().enumerate().all(|(at, byte)| if dash(at) { *byte == b'-' } else { hex(*byte) })
        && (rest.is_empty() || (!head.starts_with(b"00") && rest.starts_with(b"-")))
}

/// The entries from the start that fit into `MAX_STATE_BYTES`.
fn bounded(tracestate: &str) -> &str {
    if tracestate.len() <= MAX_STATE_BYTES {
        return tracestate;
    }
    let fits = &tracestate.as_bytes()[..=MAX_STATE_BYTES];
    let end = fits.iter().rposition(|byte| *byte == b',').unwrap_or_default();
    tracestate.get(..end).unwrap_or_default()
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
            "00-1-1-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-+0f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-+1",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more",
        ] {
            assert!(!parent(bad, "a=b").is_valid(), "{bad}");
        }
        // A later version may have more fields.
        for later in [PARENT.to_owned(), format!("{PARENT}-more")] {
            assert!(parent(&later.replacen("00-", "01-", 1), "a=b").is_valid(), "{later}");
        }
    }

    #[test]
    fn a_state_keeps_the_entries_that_fit() {
        let entry = |name: &str, bytes: usize| format!("{name}={}", "x".repeat(bytes - 2));
        let kept = |state: &str| Outgoing::of(&parent(PARENT, state)).tracestate;
        let fits = [entry("a", 255), entry("b", 256)].join(",");
        assert_eq!(fits.len(), MAX_STATE_BYTES);
        assert_eq!(kept(&fits), fits);
        assert_eq!(kept(&format!("{fits},c=1")), fits);
        assert_eq!(kept(&[entry("a", 255), entry("b", 257)].join(",")), entry("a", 255));
        assert_eq!(kept(&"x".repeat(MAX_STATE_BYTES + 1)), "", "no entry at all");
        assert_eq!(kept(&format!("a={}", "\u{e9}".repeat(MAX_STATE_BYTES))), "");
    }
}
