//! The process configuration (CONTRACT section 10): every limit named, parsed once, validated, with
//! the place of a mistake.
//!
//! TOML, and over it environment variables: `ONCEWARD_LISTEN__MCP` is `mcp` of `[listen]`. A list
//! in a variable is separated by commas. Unknown keys and variables of that form are errors.
//! Relative paths are relative to the configuration's folder.

mod entries;
mod error;
mod limits;
mod observe;
mod receipts;
mod store;
mod tls;
mod values;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::{ConfigError, Place};
pub use limits::MAX_REQUEST_BYTES;
pub use observe::{AuditTarget, TracesConfig};
pub use receipts::MAX_RECEIPTS;
pub use store::{MAX_WAIT_REPLICAS, StoreConfig};
pub use tls::{MAX_HANDSHAKES, TlsConfig};
pub use values::MAX_DURATION;

use crate::claim::Limits;
use crate::policy::{HexDigest, LoadContext};
use crate::store::ReceiptSettings;
use entries::{Entries, Entry, MAX_CONFIG_BYTES};
use values::or;

/// Every table that a configuration may have.
const TABLES: [&str; 11] = [
    "listen",
    "listen.tls",
    "policy",
    "sessions",
    "store",
    "receipts",
    "limits",
    "upstream",
    "audit",
    "traces",
    "admin",
];

/// Stands for a file in messages about `serve --upstream`.
const LOCAL: &str = "--upstream";

/// The most worker threads, and the most shards of the memory store.
pub const MAX_THREADS: u64 = 256;

/// The most clients at one time.
pub const MAX_CONNECTIONS: u64 = 65_536;

/// The most exchanges at one time with one server.
pub const MAX_UPSTREAM_IN_FLIGHT: u64 = 65_536;

/// Everything that a process is told at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where it listens.
    pub listen: Listen,
    /// Where its policy comes from.
    pub policy: PolicySource,
    /// Where session bindings come from, beside the policy's own.
    pub sessions: Option<SessionsSource>,
    /// How records are kept.
    pub store: StoreConfig,
    /// How many receipts are kept, and for how long.
    pub receipts: ReceiptSettings,
    /// How many records, and for how long.
    pub limits: Limits,
    /// The most bytes of a request's body.
    pub request_bytes: usize,
    /// How upstreams are called.
    pub upstream: UpstreamConfig,
    /// Where audit events go.
    pub audit: AuditTarget,
    /// Where traces go, if anywhere.
    pub traces: Option<TracesConfig>,
    /// What the admin listener asks for.
    pub admin_token: Option<AdminToken>,
}

/// The two listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// MCP clients.
    pub mcp: SocketAddr,
    /// Operators; loopback unless there is an admin token.
    pub admin: SocketAddr,
    /// The origins, such as `https://app.example.com`, whose pages may call the MCP listener.
    pub allowed_origins: Vec<String>,
    /// The names, besides those of the machine itself, under which a loopback listener may be
    /// asked.
    pub allowed_hosts: Vec<String>,
    /// Worker threads of the MCP listener, 1 to [`MAX_THREADS`].
    pub workers: usize,
    /// Clients of the MCP listener at one time, 1 to [`MAX_CONNECTIONS`]: each may make the gateway
    /// hold a request body before it is known who sends it.
    pub max_connections: usize,
    /// How long running calls may go on after SIGTERM.
    pub drain: Duration,
    /// TLS of the MCP listener; `None` where it speaks plain HTTP.
    pub tls: Option<TlsConfig>,
}

/// Where the policy comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicySource {
    /// A file or a folder, polled.
    Watched {
        /// The file or folder.
        path: PathBuf,
        /// How often it is read.
        reload: Duration,
    },
    /// `serve --upstream URL`: [`crate::policy::PolicySet::local`] of this URL.
    Local {
        /// The one upstream.
        upstream: String,
    },
}

/// The sessions file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionsSource {
    /// The file.
    pub path: PathBuf,
    /// How often it is read.
    pub sync: Duration,
}

