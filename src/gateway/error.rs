//! Refusals: what the gateway itself answers (CONTRACT section 6).
//!
//! Every refusal is a JSON-RPC error with the request's own id, a stable `reason`, a sentence that
//! says what to do, and, where it helps, an `advice` and a `Retry-After`. No refusal holds a raw
//! key, a payload, a path of the machine or a backtrace.
//!
//! Those about the caller and the key are here, the others in files of their own.

mod outcome;
mod receipts;
mod request;

mod oauth;

use std::borrow::Cow;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use serde::Serialize;

use crate::claim::{KeyError, SlotKey};
use crate::identity::{AuthError, MtlsError};
use crate::policy::Reason;

/// What a caller may safely do next (CONTRACT section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Send the same call with the same key again.
    RetrySameKey,
    /// If another call was meant, give it a key of its own.
    NewKey,
    /// Look at the tool's own state before anything else.
    Reconcile,
    /// The request itself has to change.
    FixRequest,
}

impl Advice {
    fn as_str(self) -> &'static str {
        match self {
            Self::RetrySameKey => "retry_same_key",
            Self::NewKey => "new_key",
            Self::Reconcile => "reconcile",
            Self::FixRequest => "fix_request",
        }
    }
}

/// A refusal by the gateway.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// The stable machine-readable name.
    pub reason: &'static str,
    code: i32,
    advice: Advice,
    message: Cow<'static, str>,
    retry_after_s: Option<u64>,
    challenge: Option<Box<str>>,
    allow: Option<Allow>,
    key_hash: Option<SlotKey>,
    close: bool,
}

/// The methods that a target takes. One byte, as every stage hands refusals on by value.
#[derive(Debug, Clone, Copy)]
enum Allow {
    Post,
    Reading,
}

impl Allow {
    fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Reading => "GET, HEAD",
        }
    }
}

/// The JSON-RPC code of HTTP-shaped refusals is this minus the status.
const CODE_BASE: i32 = -31000;
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;
const HEADER_MISMATCH: i32 = -32020;

impl Refusal {
    fn new(
        status: u16,
        reason: &'static str,
        advice: Advice,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            reason,
            code: CODE_BASE - i32::from(status),
            advice,
            message: message.into(),
            retry_after_s: None,
            challenge: None,
            allow: None,
            key_hash: None,
            close: false,
        }
    }

    fn code(mut self, code: i32) -> Self {
        self.code = code;
        self
    }

    fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds.max(1));
        self
    }

    fn challenge(mut self, challenge: impl Into<Box<str>>) -> Self {
        self.challenge = Some(challenge.into());
        self
    }

    /// The methods that the target takes, which a 405 has to name (RFC 9110, 15.5.6).
    fn allow(mut self, methods: Allow) -> Self {
        self.allow = Some(methods);
        self
    }

    /// Closes the connection after the answer: what follows on it cannot be trusted to be the
    /// start of a request.
    pub fn close(mut self) -> Self {
        self.close = true;
        self
    }

    /// Names the slot by its truncated hash.
    pub fn with_key_hash(mut self, slot: SlotKey) -> Self {
        self.key_hash = Some(slot);
        self
    }

    /// Whether the idempotency metric counts this as `rejected` (CONTRACT section 11): the
    /// `idempotency_*` 400s and 503s.
    pub fn counts_as_rejected(&self) -> bool {
        self.reason.starts_with("idempotency_")
            && matches!(self.status, StatusCode::BAD_REQUEST | StatusCode::SERVICE_UNAVAILABLE)
    }

    /// The response. `id` is the request's JSON-RPC id as it was written, or `None` where it could
    /// not be read.
    pub fn response(&self, id: Option<&str>) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        response.insert_header((header::CONTENT_TYPE, "application/json"));
        if let Some(seconds) = self.retry_after_s {
            response.insert_header((header::RETRY_AFTER, seconds));
        }
        if let Some(challenge) = self.challenge.as_deref()
            && let Ok(challenge) = HeaderValue::from_str(challenge)
        {
            response.insert_header((header::WWW_AUTHENTICATE, challenge));
        }
        if let Some(methods) = self.allow {
            response.insert_header((header::ALLOW, methods.as_str()));
        }
        if self.close {
            response.force_close();
        }
        response.body(self.body(id))
    }

    /// The body of [`Refusal::response`].
    pub fn body(&self, id: Option<&str>) -> String {
        let error = ErrorObject {
            code: self.code,
            message: &self.message,
            data: ErrorData {
                reason: self.reason,
                advice: self.advice.as_str(),
                retry_after: self.retry_after_s,
                key_hash: self.key_hash.map(|slot| format!("{slot:.16}")),
            },
        };
        let error = serde_json::to_string(&error).unwrap_or_else(|_| "{}".to_owned());
        // The id is spliced in as it was written: a number keeps its digits.
        format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, id.unwrap_or("null"))
    }
}

