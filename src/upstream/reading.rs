//! A reply being read to its end: what passes at once, what is held back, and how it settles.

use std::fmt;

use bytes::{Bytes, BytesMut};

use super::answer::{Message, RequestId};
use super::event_stream;
use super::failure::AmbiguousCause;
use super::outcome::{Head, NotKept, Outcome, Plan, Rules, UnknownReason, is_examined, plan};
use super::renumber::replace_id;
use crate::claim::Reply;
use crate::claim::json::{Document, JsonError};

/// Applies CONTRACT section 4's second table to a reply as its chunks come in.
///
/// Feed every chunk to [`push`](Self::push), then end with [`finish`](Self::finish) where the body
/// ended cleanly or [`broken`](Self::broken) where it did not. It keeps at most
/// [`Rules::reply_bytes`] bytes.
pub struct Reading {
    status: u16,
    content_type: Option<Bytes>,
    reply_bytes: usize,
    replace_ids: bool,
    /// `None`: the reply is a vendor's, and answers no id.
    id: Option<RequestId>,
    plan: Plan,
    /// The plan of a retryable reply that no second attempt replaces.
    otherwise: Plan,
    kept: BytesMut,
}

/// What the caller may get after a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flow {
    /// Nothing yet: whether the reply can be kept, or answers at all, shows at its end.
    Held,
    /// These bytes, the ones held back before included.
    Pass(Bytes),
}

/// A reply that ended cleanly.
pub struct Finished {
    /// How the claim settles.
    pub outcome: Outcome,
    /// The bytes that were held back to the end and never passed.
    pub held: Bytes,
    /// Whether a second attempt may take the place of this reply: whole, consistent, and of a
    /// status that is retryable.
    pub retryable: bool,
}

impl Reading {
    /// Begins with the head of a reply to the request with this id; to a vendor's request, which
    /// has none, with `None`.
    pub fn start(head: &Head<'_>, rules: &Rules<'_>, id: Option<RequestId>) -> Self {
        let decided = plan(head, rules);
        let expected = match (decided, head.body_len) {
            // Beyond the cap the plan would be another.
            (Plan::Keep | Plan::Record | Plan::Retry, Some(len)) => {
                usize::try_from(len).unwrap_or(0)
            }
            _ => 0,
        };
        Self {
            status: head.status,
            content_type: head.content_type.map(Bytes::copy_from_slice),
            reply_bytes: rules.reply_bytes,
            replace_ids: rules.replace_ids,
            id,
            plan: decided,
            otherwise: match decided {
                Plan::Retry => plan(head, &Rules { may_retry: false, ..*rules }),
                decided => decided,
            },
            kept: BytesMut::with_capacity(expected),
        }
    }

    /// What the head decided, or the body's size since.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Whether the reply is held back to its end.
    pub fn holds(&self) -> bool {
        matches!(self.plan, Plan::Keep | Plan::Retry)
    }

    /// Takes the next chunk of the body.
    pub fn push(&mut self, chunk: Bytes) -> Flow {
        if !self.holds() && self.plan != Plan::Record {
            return Flow::Pass(chunk);
        }
        let fits = chunk.len() <= self.reply_bytes - self.kept.len();
        // Copied, because a chunk is a slice that would keep the connection's whole read buffer
        // alive as long as the record.
        match (self.plan, fits) {
            (Plan::Keep | Plan::Retry, true) => {
                self.kept.extend_from_slice(&chunk);
                Flow::Held
            }
            (_, true) => {
                self.kept.extend_from_slice(&chunk);
                Flow::Pass(chunk)
            }
            (before, false) => {
                self.plan = match before {
                    Plan::Retry => self.otherwise,
                    _ => Plan::NotReplayable(NotKept::TooLarge),
                };
                let mut held = std::mem::take(&mut self.kept);
                if before == Plan::Record || held.is_empty() {
                    return Flow::Pass(chunk);
                }
                held.extend_from_slice(&chunk);
                Flow::Pass(held.freeze())
            }
        }
    }

