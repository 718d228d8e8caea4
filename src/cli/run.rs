//! The whole program in one place: store, watchers, listeners, put together and taken apart again
//! in order. `serve` and `demo` start the same thing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::{App, HttpServer, rt};
use jiff::Timestamp;

use crate::admin::{self, AdminOptions, AdminState, PolicyStatus, ServerStatus, Source};
use crate::claim::Millis;
use crate::config::{AuditTarget, Config, StoreConfig, TlsConfig, TracesConfig, UpstreamConfig};
use crate::gateway::cors::Origins;
use crate::gateway::drain::Drain;
use crate::gateway::holders::Holders;
use crate::gateway::hosts::Hosts;
use crate::gateway::inspect::BodyLimits;
use crate::gateway::router::Router;
use crate::gateway::server::{self, ClientSettings, ListenError, Listening};
use crate::gateway::state::Gateway;
use crate::gateway::tls::{Acceptor, TlsError, TlsWatch};
use crate::identity::Issuers;
use crate::observe::{
    Audit, AuditError, AuditSink, HandshakeFailures, Metrics, Reloads, TraceError, TraceSettings,
    Traces,
};
use crate::policy::{self, PolicyWatch, SessionsWatch, Target};
use crate::store::memory::MemoryStore;
use crate::store::redis::RedisStore;
use crate::store::{Domain, MonotonicClock, Store};
use crate::upstream::{CircuitSettings, Timeouts, Trust, TrustError};

/// Workers of the admin listener: probes and scrapes are few.
const ADMIN_WORKERS: usize = 1;
/// How long a probe or scrape that runs at the end may take.
const ADMIN_SHUTDOWN_S: u64 = 1;