#[derive(Serialize)]
struct ErrorObject<'r> {
    code: i32,
    message: &'r str,
    data: ErrorData,
}

#[derive(Serialize)]
struct ErrorData {
    reason: &'static str,
    advice: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hash: Option<String>,
}

/// Who asks, and whether they may.
impl Refusal {
    /// The credential is missing or wrong.
    pub fn unauthenticated(error: AuthError) -> Self {
        let message: Cow<'static, str> = match error {
            AuthError::MissingCredential => {
                "The request carries no credential; send `Authorization: Bearer` and your key or token."
                    .into()
            }
            AuthError::InvalidToken => {
                "The bearer token is not valid for this server; ask its operator for one that is."
                    .into()
            }
            AuthError::UnreadableHeader(name) => {
                format!("The header {name} names nobody; send it once, in visible ASCII.").into()
            }
            AuthError::Token(fault) => return Self::token(fault),
            AuthError::InsufficientScope => return Self::insufficient_scope(),
            AuthError::IssuerUnavailable => return Self::issuer_unavailable(),
            AuthError::Mtls(error) => explain_certificate(error).into(),
        };
        Self::new(401, error.reason(), Advice::FixRequest, message).challenge(match error {
            AuthError::InvalidToken => r#"Bearer error="invalid_token""#,
            AuthError::Mtls(_) => "ClientCertificate",
            _ => "Bearer",
        })
    }

    /// The policy says no.
    pub fn unauthorized(status: u16, reason: Reason) -> Self {
        let message = format!("The policy does not allow this call: {}.", explain(reason));
        Self::new(status, reason.as_str(), Advice::FixRequest, message).challenge(match status {
            403 => r#"Bearer error="insufficient_scope""#,
            _ => "Bearer",
        })
    }
}

/// What a person is told about a certificate that names no caller.
fn explain_certificate(error: MtlsError) -> &'static str {
    match error {
        MtlsError::NoCertificate => {
            "The connection has no client certificate; connect with the one of your session."
        }
        MtlsError::Expired => {
            "The connection's client certificate has ended; connect again with a valid one."
        }
        MtlsError::NotTheIngress => {
            "Only the ingress may name a caller in a header; leave the header out."
        }
        MtlsError::NotNamed => "The ingress named no caller; let it set its header.",
        MtlsError::InvalidId => {
            "The certificate does not name one session of this server's trust domain; use one whose \
             only URI is that session's SPIFFE id."
        }
        MtlsError::Session(Reason::SessionRevoked) => {
            "The certificate's session was revoked; start a new one."
        }
        MtlsError::Session(Reason::SessionExpired) => {
            "The certificate's session has expired; start a new one."
        }
        MtlsError::Session(_) => "The certificate's session is unknown here; start a new one.",
    }
}

/// What a person is told about a decision of the policy.
fn explain(reason: Reason) -> &'static str {
    match reason {
        Reason::Allowed => "ask its operator",
        Reason::MissingIdentity => "the caller is not identified; authenticate",
        Reason::MissingSession => "it needs a session; name yours in the session header",
        Reason::SessionNotFound => "the named session is not one of yours; start a new one",
        Reason::SessionRevoked => "the session was revoked; start a new one",
        Reason::SessionExpired => "the session has expired; start a new one",
        Reason::NoMatchingGrant => "no grant names you; ask its operator for one",
        Reason::ToolDenied => "a rule denies this tool",
        Reason::ToolNotGranted => "none of your grants covers this tool",
        Reason::ToolSideEffectUnknown => "it does not say what this tool does; ask its operator",
        Reason::SideEffectNotAllowed => "none of your grants allows what this tool does",
        Reason::TrustTooLow => "this tool needs more trust than your grant and session have",
        Reason::ToolEffectNotIdempotent => {
            "it writes where nobody may write without a vendor that recognises a repeated call; ask \
             its operator"
        }
    }
}