    /// Settles after a clean end of the body.
    pub fn finish(mut self) -> Finished {
        let kept = std::mem::take(&mut self.kept).freeze();
        let retryable = self.plan == Plan::Retry && self.is_consistent(&kept);
        let held = if self.holds() { kept.clone() } else { Bytes::new() };
        if self.plan == Plan::Retry {
            self.plan = self.otherwise;
        }
        let outcome = match self.plan {
            Plan::Release => Outcome::Released,
            // What is retryable is not accepted, so nothing is left to be kept of it.
            Plan::Unknown | Plan::Retry => Outcome::Unknown(UnknownReason::Status),
            Plan::NotReplayable(why) => Outcome::NotReplayable(why),
            Plan::Keep => match self.judge(&kept) {
                Some(why) => Outcome::Unknown(why),
                None => self.complete(&kept),
            },
            Plan::Record => match self.id.as_ref().map(|id| event_stream::obstacle(&kept, id)) {
                Some(Some(outcome)) => outcome,
                Some(None) => self.complete(&kept),
                // A vendor's stream answers no call.
                None => Outcome::NotReplayable(NotKept::Stream),
            },
        };
        Finished { outcome, held, retryable }
    }

    /// Settles after the exchange broke off: unknown, whatever the status said (CONTRACT section
    /// 11).
    pub fn broken(self, cause: AmbiguousCause) -> Outcome {
        Outcome::Unknown(UnknownReason::Broken(cause))
    }

    fn judge(&self, body: &[u8]) -> Option<UnknownReason> {
        if !is_examined(self.status, self.content_type.as_deref(), body) {
            return None;
        }
        // Read as strictly as a request: what two readers could read differently (a repeated name)
        // is not certain to be the answer.
        let document = match Document::parse(body) {
            Ok(document) => document,
            Err(JsonError::Truncated(_) | JsonError::Empty(_)) => {
                return Some(UnknownReason::CutShort);
            }
            Err(_) => return Some(UnknownReason::NotJson),
        };
        match self.id.as_ref().map(|id| id.classify(document.root())) {
            None | Some(Message::Answer) => None,
            Some(_) => Some(UnknownReason::OtherId),
        }
    }

    /// Whether a body is what its media type says: one that is not may be a fragment.
    fn is_consistent(&self, body: &[u8]) -> bool {
        !is_examined(self.status, self.content_type.as_deref(), body)
            || Document::parse(body).is_ok()
    }

    fn complete(&self, body: &Bytes) -> Outcome {
        let renumbers = || replace_id(body, self.content_type.as_deref(), "0").is_some();
        if self.replace_ids && !renumbers() {
            return Outcome::NotReplayable(NotKept::Unclear);
        }
        let content_type = self.content_type.clone();
        match Reply::new(self.status, content_type, body.clone(), self.reply_bytes) {
            Ok(reply) => Outcome::Complete(reply),
            Err(_) => Outcome::NotReplayable(NotKept::TooLarge),
        }
    }
}

