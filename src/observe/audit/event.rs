//! What a line says.

use std::time::Duration;

use super::line::{Line, name};
use crate::claim::SlotKey;
use crate::observe::IdempotencyOutcome;

/// Whether the exchange was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditDecision {
    /// It went on to claim, dispatch or replay.
    Allow,
    /// The gateway refused it; `reason` says why.
    Deny,
}

impl AuditDecision {
    /// The word of a line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// One exchange (CONTRACT section 8). What is `None` is left out of the line.
///
/// There is no place for a raw key or a payload: a keyed call is named by its scoped hash, of which
/// the line holds the first 16 hex characters. Every text is cut at
/// [`MAX_VALUE_BYTES`](super::MAX_VALUE_BYTES).
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEvent<'a> {
    /// When the exchange began; RFC 3339, UTC, with milliseconds.
    pub time: jiff::Timestamp,
    /// The server's name in the policy; none where the path names no server.
    pub server: Option<&'a str>,
    /// The server's namespace in the policy.
    pub namespace: Option<&'a str>,
    /// The caller's human.
    pub human: Option<&'a str>,
    /// The caller's agent.
    pub agent: Option<&'a str>,
    /// The caller's team.
    pub team: Option<&'a str>,
    /// The governed session.
    pub session: Option<&'a str>,
    /// The JSON-RPC method.
    pub rpc_method: Option<&'a str>,
    /// The tool of a `tools/call`.
    pub tool: Option<&'a str>,
    /// Whether the exchange was let through.
    pub decision: AuditDecision,
    /// The stable name of why (CONTRACT sections 6 and 9).
    pub reason: Option<&'a str>,
    /// The grant that decided.
    pub matched_grant: Option<&'a str>,
    /// The HTTP status that was sent.
    pub status: u16,
    /// How long the exchange took; `latency_ms` in milliseconds, with microseconds as decimals.
    pub latency: Duration,
    /// What a keyed call came to.
    pub idempotency: Option<IdempotencyOutcome>,
    /// The slot of a keyed call.
    pub idempotency_key_hash: Option<SlotKey>,
}

impl AuditEvent<'_> {
    /// The line that a sink gets, its line feed included.
    pub fn to_line(&self) -> Vec<u8> {
        let time = self.time;
        let latency_us = u64::try_from(self.latency.as_micros()).unwrap_or(u64::MAX);
        let mut line = Line::begin();
        line.plain(name!("time"), format_args!("{time:.3}"));
        line.optional(name!("server"), self.server);
        line.optional(name!("namespace"), self.namespace);
        line.optional(name!("human"), self.human);
        line.optional(name!("agent"), self.agent);
        line.optional(name!("team"), self.team);
        line.optional(name!("session"), self.session);
        line.optional(name!("rpc_method"), self.rpc_method);
        line.optional(name!("tool"), self.tool);
        line.string(name!("decision"), self.decision.as_str());
        line.optional(name!("reason"), self.reason);
        line.optional(name!("matched_grant"), self.matched_grant);
        line.number(name!("status"), u64::from(self.status));
        line.thousandths(name!("latency_ms"), latency_us);
        line.optional(name!("idempotency"), self.idempotency.map(IdempotencyOutcome::as_str));
        if let Some(slot) = self.idempotency_key_hash {
            line.plain(name!("idempotency_key_hash"), format_args!("{slot:.16}"));
        }
        line.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare() -> AuditEvent<'static> {
        AuditEvent {
            time: "2026-11-30T11:38:45.6789Z".parse().expect("a timestamp"),
            server: None,
            namespace: None,
            human: None,
            agent: None,
            team: None,
            session: None,
            rpc_method: None,
            tool: None,
            decision: AuditDecision::Deny,
            reason: None,
            matched_grant: None,
            status: 404,
            latency: Duration::from_micros(1234),
            idempotency: None,
            idempotency_key_hash: None,
        }
    }

    fn line(event: &AuditEvent<'_>) -> String {
        String::from_utf8(event.to_line()).expect("text")
    }

    fn parsed(event: &AuditEvent<'_>) -> serde_json::Value {
        serde_json::from_str(&line(event)).expect("JSON")
    }

    #[test]
    fn a_keyed_exchange_has_every_field_of_the_contract() {
        let event = AuditEvent {
            server: Some("ledger"),
            namespace: Some("payments"),
            human: Some("ana"),
            agent: Some("bot"),
            team: Some("ops"),
            session: Some("s-1"),
            rpc_method: Some("tools/call"),
            tool: Some("pay"),
            decision: AuditDecision::Allow,
            reason: Some("allowed"),
            matched_grant: Some("g"),
            status: 200,
            latency: Duration::from_millis(12),
            idempotency: Some(IdempotencyOutcome::UnknownOutcome),
            idempotency_key_hash: Some(SlotKey::from_bytes([0xa5; 32])),
            ..bare()
        };
        let expected = concat!(
            r#"{"time":"2026-11-30T11:38:45.678Z","server":"ledger","namespace":"payments","#,
            r#""human":"ana","agent":"bot","team":"ops","session":"s-1","#,
            r#""rpc_method":"tools/call","tool":"pay","decision":"allow","reason":"allowed","#,
            r#""matched_grant":"g","status":200,"latency_ms":12.000,"#,
            r#""idempotency":"unknown_outcome","idempotency_key_hash":"a5a5a5a5a5a5a5a5"}"#,
            "\n"
        );
        assert_eq!(line(&event), expected);
    }

    #[test]
    fn what_is_absent_is_left_out() {
        let expected = concat!(
            r#"{"time":"2026-11-30T11:38:45.678Z","decision":"deny","status":404,"#,
            r#""latency_ms":1.234}"#,
            "\n"
        );
        assert_eq!(line(&bare()), expected);
    }

    #[test]
    fn no_value_can_forge_a_line_or_steer_a_terminal() {
        let tool = "a\nb\r\"}\u{7f}\u{9b}2J\u{2028}\u{202e}\u{1b}[1m é 😀\\";
        let event = AuditEvent { tool: Some(tool), ..bare() };
        let line = line(&event);
        let body = line.strip_suffix('\n').expect("a line feed at the end");
        assert!(body.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{line}");
        assert_eq!(parsed(&event)["tool"], tool, "escaping loses nothing");
    }

    #[test]
    fn a_long_value_is_cut_at_a_character() {
        // 255 bytes, then a character of two: it does not fit into 256.
        let session = format!("{}é", "s".repeat(255));
        let exact = "t".repeat(256);
        let event = AuditEvent { session: Some(&session), tool: Some(&exact), ..bare() };
        let value = parsed(&event);
        assert_eq!(value["session"], format!("{}…", "s".repeat(255)));
        assert_eq!(value["tool"], exact);
    }

    #[test]
    fn a_line_of_the_worst_values_is_bounded() {
        let worst = "\u{1}".repeat(100_000);
        let all = Some(&*worst);
        let event = AuditEvent {
            server: all,
            namespace: all,
            human: all,
            agent: all,
            team: all,
            session: all,
            rpc_method: all,
            tool: all,
            reason: all,
            matched_grant: all,
            ..bare()
        };
        assert!(line(&event).len() <= 16 * 1024);
    }
}
