//! From files to what a handshake needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest as _, Sha256};

use crate::files::{self, FileError};
use crate::identity::Peer;
use crate::policy::{Digest, HexDigest};

/// The most bytes of one file.
pub const MAX_PEM_BYTES: usize = 1024 * 1024;

/// Where the listener's certificates and key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and after it those that lead to its authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of client certificates; `None` where clients are not asked for one.
    pub client_ca: Option<PathBuf>,
}

/// Why a listener cannot speak TLS with these files. Says nothing of what is in the key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The operating system would not give the file.
    #[error("{}: cannot be read: {problem}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the operating system says.
        problem: std::io::Error,
    },
    /// The file is larger than [`MAX_PEM_BYTES`].
    #[error("{}: must have at most {MAX_PEM_BYTES} bytes", .file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// The file does not hold what it should, in PEM form.
    #[error("{}: holds no {expected} in PEM form, or a broken one", .file.display())]
    NotPem {
        /// The file.
        file: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
    /// An authority cannot be one.
    #[error("{}: holds a certificate that cannot be an authority: {problem}", .file.display())]
    Authority {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Certificate and key do not go together, or are of a kind that TLS has no use for.
    #[error(
        "{} and {} cannot be used together: {problem}", .cert.display(), .key.display()
    )]
    Pair {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What TLS says.
        problem: rustls::Error,
    },
    /// The authorities of client certificates cannot be used.
    #[error("client certificates cannot be verified: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// TLS cannot be set up at all.
    #[error("cannot set up TLS: {0}")]
    Setup(#[source] rustls::Error),
}

/// The bytes of every file, as they were at one moment.
pub struct Read {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// What connections begin with.
#[derive(Debug, Clone)]
pub struct Material {
    /// The settings of a handshake.
    pub config: Arc<ServerConfig>,
    /// `sha256:` and the hex digest of the certificate, as `openssl x509 -fingerprint -sha256`
    /// shows it.
    pub fingerprint: String,
    /// The last second in which the certificate is valid.
    pub not_after: Timestamp,
}

impl TlsFiles {
    /// Reads and judges the files. Blocks on the file system.
    ///
    /// # Errors
    ///
    /// [`TlsError`], with the file.
    pub fn load(&self) -> Result<Material, TlsError> {
        self.material(&self.read()?)
    }

    /// Reads the files. Blocks on the file system.
    pub(super) fn read(&self) -> Result<Read, TlsError> {
        Ok(Read {
            cert: bytes(&self.cert)?,
            key: bytes(&self.key)?,
            client_ca: self.client_ca.as_deref().map(bytes).transpose()?,
        })
    }

    /// Judges what was read.
    pub(super) fn material(&self, read: &Read) -> Result<Material, TlsError> {
        let chain = certificates(&self.cert, &read.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&read.key)
            .map_err(|_| TlsError::NotPem { file: self.key.clone(), expected: "private key" })?;
        let leaf = chain.first().map(AsRef::as_ref).unwrap_or_default();
        let fingerprint = format!("sha256:{}", HexDigest(Sha256::digest(leaf).into()));
        let not_after = Peer::of(leaf).not_after();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?;
        let builder = match (&self.client_ca, &read.client_ca) {
            (Some(file), Some(bytes)) => {
                let roots = Arc::new(authorities(file, bytes)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                // A server of another mode may share the listener; `mtls` refuses by itself.
                builder.with_client_cert_verifier(verifier.allow_unauthenticated().build()?)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|problem| {
            TlsError::Pair { cert: self.cert.clone(), key: self.key.clone(), problem }
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Material { config: Arc::new(config), fingerprint, not_after })
    }
}

impl Read {
    /// Tells contents apart.
    pub(super) fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        for bytes in [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()] {
            let digest: [u8; 32] = Sha256::digest(bytes.map_or(&[][..], Vec::as_slice)).into();
            hash.update(digest);
        }
        hash.finalize().into()
    }
}

fn certificates(file: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = || TlsError::NotPem { file: file.to_owned(), expected: "certificate" };
    let found: Vec<_> =
        CertificateDer::pem_slice_iter(bytes).collect::<Result<_, _>>().map_err(|_| wrong())?;
    if found.is_empty() { Err(wrong()) } else { Ok(found) }
}

fn authorities(file: &Path, bytes: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file, bytes)? {
        roots.add(certificate).map_err(|problem| TlsError::Authority {
            file: file.to_owned(),
            problem: problem.to_string(),
        })?;
    }
    Ok(roots)
}

fn bytes(path: &Path) -> Result<Vec<u8>, TlsError> {
    let file = path.to_owned();
    files::read(path, MAX_PEM_BYTES).map_err(|error| match error {
        FileError::Unreadable(problem) => TlsError::Unreadable { file, problem },
        FileError::TooLarge(_) => TlsError::TooLarge { file },
    })
}