/// The body is a payload and stays out of logs.
impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("status", &self.status)
            .field("plan", &self.plan)
            .field("kept", &self.kept.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: usize = 64;
    const RULES: Rules<'static> = Rules {
        reply_bytes: CAP,
        statuses: None,
        may_retry: false,
        record_streams: false,
        replace_ids: false,
    };
    const RECORD: Rules<'static> = Rules { record_streams: true, ..RULES };
    const CALL: Rules<'static> = Rules { replace_ids: true, ..RECORD };

    const JSON: Option<&str> = Some("application/json");
    const STREAM: Option<&str> = Some("text/event-stream");
    const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    const EVENT: &str = "data: {\"id\":1,\"result\":{}}\n\n";

    fn begin(status: u16, content_type: Option<&str>, rules: Rules<'_>) -> Reading {
        let head = Head {
            status,
            content_type: content_type.map(str::as_bytes),
            encoded: false,
            body_len: None,
        };
        let id = Document::parse(b"1").expect("an id");
        Reading::start(&head, &rules, Some(RequestId::new(id.root())))
    }

    fn settle(status: u16, content_type: Option<&str>, rules: Rules<'_>, body: &[u8]) -> Outcome {
        let mut reading = begin(status, content_type, rules);
        // The smallest chunks there are: no verdict may depend on where a body is cut.
        for byte in body {
            reading.push(Bytes::copy_from_slice(&[*byte]));
        }
        reading.finish().outcome
    }

    fn complete(status: u16, content_type: Option<&str>, body: &[u8]) -> Outcome {
        let content_type = content_type.map(|value| Bytes::from(value.to_owned()));
        let body = Bytes::copy_from_slice(body);
        Outcome::Complete(Reply::new(status, content_type, body, CAP).expect("within the cap"))
    }

    #[test]
    fn replies_that_are_kept_byte_for_byte() {
        for (status, content_type, body) in [
            (200, JSON, ANSWER.as_bytes()),
            (201, Some("Application/JSON;charset=utf-8"), b" {\"id\":1.0,\"result\":1} \n"),
            (200, JSON, b"{\"id\":1,\"error\":{\"code\":-32603}}"),
            (200, JSON, b"{\"id\":1,\"result\":{\"isError\":true}}"),
            (200, JSON, b"{\"id\":null,\"error\":{\"code\":-32700}}"),
            (200, Some("application/octet-stream"), b"\xff\x00\xfe"),
            (200, None, b"\xff"),
            (200, Some("text/html"), b"<h1>portal"),
            (200, Some("application/problem+json"), b"{\"cut"),
            (200, None, b""),
            (200, Some("text/plain"), b""),
            (202, None, b""),
            (202, JSON, b""),
            (204, None, b""),
            (204, JSON, b""),
        ] {
            let expected = complete(status, content_type, body);
            assert_eq!(settle(status, content_type, RULES, body), expected, "{content_type:?}");
            assert_eq!(settle(status, content_type, CALL, body), expected, "{content_type:?}");
        }
    }

    #[test]
    fn json_that_is_not_the_complete_answer_is_unknown() {
        for (body, why) in [
            (&b""[..], UnknownReason::CutShort),
            (b"  ", UnknownReason::CutShort),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"resu", UnknownReason::CutShort),
            (b"{\"id\":1,\"result\":{}}{", UnknownReason::NotJson),
            (b"{\"id\":1,\"result\":\"\xff\"}", UnknownReason::NotJson),
            (b"{\"id\":2,\"id\":1,\"result\":{}}", UnknownReason::NotJson),
            (b"{\"id\":2,\"result\":{}}", UnknownReason::OtherId),
            (b"{\"id\":\"1\",\"result\":{}}", UnknownReason::OtherId),
            (b"{\"id\":null,\"result\":{}}", UnknownReason::OtherId),
            (b"{\"id\":1,\"method\":\"roots/list\"}", UnknownReason::OtherId),
            (b"[{\"id\":1,\"result\":{}}]", UnknownReason::OtherId),
            (b"{}", UnknownReason::OtherId),
            (b"1", UnknownReason::OtherId),
        ] {
            let text = String::from_utf8_lossy(body);
            assert_eq!(settle(200, JSON, RULES, body), Outcome::Unknown(why), "{text}");
        }
    }

    #[test]
    fn bodies_of_other_statuses_are_not_examined() {
        for body in ["", ANSWER, "{\"cut", "{\"id\":2}"] {
            let body = body.as_bytes();
            assert_eq!(settle(404, JSON, RULES, body), Outcome::Released);
            for status in [101, 307, 500, 503] {
                let expected = Outcome::Unknown(UnknownReason::Status);
                assert_eq!(settle(status, JSON, RULES, body), expected);
            }
        }
    }

    #[test]
    fn the_cap_is_inclusive_and_beyond_it_nothing_is_examined() {
        for content_type in [None, JSON, STREAM] {
            let over = vec![b'x'; CAP + 1];
            let expected = Outcome::NotReplayable(NotKept::TooLarge);
            assert_eq!(settle(200, content_type, RECORD, &over), expected);
        }
        let full = vec![b'x'; CAP];
        assert_eq!(settle(200, None, RULES, &full), complete(200, None, &full));
        let padded = format!("{EVENT}: {}\n", "x".repeat(CAP - EVENT.len() - 3));
        assert_eq!(padded.len(), CAP);
        let expected = complete(200, STREAM, padded.as_bytes());
        assert_eq!(settle(200, STREAM, RECORD, padded.as_bytes()), expected);
    }

    #[test]
    fn failure_beats_everything_else() {
        for (status, content_type) in [(200, JSON), (200, STREAM), (404, JSON), (500, None)] {
            for cause in [AmbiguousCause::Timeout, AmbiguousCause::Disconnected] {
                let mut reading = begin(status, content_type, RECORD);
                reading.push(Bytes::from_static(EVENT.as_bytes()));
                let expected = Outcome::Unknown(UnknownReason::Broken(cause));
                assert_eq!(reading.broken(cause), expected);
                let mut over = begin(status, content_type, RECORD);
                over.push(Bytes::from(vec![b'x'; CAP + 1]));
                assert_eq!(over.broken(cause), expected);
            }
        }
    }

    #[test]
    fn streams_are_recorded_where_that_is_asked_for() {
        let body = EVENT.as_bytes();
        let stream = Outcome::NotReplayable(NotKept::Stream);
        assert_eq!(settle(200, STREAM, RULES, body), stream);
        assert_eq!(settle(200, STREAM, RULES, b""), stream, "not examined");
        assert_eq!(settle(200, STREAM, RECORD, body), complete(200, STREAM, body));
        assert_eq!(settle(200, STREAM, CALL, body), complete(200, STREAM, body));
        assert_eq!(settle(200, STREAM, RECORD, b""), Outcome::Unknown(UnknownReason::NoResponse));
    }

    #[test]
    fn a_recorded_stream_whose_id_could_not_be_replaced_is_not_kept() {
        let two = format!("data: {{\"id\":2,\"result\":{{}}}}\n\n{EVENT}");
        let body = two.as_bytes();
        assert_eq!(settle(200, STREAM, RECORD, body), complete(200, STREAM, body));
        assert_eq!(settle(200, STREAM, CALL, body), Outcome::NotReplayable(NotKept::Unclear));
    }

    #[test]
    fn a_kept_reply_is_held_and_passes_whole_once_it_is_over_the_cap() {
        let mut reading = begin(200, JSON, RULES);
        assert_eq!(reading.push(Bytes::from(vec![b'a'; CAP])), Flow::Held);
        let mut all = vec![b'a'; CAP];
        all.push(b'b');
        assert_eq!(reading.push(Bytes::from_static(b"b")), Flow::Pass(all.into()));
        let next = Bytes::from_static(b"c");
        assert_eq!(reading.push(next.clone()), Flow::Pass(next));
        assert_eq!(reading.plan(), Plan::NotReplayable(NotKept::TooLarge));
    }

    #[test]
    fn what_was_held_comes_out_at_the_end_whatever_the_outcome() {
        for body in [ANSWER, "{\"cut", "{\"id\":2,\"result\":{}}", ""] {
            let mut reading = begin(200, JSON, RULES);
            assert_eq!(reading.push(Bytes::from(body)), Flow::Held);
            assert_eq!(reading.finish().held, body);
        }
        let mut recorded = begin(200, STREAM, RECORD);
        recorded.push(Bytes::from(EVENT));
        assert!(recorded.finish().held.is_empty(), "it has passed already");
    }

    #[test]
    fn what_is_not_kept_passes_as_it_comes() {
        for (status, content_type, rules) in
            [(200, STREAM, RECORD), (200, STREAM, RULES), (404, JSON, RULES), (500, JSON, RULES)]
        {
            let mut reading = begin(status, content_type, rules);
            for chunk in [&b"one"[..], b"two"] {
                let chunk = Bytes::from_static(chunk);
                assert_eq!(reading.push(chunk.clone()), Flow::Pass(chunk), "{status}");
            }
            let large = Bytes::from(vec![b'x'; CAP]);
            assert_eq!(reading.push(large.clone()), Flow::Pass(large), "{status}");
        }
    }

    #[test]
    fn debug_output_holds_no_payload() {
        let mut reading = begin(200, JSON, RULES);
        reading.push(Bytes::from_static(b"secret"));
        assert!(!format!("{reading:?}").contains("secret"));
    }
}
