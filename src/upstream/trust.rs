//! Whom an `https` upstream's certificate must come from.

use std::fmt;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;

/// The trusted roots and TLS settings, made once and shared by the clients of all workers.
///
/// The roots are the system's: operators put their private authorities there (or name them with
/// `SSL_CERT_FILE` or `SSL_CERT_DIR`), and a compiled-in list would ignore both.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

/// The TLS library offers no protocol version that this build could speak.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up TLS: {0}")]
pub struct TrustError(#[from] rustls::Error);

impl Trust {
    /// Reads the system's trust store.
    ///
    /// A host without one is no error, since plain `http` upstreams need none: it is logged, and
    /// every `https` upstream then fails its handshake.
    ///
    /// # Errors
    ///
    /// [`TrustError`] if TLS cannot be set up at all.
    pub fn system() -> Result<Self, TrustError> {
        Self::found(rustls_native_certs::load_native_certs())
    }

    pub(super) fn found(found: CertificateResult) -> Result<Self, TrustError> {
        for error in &found.errors {
            tracing::warn!(%error, "cannot read a part of the system's trust store");
        }
        let mut roots = RootCertStore::empty();
        let (added, ignored) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            tracing::warn!(
                ignored,
                "the system has no trusted root certificates, https upstreams will fail; install \
                 them or set SSL_CERT_FILE"
            );
        }
        Self::roots(roots)
    }

    /// Trusts exactly these roots.
    ///
    /// # Errors
    ///
    /// [`TrustError`] if TLS cannot be set up at all.
    pub fn roots(roots: RootCertStore) -> Result<Self, TrustError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// The TLS settings, for every client of this process.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").finish_non_exhaustive()
    }
}
