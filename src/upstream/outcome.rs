//! How the first execution settles: CONTRACT section 4's second table, with section 11's
//! precedence, as far as the head of the reply decides.

use hyper::HeaderMap;
use hyper::header;

use super::failure::AmbiguousCause;
use super::headers::elements;
use super::media_type::{is_event_stream, is_json};
use super::statuses::{StatusSet, Statuses};
use crate::claim::Reply;

/// What of a reply's head matters for settling.
#[derive(Debug, Clone, Copy)]
pub struct Head<'h> {
    /// The status.
    pub status: u16,
    /// The `Content-Type` as received.
    pub content_type: Option<&'h [u8]>,
    /// Whether a `Content-Encoding` other than identity was applied.
    pub encoded: bool,
    /// The length of the body, where the head tells it.
    pub body_len: Option<u64>,
}

impl<'h> Head<'h> {
    /// Reads a head. `body_len` is [`Body::expected_len`](super::Body::expected_len).
    pub fn read(status: u16, headers: &'h HeaderMap, body_len: Option<u64>) -> Self {
        Self {
            status,
            content_type: headers.get(header::CONTENT_TYPE).map(header::HeaderValue::as_bytes),
            encoded: elements(headers, header::CONTENT_ENCODING)
                .any(|coding| !coding.eq_ignore_ascii_case(b"identity")),
            body_len,
        }
    }
}

/// The rules of the server and the store that a reply is settled by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules<'e> {
    /// The most bytes of body that are kept.
    pub reply_bytes: usize,
    /// What the tool's effect spec makes of statuses; `None` for the contract's own table.
    pub statuses: Option<&'e Statuses>,
    /// Whether a retryable status may be answered by a second attempt.
    pub may_retry: bool,
    /// `streams: record`.
    pub record_streams: bool,
    /// `fingerprint: call`: replays carry the retry's id, so its place must be certain.
    pub replace_ids: bool,
}

/// What the head alone decides. A body that breaks off makes each of these unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// 4xx: rejected for certain, a retry runs normally.
    Release,
    /// A status that does not tell whether the tool ran.
    Unknown,
    /// A 2xx that cannot be kept.
    NotReplayable(NotKept),
    /// A 2xx that is kept if its whole body fits and answers the request.
    Keep,
    /// A 2xx event stream to be recorded while it passes.
    Record,
    /// A retryable status: held back, since a second attempt may take its place.
    Retry,
}

/// What a status says about the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Accepted,
    Rejected,
    Unknown,
}

impl Rules<'_> {
    fn class(&self, status: u16) -> Class {
        let is = |set: fn(&Statuses) -> &StatusSet, range: std::ops::RangeInclusive<u16>| {
            self.statuses.map_or(range.contains(&status), |own| set(own).contains(status))
        };
        if is(|own| &own.accepted, 200..=299) {
            Class::Accepted
        } else if is(|own| &own.rejected, 400..=499) {
            Class::Rejected
        } else {
            Class::Unknown
        }
    }

    fn retries(&self, status: u16) -> bool {
        self.may_retry && self.statuses.is_some_and(|own| own.retryable.contains(status))
    }
}

/// Decides by the head, in the order of CONTRACT section 11: the status sets, then what cannot be
/// kept. Every status beside 2xx and 4xx is unknown, the ones that HTTP does not define included.
///
/// A retryable status is held back as far as it fits, and else settles as any other of its class.
pub fn plan(head: &Head<'_>, rules: &Rules<'_>) -> Plan {
    let too_large = head.body_len.is_some_and(|len| len > rules.reply_bytes as u64);
    if rules.retries(head.status) && !too_large {
        return Plan::Retry;
    }
    let stream = is_event_stream(head.content_type);
    match rules.class(head.status) {
        Class::Accepted if head.encoded => Plan::NotReplayable(NotKept::Encoded),
        Class::Accepted if stream && !rules.record_streams => Plan::NotReplayable(NotKept::Stream),
        Class::Accepted if too_large => Plan::NotReplayable(NotKept::TooLarge),
        Class::Accepted if stream => Plan::Record,
        Class::Accepted => Plan::Keep,
        Class::Rejected => Plan::Release,
        Class::Unknown => Plan::Unknown,
    }
}

/// Whether the complete body of a kept 2xx must be a JSON answer to the request: where the media
/// type says JSON, unless there is no body and its status allows that (202, 204, 205).
pub(super) fn is_examined(status: u16, content_type: Option<&[u8]>, body: &[u8]) -> bool {
    let bodiless = body.is_empty() && matches!(status, 202 | 204 | 205);
    is_json(content_type) && !bodiless
}

/// How a claim settles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Completed with this reply.
    Complete(Reply),
    /// Freed: a retry runs normally.
    Released,
    /// A tombstone: nobody can say whether the tool ran.
    Unknown(UnknownReason),
    /// A tombstone: the tool ran and answered, but its reply is not kept.
    NotReplayable(NotKept),
}