/// The key (CONTRACT section 3, "Key sources").
impl Refusal {
    /// A key that cannot be read: an error, never "no key".
    pub fn key_invalid(error: &KeyError) -> Self {
        Self::key_invalid_because(format!("The idempotency key is not valid: {error}."))
    }

    /// Several sources that disagree, several lines, or a value that is not a string.
    pub fn key_invalid_because(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, "idempotency_key_invalid", Advice::FixRequest, message)
    }

    /// A key where no guarantee exists.
    pub fn key_unsupported() -> Self {
        Self::new(
            400,
            "idempotency_unsupported_request",
            Advice::FixRequest,
            "An Idempotency-Key works with a tools/call request in application/json only, on a \
             server that takes keys; send this request without it.",
        )
    }

    /// A key without a verified caller.
    pub fn key_without_identity() -> Self {
        Self::new(
            400,
            "idempotency_requires_verified_identity",
            Advice::FixRequest,
            "An Idempotency-Key needs a caller whose identity this gateway verified; authenticate, \
             or send the call without a key.",
        )
    }

    /// The session's certificates stood for another caller before, who may have records.
    pub fn session_rebound() -> Self {
        Self::new(
            409,
            "session_rebound",
            Advice::Reconcile,
            "This session belonged to another caller before, so its earlier calls cannot be found \
             any more; look at the tool's own state, then use a session of another name.",
        )
    }

    /// The server has no uid, or the store cannot be reached.
    pub fn key_unavailable(message: &'static str) -> Self {
        Self::new(503, "idempotency_unavailable", Advice::RetrySameKey, message).retry_after(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::CapacityLimit;

    fn body_of(refusal: &Refusal, id: Option<&str>) -> serde_json::Value {
        serde_json::from_str(&refusal.body(id)).expect("a refusal is JSON")
    }

    #[test]
    fn the_code_is_minus_31000_minus_the_status_except_where_json_rpc_has_its_own() {
        let cases = [
            (Refusal::conflict(), -31409),
            (Refusal::capacity(CapacityLimit::ScopeEntries), -31429),
            (Refusal::unreachable(), -31502),
            (Refusal::key_unsupported(), -31400),
            (Refusal::batch(), -32600),
            (Refusal::invalid_params(), -32602),
            (Refusal::header_mismatch("m"), -32020),
        ];
        for (refusal, code) in cases {
            assert_eq!(body_of(&refusal, None)["error"]["code"], code, "{}", refusal.reason);
        }
    }

    #[test]
    fn the_id_is_echoed_as_it_was_written() {
        let text = Refusal::conflict().body(Some("9007199254740993"));
        assert!(text.starts_with(r#"{"jsonrpc":"2.0","id":9007199254740993,"#), "{text}");
        assert!(body_of(&Refusal::conflict(), None)["id"].is_null());
    }

    #[test]
    fn only_in_flight_and_capacity_of_the_outcomes_say_when_to_come_back() {
        let cases = [
            (Refusal::in_flight(), Some(1), "retry_same_key"),
            (Refusal::capacity(CapacityLimit::StoreEntries), Some(1), "retry_same_key"),
            (Refusal::conflict(), None, "new_key"),
            (Refusal::outcome_unknown(), None, "reconcile"),
            (Refusal::not_replayable(), None, "reconcile"),
        ];
        for (refusal, seconds, advice) in cases {
            let data = &body_of(&refusal, None)["error"]["data"];
            assert_eq!(data["retry_after"].as_u64(), seconds, "{}", refusal.reason);
            assert_eq!(data["advice"], advice, "{}", refusal.reason);
        }
    }

    #[test]
    fn rejected_is_the_idempotency_400s_and_503s() {
        assert!(Refusal::key_unsupported().counts_as_rejected());
        assert!(Refusal::key_unavailable("x").counts_as_rejected());
        assert!(!Refusal::conflict().counts_as_rejected());
        assert!(!Refusal::batch().counts_as_rejected());
        assert!(!Refusal::busy().counts_as_rejected());
    }
}
