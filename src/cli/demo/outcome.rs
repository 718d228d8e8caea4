//! What a keyed or unkeyed call came to, as the client sees it (CONTRACT sections 4 and 6).

use std::borrow::Cow;
use std::fmt;

use super::client::Answer;

/// The outcome of one call. What was promised and what was seen are compared as such.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The tool ran now.
    Executed,
    /// The stored reply of an earlier run.
    Replayed,
    /// A refusal by the gateway.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The stable name.
        reason: Cow<'static, str>,
        /// What the caller is told to do.
        advice: Cow<'static, str>,
        /// The seconds of `Retry-After`.
        retry_after: Option<u64>,
    },
    /// Anything else; never promised.
    Other {
        /// The HTTP status.
        status: u16,
    },
}

impl Outcome {
    /// The same key with another call.
    pub const CONFLICT: Self = Self::refused(409, "idempotency_key_conflict", "new_key");
    /// The first call still runs.
    pub const IN_FLIGHT: Self = Self::refused_for_now(409, "idempotency_in_flight");
    /// The upstream went away during this call.
    pub const DISCONNECTED: Self = Self::refused(502, "upstream_disconnected", "reconcile");
    /// The upstream went away during the first call.
    pub const UNKNOWN: Self = Self::refused(409, "idempotency_outcome_unknown", "reconcile");
    /// The first call ended, and its reply was not kept.
    pub const NOT_REPLAYABLE: Self =
        Self::refused(409, "idempotency_response_not_replayable", "reconcile");
    /// No room for another call.
    pub const CAPACITY: Self = Self::refused_for_now(429, "idempotency_capacity");

    const fn refused(status: u16, reason: &'static str, advice: &'static str) -> Self {
        let (reason, advice) = (Cow::Borrowed(reason), Cow::Borrowed(advice));
        Self::Refused { status, reason, advice, retry_after: None }
    }

    const fn refused_for_now(status: u16, reason: &'static str) -> Self {
        let (reason, advice) = (Cow::Borrowed(reason), Cow::Borrowed("retry_same_key"));
        Self::Refused { status, reason, advice, retry_after: Some(1) }
    }

    /// What `answer` is.
    pub fn of(answer: &Answer) -> Self {
        let status = answer.status;
        if let Some(refusal) = answer.refusal() {
            let (reason, advice) = (Cow::Owned(refusal.reason), Cow::Owned(refusal.advice));
            return Self::Refused { status, reason, advice, retry_after: answer.retry_after };
        }
        match (status, answer.tool_text(), answer.replayed) {
            (200, Some(_), false) => Self::Executed,
            (200, Some(_), true) => Self::Replayed,
            _ => Self::Other { status },
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Executed => out.write_str("200 from the tool itself"),
            Self::Replayed => out.write_str("200 replayed"),
            Self::Refused { status, reason, advice, retry_after } => {
                write!(out, "{status} {reason} (advice {advice}")?;
                if let Some(seconds) = retry_after {
                    write!(out, ", Retry-After {seconds}")?;
                }
                out.write_str(")")
            }
            Self::Other { status } => write!(out, "{status} without a tool's result"),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn answer(status: u16, body: serde_json::Value) -> Answer {
        Answer {
            status,
            replayed: false,
            retry_after: None,
            content_type: "application/json".into(),
            body: Bytes::from(body.to_string()),
        }
    }

    fn charged() -> Answer {
        let result = json!({ "content": [{ "type": "text", "text": "charged ch_1" }] });
        answer(200, json!({ "jsonrpc": "2.0", "id": 1, "result": result }))
    }

    fn in_flight() -> Answer {
        let data = json!({ "reason": "idempotency_in_flight", "advice": "retry_same_key" });
        let error = json!({ "code": -31409, "message": "Wait.", "data": data });
        let refusal = answer(409, json!({ "jsonrpc": "2.0", "id": 1, "error": error }));
        Answer { retry_after: Some(1), ..refusal }
    }

    #[test]
    fn each_kind_of_answer_is_told_from_the_others() {
        assert_eq!(Outcome::of(&charged()), Outcome::Executed);
        assert_eq!(Outcome::of(&Answer { replayed: true, ..charged() }), Outcome::Replayed);
        assert_eq!(Outcome::of(&in_flight()), Outcome::IN_FLIGHT);
        assert_eq!(Outcome::of(&answer(500, json!(null))), Outcome::Other { status: 500 });
        assert_eq!(
            Outcome::of(&Answer { status: 202, ..charged() }),
            Outcome::Other { status: 202 },
            "only a 200 is a tool's answer"
        );
    }

    #[test]
    fn a_refusal_differs_by_every_one_of_its_facts() {
        let without_retry = Answer { retry_after: None, ..in_flight() };
        assert_ne!(Outcome::of(&without_retry), Outcome::IN_FLIGHT);
        let other_status = Answer { status: 429, ..in_flight() };
        assert_ne!(Outcome::of(&other_status), Outcome::IN_FLIGHT);
        assert_ne!(Outcome::UNKNOWN, Outcome::NOT_REPLAYABLE);
    }

    #[test]
    fn a_tool_that_refused_did_not_execute() {
        let result =
            json!({ "content": [{ "type": "text", "text": "declined" }], "isError": true });
        let declined = answer(200, json!({ "jsonrpc": "2.0", "id": 1, "result": result }));
        assert_eq!(Outcome::of(&declined), Outcome::Other { status: 200 });
    }
}