/// How upstreams are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// From the start of a connect to its end, TLS included.
    pub connect_timeout: Duration,
    /// From the connection to the head of the reply.
    pub response_timeout: Duration,
    /// Between two pieces of a reply's body.
    pub idle_timeout: Duration,
    /// Exchanges at one time with one server, over all workers.
    pub max_in_flight: usize,
    /// Failures in a row that open a server's circuit.
    pub circuit_failures: u32,
    /// How long it stays open.
    pub circuit_open: Duration,
}

/// The SHA-256 of the admin listener's bearer token; to be compared in constant time. Its `Debug`
/// shows nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AdminToken([u8; 32]);

impl AdminToken {
    /// The digest.
    pub const fn sha256(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(..)")
    }
}

impl Default for UpstreamConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            response_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            max_in_flight: 256,
            circuit_failures: 5,
            circuit_open: Duration::from_secs(30),
        }
    }
}

impl Default for Listen {
    fn default() -> Self {
        let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Self {
            mcp: loopback(8080),
            admin: loopback(8081),
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            workers: threads(),
            max_connections: 4096,
            drain: Duration::from_secs(30),
            tls: None,
        }
    }
}

/// One thread for each core that this process may use.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(256)
}

/// The process environment, for [`Config::load`]. What is not UTF-8 in a value is replaced, and a
/// name that is not UTF-8 cannot be a setting's.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    })
}

impl Config {
    /// Reads a file, with environment variables over it.
    ///
    /// # Errors
    ///
    /// The first mistake, with its line or variable.
    pub fn load(
        file: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let unreadable =
            |problem: String| ConfigError::Unreadable { file: file.to_owned(), problem };
        let size = std::fs::metadata(file).map_err(|error| unreadable(error.to_string()))?.len();
        if usize::try_from(size).map_or(true, |size| size > MAX_CONFIG_BYTES) {
            return Err(unreadable(format!("must have at most {MAX_CONFIG_BYTES} bytes")));
        }
        let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
        Self::parse(&text, file, environment)
    }

    /// The same from the text of a file; relative paths are relative to the file's folder.
    ///
    /// # Errors
    ///
    /// As [`Config::load`].
    pub fn parse(
        text: &str,
        file: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut entries = Entries::read(text, file, environment)?;
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        let source = policy(&mut entries, folder)?;
        let config = Self::take(&mut entries, folder, source)?;
        entries.finish()?;
        Ok(config)
    }

    /// The configuration of `serve --upstream URL`: loopback listeners and every default, with
    /// environment variables over them.
    ///
    /// # Errors
    ///
    /// The first mistake, with its variable; `policy` cannot be set, since the URL is the policy.
    pub fn local(
        upstream: String,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut entries = Entries::read("", Path::new(LOCAL), environment)?;
        let policy = PolicySource::Local { upstream };
        let config = Self::take(&mut entries, Path::new(""), policy)?;
        entries.finish()?;
        Ok(config)
    }