/// Why the program could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener could not be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The admin listener could not be served.
    #[error("cannot serve the admin listener: {0}")]
    Admin(std::io::Error),
    /// The store could not start.
    #[error("cannot start the store: {0}")]
    Store(std::io::Error),
    /// The audit sink could not be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The trace exporter could not be started.
    #[error(transparent)]
    Traces(#[from] TraceError),
    /// The system's trust store could not be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The listener's certificates or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The running program.
pub struct Running {
    /// Where MCP clients connect.
    pub mcp: SocketAddr,
    /// Where operators look.
    pub admin: SocketAddr,
    listening: Listening,
    admin_server: actix_web::dev::ServerHandle,
    admin_state: Arc<AdminState>,
    store: Arc<dyn Store>,
    audit: Arc<Audit>,
    traces: Option<Arc<Traces>>,
    drain: Duration,
}

/// Starts everything that `config` names, under an already loaded or watched policy. Runs inside an
/// actix system.
///
/// # Errors
///
/// What could not be opened; nothing keeps running then but the watchers of the system.
pub async fn start(
    config: &Config,
    policy: Arc<PolicyWatch>,
    sessions: Arc<SessionsWatch>,
) -> Result<Running, StartError> {
    let trust = Trust::system()?;
    let issuers = Issuers::new(trust.clone());
    let tls = config.listen.tls.as_ref().map(secured).transpose()?;
    let mcp = server::bind(config.listen.mcp)?;
    let admin_listener = server::bind(config.listen.admin)?;
    let audit = Arc::new(Audit::open(audit_sink(&config.audit, &trust))?);
    let traces = traces(config, &trust)?;
    let client = ClientSettings { timeouts: timeouts(&config.upstream), trust };
    let clock = Arc::new(MonotonicClock::start());
    let store = store(config, &policy, &clock).map_err(StartError::Store)?;
    let metrics = Arc::new(Metrics::new());
    let gateway = Arc::new(Gateway {
        store: Arc::clone(&store),
        router: Router::new(
            Arc::clone(&policy),
            Arc::clone(&metrics),
            circuit(&config.upstream),
            issuers,
        ),
        sessions: Arc::clone(&sessions),
        audit: Arc::clone(&audit),
        traces: traces.clone(),
        clock,
        holders: Holders::new(),
        hosts: Hosts::new(config.listen.allowed_hosts.clone(), config.listen.mcp),
        origins: Origins::new(config.listen.allowed_origins.clone(), config.listen.mcp),
        body: BodyLimits { bytes: config.request_bytes, idle: config.upstream.idle_timeout },
        reply_bytes: config.limits.reply_bytes,
        drain: Drain::new(),
    });
    let watched = Watched {
        policy,
        sessions: config.sessions.is_some().then_some(sessions),
        gateway: Arc::clone(&gateway),
        tls: tls.clone(),
    };
    let admin_state = Arc::new(admin_state(config, watched, metrics));
    let (admin, admin_server) = serve_admin(admin_listener, Arc::clone(&admin_state))?;
    let (workers, connections) = (config.listen.workers, config.listen.max_connections);
    let listening = server::listen(mcp, workers, connections, gateway, client, tls)?;
    Ok(Running {
        mcp: listening.address,
        admin,
        listening,
        admin_server,
        admin_state,
        store,
        audit,
        traces,
        drain: config.listen.drain,
    })
}

/// The store that is configured, for the servers that are known already.
fn store(
    config: &Config,
    policy: &PolicyWatch,
    clock: &Arc<MonotonicClock>,
) -> std::io::Result<Arc<dyn Store>> {
    Ok(match &config.store {
        StoreConfig::Memory { shards } => {
            let clock = Arc::clone(clock) as Arc<_>;
            MemoryStore::start(config.limits, config.receipts, *shards, clock)?
        }
        StoreConfig::Redis(settings) => {
            let policies = policy.snapshot();
            let servers = || policies.iter().flat_map(|set| set.servers());
            let uids = servers().filter_map(|server| server.uid.as_deref()).map(Domain::Server);
            let workspaces = servers().filter_map(|server| server.target.native());
            let workspaces = workspaces.flat_map(|native| native.workspaces());
            let domains = uids.chain(workspaces.map(|id| Domain::Workspace { id, record: "" }));
            RedisStore::start(config.limits, settings, domains)?
        }
    })
}

fn admin_state(config: &Config, watched: Watched, metrics: Arc<Metrics>) -> AdminState {
    let gateway = &watched.gateway;
    AdminState::new(AdminOptions {
        store: Arc::clone(&gateway.store),
        limits: config.limits,
        metrics,
        audit: Arc::clone(&gateway.audit),
        traces: gateway.traces.clone(),
        hosts: Hosts::new(config.listen.allowed_hosts.clone(), config.listen.admin),
        token_sha256: config.admin_token.map(|token| *token.sha256()),
        started: Timestamp::now(),
        config: config.summary(),
        policy: Arc::new(watched),
    })
}

fn serve_admin(
    listener: std::net::TcpListener,
    state: Arc<AdminState>,
) -> Result<(SocketAddr, actix_web::dev::ServerHandle), StartError> {
    let address = listener.local_addr().map_err(StartError::Admin)?;
    let server = HttpServer::new(move || {
        let state = Arc::clone(&state);
        App::new().configure(move |app| admin::configure(state, app))
    })
    .workers(ADMIN_WORKERS)
    .disable_signals()
    .shutdown_timeout(ADMIN_SHUTDOWN_S)
    .listen(listener)
    .map_err(StartError::Admin)?
    .run();
    let handle = server.handle();
    rt::spawn(server);
    Ok((address, handle))
}

fn audit_sink(target: &AuditTarget, trust: &Trust) -> AuditSink {
    match target {
        AuditTarget::Stdout => AuditSink::Stdout,
        AuditTarget::File(path) => AuditSink::File(path.clone()),
        AuditTarget::Post(endpoint) => AuditSink::Post(endpoint.clone(), trust.config()),
    }
}

fn traces(config: &Config, trust: &Trust) -> Result<Option<Arc<Traces>>, TraceError> {
    let start = |traces: &TracesConfig| {
        Traces::start(TraceSettings {
            endpoint: traces.endpoint.clone(),
            sample_percent: traces.sample_percent,
            tls: trust.config(),
        })
    };
    config.traces.as_ref().map(start).transpose().map(|traces| traces.map(Arc::new))
}

impl Running {
    /// Has the audit file opened anew, for a log rotation that has renamed it.
    pub fn reopen_audit(&self) {
        self.audit.reopen();
    }

    /// Stops in order: new requests, running exchanges, store, audit, admin. Says whether
    /// everything had settled in time.
    pub async fn stop(self) -> bool {
        self.admin_state.start_draining();
        let finished = self.listening.stop(self.drain).await;
        if !finished {
            tracing::warn!("the drain time is over; what still ran settles as unknown");
        }
        if let Err(error) = self.store.stop().await {
            tracing::error!(%error, "the store did not stop cleanly");
        }
        close(self.audit, self.traces).await;
        self.admin_server.stop(true).await;
        finished
    }
}

/// Closes audit trail and traces, both within their own bounds and side by side.
async fn close(audit: Arc<Audit>, traces: Option<Arc<Traces>>) {
    let audit = rt::task::spawn_blocking(move || audit.close());
    let traces = rt::task::spawn_blocking(move || traces.map_or(Ok(()), |traces| traces.close()));
    match audit.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the audit trail is incomplete"),
        Err(error) => tracing::error!(%error, "the audit trail could not be closed"),
    }
    match traces.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the traces are incomplete"),
        Err(error) => tracing::error!(%error, "the traces could not be closed"),
    }
}

