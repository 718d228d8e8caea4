//! The `[listen.tls]` table.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::entries::{Entries, Entry};
use super::error::ConfigError;
use crate::gateway::tls::TlsFiles;

/// The most handshakes at one time that may be allowed.
pub const MAX_HANDSHAKES: u64 = 65_536;

/// TLS of the MCP listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// The certificate and those that lead to its authority, in PEM form.
    pub cert: PathBuf,
    /// The certificate's private key, in PEM form.
    pub key: PathBuf,
    /// The authorities that client certificates must come from, in PEM form; `None` where clients
    /// are not asked for one.
    pub client_ca: Option<PathBuf>,
    /// How often the files are read.
    pub reload: Duration,
    /// From the connection to the end of its handshake.
    pub handshake_timeout: Duration,
    /// Handshakes at one time, over all workers, 1 to [`MAX_HANDSHAKES`]; more wait.
    pub max_handshakes: usize,
}

impl TlsConfig {
    /// The files.
    pub fn files(&self) -> TlsFiles {
        TlsFiles {
            cert: self.cert.clone(),
            key: self.key.clone(),
            client_ca: self.client_ca.clone(),
        }
    }

    /// What `/v1/status` shows: where the files are, never what is in them.
    pub(super) fn summary(&self) -> serde_json::Value {
        serde_json::json!({
            "cert": self.cert,
            "key": self.key,
            "client_ca": self.client_ca,
            "reload_s": self.reload.as_secs_f64(),
            "handshake_timeout_s": self.handshake_timeout.as_secs_f64(),
            "max_handshakes": self.max_handshakes,
        })
    }
}

/// The table, if `cert` and `key` are there; any other setting alone has no effect and is refused.
pub(super) fn take(entries: &mut Entries, folder: &Path) -> Result<Option<TlsConfig>, ConfigError> {
    if let Some(entry) = entries.take("listen.tls") {
        return Err(entry.wrong("must be a table with `cert` and `key`: fill it in or remove it"));
    }
    let [cert, key, client_ca, reload, handshake_timeout, max_handshakes] = [
        "listen.tls.cert",
        "listen.tls.key",
        "listen.tls.client_ca",
        "listen.tls.reload",
        "listen.tls.handshake_timeout",
        "listen.tls.max_handshakes",
    ]
    .map(|name| entries.take(name));
    let (cert, key) = match (cert, key) {
        (Some(cert), Some(key)) => (cert, key),
        (Some(cert), None) => return Err(cert.wrong("needs `listen.tls.key`")),
        (None, Some(key)) => return Err(key.wrong("needs `listen.tls.cert`")),
        (None, None) => {
            let rest = [client_ca, reload, handshake_timeout, max_handshakes];
            return match rest.into_iter().flatten().next() {
                None => Ok(None),
                Some(entry) => {
                    Err(entry.wrong("has no effect without `listen.tls.cert` and `listen.tls.key`"))
                }
            };
        }
    };
    let path = |entry: &Entry| entry.text().map(|text| folder.join(text));
    let duration = |entry: Option<Entry>, default| {
        entry.map_or(Ok(Duration::from_secs(default)), |entry| entry.duration())
    };
    Ok(Some(TlsConfig {
        cert: path(&cert)?,
        key: path(&key)?,
        client_ca: client_ca.as_ref().map(path).transpose()?,
        reload: duration(reload, 5)?,
        handshake_timeout: duration(handshake_timeout, 5)?,
        max_handshakes: max_handshakes.map_or(Ok(256), |entry| entry.size(1, MAX_HANDSHAKES))?,
    }))
}