    /// What the policy must know of this process.
    pub fn load_context(&self) -> LoadContext {
        LoadContext {
            loopback: self.listen.mcp.ip().is_loopback(),
            client_ca: self.listen.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some()),
        }
    }

    /// What `/v1/status` shows beside the store's caps: everything but secrets.
    pub fn summary(&self) -> serde_json::Value {
        let seconds = |duration: Duration| duration.as_secs_f64();
        serde_json::json!({
            "listen": {
                "mcp": self.listen.mcp.to_string(),
                "admin": self.listen.admin.to_string(),
                "allowed_origins": self.listen.allowed_origins,
                "allowed_hosts": self.listen.allowed_hosts,
                "workers": self.listen.workers,
                "max_connections": self.listen.max_connections,
                "drain_s": seconds(self.listen.drain),
                "tls": self.listen.tls.as_ref().map(TlsConfig::summary),
            },
            "policy": match &self.policy {
                PolicySource::Watched { path, reload } => serde_json::json!({
                    "path": path, "reload_s": seconds(*reload),
                }),
                PolicySource::Local { .. } => serde_json::json!("--upstream"),
            },
            "sessions": self.sessions.as_ref().map(|source| serde_json::json!({
                "path": source.path, "sync_s": seconds(source.sync),
            })),
            "audit": match &self.audit {
                AuditTarget::Stdout => serde_json::json!("stdout"),
                AuditTarget::File(path) => serde_json::json!(path),
                AuditTarget::Post(endpoint) => serde_json::json!(endpoint.to_string()),
            },
            "traces": self.traces.as_ref().map(|traces| serde_json::json!({
                "endpoint": traces.endpoint.to_string(),
                "sample_percent": traces.sample_percent,
            })),
            "store": self.store.summary(),
            "receipts": receipts::summary(&self.receipts),
            "limits": { "request_bytes": self.request_bytes },
            "upstream": {
                "connect_timeout_s": seconds(self.upstream.connect_timeout),
                "response_timeout_s": seconds(self.upstream.response_timeout),
                "idle_timeout_s": seconds(self.upstream.idle_timeout),
                "max_in_flight": self.upstream.max_in_flight,
                "circuit_failures": self.upstream.circuit_failures,
                "circuit_open_s": seconds(self.upstream.circuit_open),
            },
            "admin": { "token": self.admin_token.is_some() },
        })
    }

    fn take(
        entries: &mut Entries,
        folder: &Path,
        policy: PolicySource,
    ) -> Result<Self, ConfigError> {
        let admin_token =
            entries.take("admin.token_sha256").map(|e| admin_token(&e)).transpose()?;
        let (limits, request_bytes) = limits::take(entries)?;
        let upstream = upstream(entries)?;
        let receipts = receipts::take(entries)?;
        Ok(Self {
            listen: listen(entries, folder, admin_token.is_some())?,
            policy,
            sessions: sessions(entries, folder)?,
            store: store::take(entries, upstream.connect_timeout, receipts)?,
            receipts,
            limits,
            request_bytes,
            upstream,
            audit: observe::audit(entries, folder)?,
            traces: observe::traces(entries, folder)?,
            admin_token,
        })
    }
}

fn admin_token(entry: &Entry) -> Result<AdminToken, ConfigError> {
    HexDigest::parse(entry.text()?).map(|digest| AdminToken(digest.0)).ok_or_else(|| {
        entry.wrong("must be the SHA-256 of the token as 64 hex digits, never the token itself")
    })
}

fn listen(entries: &mut Entries, folder: &Path, admin_token: bool) -> Result<Listen, ConfigError> {
    let default = Listen::default();
    let hosts = entries.take("listen.allowed_hosts");
    let listen = Listen {
        mcp: or(entries, "listen.mcp", default.mcp, Entry::address)?,
        admin: or(entries, "listen.admin", default.admin, |entry| admin(entry, admin_token))?,
        allowed_origins: or(entries, "listen.allowed_origins", Vec::new(), origins)?,
        allowed_hosts: hosts.as_ref().map_or(Ok(Vec::new()), allowed_hosts)?,
        workers: or(entries, "listen.workers", default.workers, |entry| {
            entry.size(1, MAX_THREADS)
        })?,
        max_connections: or(entries, "listen.max_connections", default.max_connections, |entry| {
            entry.size(1, MAX_CONNECTIONS)
        })?,
        drain: or(entries, "listen.drain", default.drain, Entry::duration)?,
        tls: tls::take(entries, folder)?,
    };
    let loopback = listen.mcp.ip().is_loopback() || listen.admin.ip().is_loopback();
    if let Some(entry) = hosts.filter(|_| !loopback && !listen.allowed_hosts.is_empty()) {
        return Err(entry.wrong("has no effect unless a listener is loopback: leave it out"));
    }
    // Port 0 is another free port each time.
    if listen.mcp == listen.admin && listen.mcp.port() != 0 {
        return Err(ConfigError::Value {
            place: entries.place(),
            key: "listen.admin".to_owned(),
            problem: "must not be the address of `listen.mcp`".to_owned(),
        });
    }
    Ok(listen)
}