/// The listener's handshakes, under certificates that are polled from now on.
fn secured(tls: &TlsConfig) -> Result<Arc<Acceptor>, TlsError> {
    let watch = Arc::new(TlsWatch::load(tls.files())?);
    rt::spawn(Arc::clone(&watch).run(tls.reload));
    Ok(Arc::new(Acceptor::new(watch, tls.handshake_timeout, tls.max_handshakes)))
}

fn timeouts(config: &UpstreamConfig) -> Timeouts {
    Timeouts {
        connect: config.connect_timeout,
        response: config.response_timeout,
        idle: config.idle_timeout,
    }
}

fn circuit(config: &UpstreamConfig) -> CircuitSettings {
    let open_ms = u64::try_from(config.circuit_open.as_millis()).unwrap_or(u64::MAX);
    CircuitSettings {
        failures: config.circuit_failures,
        open_for: Millis(open_ms),
        max_in_flight: config.max_in_flight,
    }
}

/// The watched files as the admin listener sees them.
struct Watched {
    policy: Arc<PolicyWatch>,
    sessions: Option<Arc<SessionsWatch>>,
    gateway: Arc<Gateway>,
    tls: Option<Arc<Acceptor>>,
}

impl PolicyStatus for Watched {
    /// A scrape or probe also makes the series of every server of the policy, called or not.
    fn policy(&self) -> Source {
        self.gateway.router.all();
        Source {
            revision: self.policy.snapshot().map(|set| set.revision().to_owned()),
            last_error: self.policy.last_error(),
            reloads: reloads(self.policy.reloads()),
        }
    }

    fn sessions(&self) -> Option<Source> {
        self.sessions.as_ref().map(|sessions| Source {
            revision: None,
            last_error: sessions.last_error(),
            reloads: reloads(sessions.reloads()),
        })
    }

    fn certificates(&self) -> Option<Source> {
        self.tls.as_ref().map(|acceptor| acceptor.watch()).map(|watch| Source {
            revision: Some(watch.snapshot().fingerprint.clone()),
            last_error: watch.last_error(),
            reloads: reloads(watch.reloads()),
        })
    }

    fn handshake_failures(&self) -> HandshakeFailures {
        self.tls.as_ref().map(|acceptor| acceptor.failures()).unwrap_or_default()
    }

    fn servers(&self) -> Vec<ServerStatus> {
        let mut servers: Vec<_> = self
            .gateway
            .router
            .all()
            .iter()
            .map(|route| ServerStatus {
                namespace: route.policy.namespace.clone(),
                name: route.policy.name.clone(),
                path: route.policy.path.clone(),
                upstream: match &route.policy.target {
                    Target::Mcp(uri) => ServerStatus::shown_upstream(uri),
                    Target::Native(native) => native.connectors().join(", "),
                },
                circuit: Some(route.circuit.phase(self.gateway.clock.now())),
                upstream_in_flight: Some(route.circuit.in_flight()),
            })
            .collect();
        servers.sort_by(|a, b| a.path.cmp(&b.path));
        servers
    }
}

fn reloads(counted: policy::Reloads) -> Reloads {
    Reloads { succeeded: counted.ok, failed: counted.failed }
}
