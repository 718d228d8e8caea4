//! What the admin listener looks at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use serde::Serialize;

use crate::claim::Limits;
use crate::gateway::hosts::Hosts;
use crate::observe::{Audit, HandshakeFailures, Metrics, Reloads, Traces};
use crate::store::Store;

/// What the admin listener wants to know of the policy and the sessions file. Every call must be
/// cheap and must not block: a probe asks.
pub trait PolicyStatus: Send + Sync {
    /// The policy: its revision is absent until a first valid one was loaded.
    fn policy(&self) -> Source;

    /// The sessions file; `None` where none is configured.
    fn sessions(&self) -> Option<Source>;

    /// The listener's certificates, their revision the fingerprint of the one that is shown to
    /// clients; `None` where the listener speaks plain HTTP.
    fn certificates(&self) -> Option<Source>;

    /// Connections of the MCP listener that did not begin; zero without TLS.
    fn handshake_failures(&self) -> HandshakeFailures;

    /// The servers of the present policy.
    fn servers(&self) -> Vec<ServerStatus>;
}

/// A file that is watched and loaded again when it changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source {
    /// The revision in effect, `sha256:` and hex; `None` before the first valid load.
    pub revision: Option<String>,
    /// Why the newest content did not take effect; `None` when it did.
    pub last_error: Option<String>,
    /// Loads by result.
    pub reloads: Reloads,
}

/// One server of the policy, with nothing secret in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerStatus {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The path under which the gateway serves it.
    pub path: String,
    /// Scheme and host of its upstream.
    pub upstream: String,
    /// The state of its upstream circuit, by name.
    pub circuit: Option<&'static str>,
    /// Requests that its upstream is working on.
    pub upstream_in_flight: Option<usize>,
}

impl ServerStatus {
    /// The `upstream` of a status: scheme, host and port only, because user information, path and
    /// query of a URL may hold credentials.
    pub fn shown_upstream(uri: &hyper::Uri) -> String {
        let scheme = uri.scheme_str().unwrap_or("http");
        let host = uri.host().unwrap_or_default();
        match uri.port_u16() {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        }
    }
}

/// Why the gateway should get no traffic now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotReady {
    /// No valid policy was loaded yet.
    PolicyUnavailable,
    /// A part of the store does not answer.
    StoreUnavailable,
    /// The process is stopping.
    Draining,
}

/// What an [`AdminState`] is made of.
pub struct AdminOptions {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its caps.
    pub limits: Limits,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
    /// The audit trail, for its count of dropped lines.
    pub audit: Arc<Audit>,
    /// The traces, for theirs; `None` where they are off.
    pub traces: Option<Arc<Traces>>,
    /// The policy and the sessions file.
    pub policy: Arc<dyn PolicyStatus>,
    /// Under which names the listener answers.
    pub hosts: Hosts,
    /// SHA-256 of the token that `/metrics` and `/v1/status` need; `None` means that they are open.
    pub token_sha256: Option<[u8; 32]>,
    /// When the process started.
    pub started: Timestamp,
    /// The configuration as `/v1/status` shows it: the caller leaves secrets out.
    pub config: serde_json::Value,
}

/// The state behind the admin listener, shared by its workers.
pub struct AdminState {
    pub(super) options: AdminOptions,
    draining: AtomicBool,
}

impl AdminState {
    /// A state that is not draining.
    pub fn new(options: AdminOptions) -> Self {
        Self { options, draining: AtomicBool::new(false) }
    }

    /// From now on `/readyz` says no, so that balancers send traffic elsewhere.
    pub fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Everything that speaks against traffic now; empty when ready.
    pub fn not_ready(&self) -> Vec<NotReady> {
        let reasons = [
            (self.options.policy.policy().revision.is_none(), NotReady::PolicyUnavailable),
            (self.options.store.ready().is_err(), NotReady::StoreUnavailable),
            (self.draining.load(Ordering::Relaxed), NotReady::Draining),
        ];
        reasons.into_iter().filter_map(|(holds, reason)| holds.then_some(reason)).collect()
    }
}
