//! Mode `mtls`: a verified client certificate names a session, and its binding names the caller
//! (CONTRACT section 9).
//!
//! The certificate was verified in the handshake, against the listener's authorities. What it says
//! is read once for each connection, into a [`Peer`]; who it stands for is looked up for each
//! request, so that a revocation bites on connections that are open.

use actix_web::http::header::HeaderMap;
use jiff::Timestamp;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::spiffe::SpiffeId;
use super::{Credentials, Verified};
use crate::policy::{self, MtlsRules, Reason, ServerPolicy};

/// What the verified client certificate of a connection says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The one SPIFFE id; `None` where there is not exactly one URI, or it is no such id.
    id: Option<SpiffeId>,
    /// The last second in which the certificate is valid.
    not_after: Timestamp,
}

impl Peer {
    /// Reads a certificate in DER form, which must have been verified. One that cannot be read
    /// stands for nobody.
    pub fn of(certificate: &[u8]) -> Self {
        let nobody = Self { id: None, not_after: Timestamp::MIN };
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return nobody };
        let end = certificate.validity().not_after.timestamp();
        // A certificate without an end has the last second of the year 9999 (RFC 5280, 4.1.2.5).
        let beyond = if end < 0 { Timestamp::MIN } else { Timestamp::MAX };
        let not_after = Timestamp::from_second(end).unwrap_or(beyond);
        Self { id: only_id(&certificate), not_after }
    }

    /// The last second in which the certificate is valid.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }
}

/// Exactly one URI among the alternative names, which is a SPIFFE id (X509-SVID, section 2).
fn only_id(certificate: &X509Certificate<'_>) -> Option<SpiffeId> {
    let names = certificate.subject_alternative_name().ok()??;
    let mut uris = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    match (uris.next(), uris.next()) {
        (Some(uri), None) => SpiffeId::parse(uri),
        _ => None,
    }
}

/// Why a connection or its request names no caller. The answer is 401.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MtlsError {
    /// The connection has no client certificate.
    #[error("the connection has no client certificate: connect with one")]
    NoCertificate,
    /// The certificate has ended since the handshake.
    #[error("the connection's client certificate has ended: connect anew with a valid one")]
    Expired,
    /// The header of the ingress, from somebody else.
    #[error("the connection is not the ingress's, which alone may name a caller in a header")]
    NotTheIngress,
    /// The ingress named nobody.
    #[error("the ingress named no caller: let it set the header once")]
    NotNamed,
    /// The id is not one of a session of this trust domain.
    #[error(
        "the caller must have exactly one URI name, `spiffe://<trust domain>/ns/<namespace>/\
         session/<name>`, of this server's trust domain"
    )]
    InvalidId,
    /// The session that the id names is not there, or not live.
    #[error("the session of the certificate cannot be used: {}", .0.as_str())]
    Session(Reason),
}

impl MtlsError {
    /// The stable machine-readable name (CONTRACT section 6).
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoCertificate => "missing_client_certificate",
            Self::Expired => "client_certificate_expired",
            Self::NotTheIngress => "untrusted_proxy",
            Self::NotNamed => "missing_verified_identity",
            Self::InvalidId => "invalid_spiffe_identity",
            Self::Session(reason) => reason.as_str(),
        }
    }
}

/// The principal and the session of the caller's id.
pub(super) fn verify(
    rules: &MtlsRules,
    policy: &ServerPolicy,
    credentials: &Credentials<'_>,
) -> Result<Verified, MtlsError> {
    let peer = credentials.peer.ok_or(MtlsError::NoCertificate)?;
    if peer.not_after < credentials.now {
        return Err(MtlsError::Expired);
    }
    let by_ingress = rules.ingress.is_some() && peer.id == rules.ingress;
    let named;
    let id = match by_ingress {
        true => {
            named = forwarded(credentials.headers, rules)?;
            &named
        }
        false if credentials.headers.contains_key(rules.header.as_str()) => {
            return Err(MtlsError::NotTheIngress);
        }
        false => peer.id.as_ref().ok_or(MtlsError::InvalidId)?,
    };
    bound(id, rules, policy, credentials)
}

/// The id in the header of the ingress, which must be one line.
fn forwarded(headers: &HeaderMap, rules: &MtlsRules) -> Result<SpiffeId, MtlsError> {
    let mut lines = headers.get_all(rules.header.as_str());
    let line = lines.next().filter(|line| !line.is_empty()).ok_or(MtlsError::NotNamed)?;
    let text = line.to_str().ok().filter(|_| lines.next().is_none());
    text.and_then(SpiffeId::parse).ok_or(MtlsError::InvalidId)
}

/// The caller whom the binding names that the id names.
fn bound(
    id: &SpiffeId,
    rules: &MtlsRules,
    policy: &ServerPolicy,
    credentials: &Credentials<'_>,
) -> Result<Verified, MtlsError> {
    let (namespace, name) = id
        .session()
        .filter(|_| id.trust_domain() == rules.trust_domain)
        .ok_or(MtlsError::InvalidId)?;
    let binding = Some(name)
        .filter(|_| namespace == policy.namespace)
        .and_then(|name| policy::binding(policy, credentials.sessions, name))
        .ok_or(MtlsError::Session(Reason::SessionNotFound))?;
    policy::live(binding, credentials.now).map_err(MtlsError::Session)?;
    let principal = binding.principal.clone().ok_or(MtlsError::Session(Reason::SessionNotFound))?;
    Ok(Verified { principal, session: Some(binding.name.as_str().into()), workspace: None })
}

#[cfg(test)]
mod tests;
