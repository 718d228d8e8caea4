//! From what a request shows to who calls (CONTRACT sections 2 and 9).
//!
//! [`authenticate`] follows one server's [`Auth`] rules; in mode `oauth` a [`Verifier`] does, which
//! may have to ask the issuer. [`in_mode`] adds observe mode, in which a failed authentication is an
//! anonymous caller instead of a refusal.

mod bearer;
mod governance;
mod mtls;
mod oauth;
mod principal;
mod spiffe;

use std::sync::Arc;

use actix_web::http::header::HeaderMap;
use jiff::Timestamp;

pub use governance::{AGENT_HEADER, HUMAN_HEADER, TEAM_HEADER, session_name};
pub use mtls::{MtlsError, Peer};
pub use oauth::{
    Authentication, Issuers, MAX_TOKEN_BYTES, Now, TokenFault, Verifier, is_token_in_query,
};
pub use principal::{MAX_SUBJECT_BYTES, Principal, PrincipalError};
pub use spiffe::SpiffeId;

use crate::policy::{ApiKey, Auth, Mode, ServerPolicy, SessionsFile};

/// A principal whose credential this gateway checked itself. Only this module makes one, so a
/// function that takes it cannot be called for a caller who merely claims a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    principal: Principal,
    session: Option<Arc<str>>,
    workspace: Option<Arc<str>>,
}

impl Verified {
    fn new(principal: &Principal) -> Self {
        Self { principal: principal.clone(), session: None, workspace: None }
    }

    /// Whoever holds an API key.
    fn holder(key: &ApiKey) -> Self {
        Self { workspace: key.workspace.clone(), ..Self::new(&key.principal) }
    }

    /// Who it is.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The workspace that the credential selects, in scope `workspace`.
    pub fn workspace(&self) -> Option<&Arc<str>> {
        self.workspace.as_ref()
    }

    /// The governed session that the credential itself names (`mtls`); no header is asked then.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }
}

/// What a request and its connection show.
#[derive(Debug, Clone, Copy)]
pub struct Credentials<'r> {
    /// The request's headers.
    pub headers: &'r HeaderMap,
    /// The verified client certificate of the connection, if it has one.
    pub peer: Option<&'r Peer>,
    /// The bindings of the sessions file, of this moment.
    pub sessions: &'r SessionsFile,
    /// The present.
    pub now: Timestamp,
}

/// Who sent a request, and how far that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// The gateway checked a credential (`api_key`, `oauth`, `mtls`), or the operator configured the only user of a
    /// loopback listener (`static`). The only kind that may use an idempotency key.
    Verified(Verified),
    /// The request's own headers say so, and nobody checked them (`header`).
    Delegated(Principal),
    /// Nobody is named.
    Anonymous,
}

impl Identity {
    /// The caller that authorization matches grants against.
    pub fn principal(&self) -> Option<&Principal> {
        match self {
            Self::Verified(verified) => Some(&verified.principal),
            Self::Delegated(principal) => Some(principal),
            Self::Anonymous => None,
        }
    }

    /// The caller as a scope of idempotency keys may name it.
    pub fn verified(&self) -> Option<&Verified> {
        match self {
            Self::Verified(verified) => Some(verified),
            Self::Delegated(_) | Self::Anonymous => None,
        }
    }
}

/// Why a request could not be authenticated. The answer is 401 with `WWW-Authenticate`, unless a
/// variant says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No credential was sent.
    #[error("the request carries no credential: send `Authorization: Bearer <key>`")]
    MissingCredential,
    /// A credential was sent that is not one of this server's.
    #[error("the bearer token is not valid for this server")]
    InvalidToken,
    /// A governance header comes twice or is not made of visible ASCII characters.
    #[error("the header `{0}` must come once, in visible ASCII characters")]
    UnreadableHeader(&'static str),
    /// An access token that is not valid here.
    #[error(transparent)]
    Token(#[from] TokenFault),
    /// A valid access token without a scope that the server asks for: 403.
    #[error("the access token lacks a scope that this server asks for")]
    InsufficientScope,
    /// The issuer of the access token does not answer: 503.
    #[error("the issuer of the access token does not answer")]
    IssuerUnavailable,
    /// Mode `mtls`.
    #[error(transparent)]
    Mtls(#[from] MtlsError),
}

impl AuthError {
    /// The stable machine-readable name (CONTRACT section 6).
    pub const fn reason(self) -> &'static str {
        match self {
            Self::MissingCredential | Self::UnreadableHeader(_) => "missing_identity",
            Self::InvalidToken => "invalid_token",
            Self::Token(fault) => fault.reason(),
            Self::InsufficientScope => "insufficient_scope",
            Self::IssuerUnavailable => "issuer_unavailable",
            Self::Mtls(error) => error.reason(),
        }
    }
}

/// Who sent a request, by the server's rules.
///
/// # Errors
///
/// A credential that is missing, invalid or sent twice where the mode needs one, and governance
/// headers that cannot be read in mode `header`. Absent governance headers are no error: the
/// caller is anonymous, and authorization decides. In mode `oauth` only a [`Verifier`] can tell, so
/// nobody is let in here.
pub fn authenticate(
    policy: &ServerPolicy,
    credentials: &Credentials<'_>,
) -> Result<Identity, AuthError> {
    let headers = credentials.headers;
    match &policy.auth {
        Auth::ApiKey(keys) => {
            bearer::verify(keys, headers).map(|key| Identity::Verified(Verified::holder(key)))
        }
        Auth::OAuth(_) => Err(AuthError::IssuerUnavailable),
        Auth::Mtls(rules) => Ok(Identity::Verified(mtls::verify(rules, policy, credentials)?)),
        Auth::Static(caller) => Ok(Identity::Verified(Verified::new(caller))),
        Auth::Header => {
            Ok(governance::delegated(headers)?.map_or(Identity::Anonymous, Identity::Delegated))
        }
        Auth::None => Ok(Identity::Anonymous),
    }
}

/// An outcome under a server's policy: in observe mode nothing is refused here, a caller without a
/// valid credential is anonymous (CONTRACT section 9).
///
/// # Errors
///
/// The outcome's, in every other mode.
pub fn in_mode(mode: Mode, outcome: Result<Identity, AuthError>) -> Result<Identity, AuthError> {
    match (outcome, mode) {
        (Err(_), Mode::Observe) => Ok(Identity::Anonymous),
        (outcome, _) => outcome,
    }
}

#[cfg(test)]
mod tests;