fn admin(entry: &Entry, token: bool) -> Result<SocketAddr, ConfigError> {
    let address = entry.address()?;
    if !token && !address.ip().is_loopback() {
        return Err(entry.wrong("must be a loopback address unless `admin.token_sha256` is set"));
    }
    Ok(address)
}

/// Origins as browsers write them: scheme, host, perhaps a port, and nothing after.
fn origins(entry: &Entry) -> Result<Vec<String>, ConfigError> {
    let origins = entry.list()?;
    let is_origin = |text: &String| {
        url::Url::parse(text).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https") && url.origin().ascii_serialization() == *text
        })
    };
    if origins.iter().all(is_origin) {
        return Ok(origins);
    }
    Err(entry.wrong("must list origins such as \"https://app.example.com\", without a path"))
}

/// Names as they stand in a `Host` header, without the port.
fn allowed_hosts(entry: &Entry) -> Result<Vec<String>, ConfigError> {
    let names = entry.list()?;
    let is_name = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    let is_host = |text: &String| {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        bare.map_or_else(|| is_name(text), |address| address.parse::<Ipv6Addr>().is_ok())
    };
    if names.iter().all(is_host) {
        return Ok(names);
    }
    Err(entry.wrong("must list host names such as \"mcp.example.com\", without a port"))
}

fn policy(entries: &mut Entries, folder: &Path) -> Result<PolicySource, ConfigError> {
    let reload = or(entries, "policy.reload", Duration::from_secs(5), Entry::duration)?;
    let entry = entries.take("policy.path").ok_or_else(|| missing(entries, "policy.path"))?;
    Ok(PolicySource::Watched { path: folder.join(entry.text()?), reload })
}

fn sessions(entries: &mut Entries, folder: &Path) -> Result<Option<SessionsSource>, ConfigError> {
    let path = entries.take("sessions.path");
    let sync = entries.take("sessions.sync");
    match (path, sync) {
        (None, None) => Ok(None),
        (None, Some(sync)) => Err(sync.wrong("has no effect without `sessions.path`")),
        (Some(path), sync) => Ok(Some(SessionsSource {
            path: folder.join(path.text()?),
            sync: sync.map_or(Ok(Duration::from_millis(500)), |entry| entry.duration())?,
        })),
    }
}

fn upstream(entries: &mut Entries) -> Result<UpstreamConfig, ConfigError> {
    let default = UpstreamConfig::default();
    let mut duration = |key, default| or(entries, key, default, Entry::duration);
    let connect_timeout = duration("upstream.connect_timeout", default.connect_timeout)?;
    let response_timeout = duration("upstream.response_timeout", default.response_timeout)?;
    let idle_timeout = duration("upstream.idle_timeout", default.idle_timeout)?;
    let circuit_open = duration("upstream.circuit_open", default.circuit_open)?;
    Ok(UpstreamConfig {
        connect_timeout,
        response_timeout,
        idle_timeout,
        max_in_flight: or(entries, "upstream.max_in_flight", default.max_in_flight, |entry| {
            entry.size(1, MAX_UPSTREAM_IN_FLIGHT)
        })?,
        circuit_failures: or(
            entries,
            "upstream.circuit_failures",
            default.circuit_failures,
            |entry| {
                let failures = entry.count(1, u64::from(u32::MAX))?;
                u32::try_from(failures).map_err(|_| entry.wrong("is too large"))
            },
        )?,
        circuit_open,
    })
}

fn missing(entries: &Entries, key: &str) -> ConfigError {
    ConfigError::Value {
        place: entries.place(),
        key: key.to_owned(),
        problem: "is required".to_owned(),
    }
}

#[cfg(test)]
mod tests;
