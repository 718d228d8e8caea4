//! Why an upstream exchange failed, and whether the tool may have run because of it.

/// A failed exchange (CONTRACT sections 4 and 11).
///
/// The two variants are all that a caller needs to settle a claim: [`Failure::Unsent`] releases it,
/// [`Failure::Ambiguous`] makes it a tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Proven: no byte of the request was sent, so the tool cannot have run. A retry is safe.
    #[error("upstream not reached, nothing was sent: {0}")]
    Unsent(UnsentCause),
    /// A byte of the request may have left: the tool may have run. Never retry by machine.
    #[error("upstream failed after the request may have been sent: {0}")]
    Ambiguous(AmbiguousCause),
}

/// Why nothing was sent. All of them are 502 `upstream_unreachable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnsentCause {
    /// Name look-up, TCP and TLS together took longer than the connect time-out.
    #[error(
        "connecting took too long; check the address and the network, or raise `connect_timeout`"
    )]
    Timeout,
    /// The name has no address, or nobody accepts connections there.
    #[error("no connection could be made; check that the upstream runs at the configured address")]
    Connect,
    /// The TLS handshake failed: a certificate that the system does not trust, or no TLS at all.
    #[error(
        "the TLS handshake failed; check the upstream's certificate and the system's trust store"
    )]
    Tls,
    /// A kept-alive connection was found closed before the request was written to it.
    #[error("the upstream closed the idle connection; retry")]
    Closed,
}

/// How an exchange broke off once the request may have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AmbiguousCause {
    /// No reply, or no further part of it, in time: 504 `upstream_timeout`.
    #[error("the upstream did not answer in time")]
    Timeout,
    /// The connection ended early, or what came was no HTTP: 502 `upstream_disconnected`.
    #[error("the upstream broke off the exchange")]
    Disconnected,
}