/// Why an outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnknownReason {
    /// The status tells nothing: 5xx, 3xx, 1xx.
    #[error("the status does not tell whether the tool ran")]
    Status,
    /// It is a rejection, after an attempt that may have taken effect.
    #[error("an attempt before the rejected one may have taken effect")]
    Before,
    /// The exchange broke off.
    #[error("{0}")]
    Broken(AmbiguousCause),
    /// The body says it is JSON and ends before the value does.
    #[error("the reply ends in the middle of its JSON")]
    CutShort,
    /// The body says it is JSON and is no strict JSON.
    #[error("the reply is not strict JSON")]
    NotJson,
    /// The body is JSON and does not answer this request's id.
    #[error("the reply does not answer this request")]
    OtherId,
    /// The event stream ended without the response.
    #[error("the event stream ended without the response")]
    NoResponse,
}

/// Why a reply is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    /// It has a content coding.
    #[error("the reply has a content coding")]
    Encoded,
    /// It is an event stream, and streams are not recorded here.
    #[error("the reply is an event stream")]
    Stream,
    /// Its body is larger than `reply_bytes`.
    #[error("the reply is larger than `reply_bytes`")]
    TooLarge,
    /// The recorded stream asked the client something; a replay could not take the answer.
    #[error("the event stream holds a request to the client")]
    ServerRequest,
    /// The recorded stream holds something that replaying could not repeat for certain: several
    /// responses, or a message that cannot be read.
    #[error("the event stream holds more than one plain response")]
    Unclear,
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules<'static> = Rules {
        reply_bytes: 100,
        statuses: None,
        may_retry: false,
        record_streams: false,
        replace_ids: false,
    };
    const RECORD: Rules<'static> = Rules { record_streams: true, ..RULES };
    const JSON: Option<&[u8]> = Some(b"application/json");
    const STREAM: Option<&[u8]> = Some(b"text/event-stream; charset=utf-8");

    fn head(status: u16, content_type: Option<&'static [u8]>) -> Head<'static> {
        Head { status, content_type, encoded: false, body_len: None }
    }

    #[test]
    fn the_status_sets_come_first() {
        for (status, expected) in [
            (100, Plan::Unknown),
            (101, Plan::Unknown),
            (103, Plan::Unknown),
            (199, Plan::Unknown),
            (200, Plan::Keep),
            (201, Plan::Keep),
            (202, Plan::Keep),
            (204, Plan::Keep),
            (299, Plan::Keep),
            (300, Plan::Unknown),
            (304, Plan::Unknown),
            (307, Plan::Unknown),
            (399, Plan::Unknown),
            (400, Plan::Release),
            (404, Plan::Release),
            (417, Plan::Release),
            (429, Plan::Release),
            (499, Plan::Release),
            (500, Plan::Unknown),
            (503, Plan::Unknown),
            (599, Plan::Unknown),
            (600, Plan::Unknown),
            (999, Plan::Unknown),
        ] {
            assert_eq!(plan(&head(status, JSON), &RULES), expected, "{status}");
            if expected != Plan::Keep {
                let large = Head { encoded: true, body_len: Some(101), ..head(status, STREAM) };
                assert_eq!(plan(&large, &RULES), expected, "{status} beats what cannot be kept");
            }
        }
    }

    #[test]
    fn what_a_2xx_cannot_keep() {
        let encoded = |content_type| Head { encoded: true, ..head(200, content_type) };
        let sized = |content_type, len| Head { body_len: Some(len), ..head(200, content_type) };
        for (head, rules, expected) in [
            (encoded(JSON), RULES, Plan::NotReplayable(NotKept::Encoded)),
            (encoded(STREAM), RECORD, Plan::NotReplayable(NotKept::Encoded)),
            (head(200, STREAM), RULES, Plan::NotReplayable(NotKept::Stream)),
            (head(200, STREAM), RECORD, Plan::Record),
            (sized(STREAM, 100), RECORD, Plan::Record),
            (sized(STREAM, 101), RECORD, Plan::NotReplayable(NotKept::TooLarge)),
            (sized(JSON, 99), RULES, Plan::Keep),
            (sized(JSON, 100), RULES, Plan::Keep),
            (sized(JSON, 101), RULES, Plan::NotReplayable(NotKept::TooLarge)),
            (sized(None, 0), RULES, Plan::Keep),
        ] {
            assert_eq!(plan(&head, &rules), expected, "{head:?}");
        }
    }

    #[test]
    fn an_identity_coding_is_none() {
        for (lines, encoded) in [
            (&[][..], false),
            (&["identity"][..], false),
            (&["Identity"], false),
            (&[""], false),
            (&[" , identity"], false),
            (&["gzip"], true),
            (&["identity, br"], true),
            (&["identity", "zstd"], true),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::CONTENT_ENCODING, line.parse().expect("a value"));
            }
            assert_eq!(Head::read(200, &headers, None).encoded, encoded, "{lines:?}");
        }
    }
}
