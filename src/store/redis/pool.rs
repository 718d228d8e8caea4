//! Connections, each used by one call at a time. The client library sends what it is given, once: a
//! connection that has failed or timed out is closed, never mended, and whether to send again is
//! decided above, where it is known what a second time would do (STORE section 4, "Repeats").

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionInfo, RedisError, Value, cmd};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::script::Operation;
use super::server::ServerInfo;
use super::settings::RedisSettings;
use super::url::{Kind, RedisUrl, UrlError};
use crate::store::StoreError;

/// Why a command has no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// It was never sent.
    Unsent(StoreError),
    /// The server answered that it did not do it.
    Refused(Refused),
    /// It may have been done.
    Lost,
}

/// What a server refused for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// No memory left.
    OutOfMemory,
    /// Another node of the cluster has the keys.
    Moved,
    /// Anything else.
    Other,
}

impl Failure {
    /// As the caller of a begin hears of it.
    pub(super) fn error(self) -> StoreError {
        match self {
            Self::Unsent(error) => error,
            Self::Refused(_) => StoreError::Refused,
            Self::Lost => StoreError::Timeout,
        }
    }
}

/// The node of a cluster that has a domain's keys, as `host:port`; `None` where there is only one
/// server, or it is not known yet.
pub(super) type Route = Option<Arc<str>>;

/// A bounded number of connections, to all servers together.
pub(super) struct Pool {
    url: RedisUrl,
    config: AsyncConnectionConfig,
    wait: std::time::Duration,
    places: Semaphore,
    idle: Mutex<BTreeMap<Route, Vec<MultiplexedConnection>>>,
    unreadable: AtomicBool,
}

/// A connection while it is used. One that is not given back is closed.
pub(super) struct Link<'p> {
    pool: &'p Pool,
    route: Route,
    /// Where the keys are, after a [`Refused::Moved`].
    moved: Route,
    connection: MultiplexedConnection,
    _place: SemaphorePermit<'p>,
}

impl Pool {
    pub(super) fn new(settings: &RedisSettings) -> Self {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(settings.connect_timeout))
            .set_response_timeout(Some(settings.timeout));
        Self {
            url: settings.url.clone(),
            config,
            wait: settings.timeout,
            places: Semaphore::new(settings.connections),
            idle: Mutex::default(),
            unreadable: AtomicBool::new(false),
        }
    }

    /// An idle connection, or a new one.
    ///
    /// # Errors
    ///
    /// [`Failure::Unsent`]: no place in time, no connection, or a server that cannot keep claims.
    pub(super) async fn link(&self, route: &Route) -> Result<Link<'_>, Failure> {
        let place = match timeout(self.wait, self.places.acquire()).await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) => return Err(Failure::Unsent(StoreError::Stopping)),
            Err(_) => return Err(Failure::Unsent(StoreError::Overloaded)),
        };
        let idle = self.idle().get_mut(route).and_then(Vec::pop);
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect(route).await.map_err(Failure::Unsent)?,
        };
        Ok(Link { pool: self, route: route.clone(), moved: None, connection, _place: place })
    }

    /// A new connection, to a server that was looked at: the first of those that it may be.
    async fn connect(&self, route: &Route) -> Result<MultiplexedConnection, StoreError> {
        let hosts = match (self.url.kind(), route) {
            (Kind::Cluster, Some(node)) => vec![node.as_ref().to_owned()],
            (Kind::Sentinel(name), _) => vec![self.primary(name).await?],
            (Kind::Cluster | Kind::Server, _) => self.url.hosts().to_vec(),
        };
        let mut last = StoreError::Unreachable;
        for host in hosts {
            match self.connect_to(&host).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect_to(&self, host: &str) -> Result<MultiplexedConnection, StoreError> {
        let mut connection = self.open(self.url.server(host)).await?;
        let Some(info) = self.look_at(&mut connection).await? else { return Ok(connection) };
        if info.evicts() {
            return Err(StoreError::Evicts);
        }
        let clustered = *self.url.kind() == Kind::Cluster;
        if info.cluster && !clustered {
            tracing::error!("the redis server is a node of a cluster: use redis+cluster://");
            return Err(StoreError::Refused);
        }
        // A node of a cluster that is a replica says which one is not.
        if info.is_replica() && !clustered {
            tracing::error!("the redis server is a replica and takes no claims");
            return Err(StoreError::Refused);
        }
        Ok(connection)
    }

    /// Which server the Sentinels call the primary: the first answer counts.
    async fn primary(&self, name: &str) -> Result<String, StoreError> {
        for host in self.url.hosts() {
            let Ok(mut sentinel) = self.open(self.url.sentinel(host)).await else { continue };
            let mut command = cmd("SENTINEL");
            command.arg("get-master-addr-by-name").arg(name);
            match command.query_async::<Option<(String, u16)>>(&mut sentinel).await {
                Ok(Some((host, port))) if host.contains(':') => {
                    return Ok(format!("[{host}]:{port}"));
                }
                Ok(Some((host, port))) => return Ok(format!("{host}:{port}")),
                Ok(None) => tracing::error!("a sentinel does not know the name in `store.url`"),
                Err(error) => tracing::warn!(%error, "a sentinel did not answer"),
            }
        }
        Err(StoreError::Unreachable)
    }

    async fn open(
        &self,
        info: Result<ConnectionInfo, UrlError>,
    ) -> Result<MultiplexedConnection, StoreError> {
        let info = info.map_err(|_| StoreError::Unreachable)?;
        let client = Client::open(info).map_err(|error| unreachable(&error))?;
        let opening = client.get_multiplexed_async_connection_with_config(&self.config);
        opening.await.map_err(|error| unreachable(&error))
    }

    /// What the server tells of itself; `None` where this user may not ask, said once.
    async fn look_at(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Option<ServerInfo>, StoreError> {
        match cmd("INFO").query_async::<String>(connection).await {
            Ok(text) => Ok(Some(ServerInfo::read(&text))),
            Err(error) if error.code() == Some("NOPERM") => {
                if !self.unreadable.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "this redis user may not run INFO, so nobody checks that the server's \
                         maxmemory-policy is noeviction"
                    );
                }
                Ok(None)
            }
            Err(error) => Err(unreachable(&error)),
        }
    }

    /// Looks at a server.
    ///
    /// # Errors
    ///
    /// Why no claim could be made now.
    pub(super) async fn probe(&self, route: &Route) -> Result<Option<ServerInfo>, StoreError> {
        let mut link = self.link(route).await.map_err(Failure::error)?;
        let info = match self.look_at(&mut link.connection).await {
            Ok(info) => info,
            // It may have died while it was idle.
            Err(_) => {
                drop(link);
                self.idle().remove(route);
                link = self.link(route).await.map_err(Failure::error)?;
                self.look_at(&mut link.connection).await?
            }
        };
        if info.as_ref().is_some_and(ServerInfo::evicts) {
            // Those that are open must not be used either.
            self.idle().remove(route);
            return Err(StoreError::Evicts);
        }
        link.give_back();
        Ok(info)
    }

    /// No more calls from now on.
    pub(super) fn close(&self) {
        self.places.close();
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, BTreeMap<Route, Vec<MultiplexedConnection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unreachable(error: &RedisError) -> StoreError {
    match error.code() {
        Some(code) => {
            tracing::error!(code, "redis refused a connection");
            StoreError::Refused
        }
        None => {
            tracing::warn!(%error, "no connection to redis");
            StoreError::Unreachable
        }
    }
}

impl Link<'_> {
    /// Runs a script. A server that does not know it yet has not run it, and is sent its text.
    pub(super) async fn run(
        &mut self,
        operation: Operation,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<Value, Failure> {
        let source = operation.source();
        let command = script("EVALSHA", &source.sha, keys, arguments);
        let outcome = match self.send(&command).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                self.send(&script("EVAL", &source.text, keys, arguments)).await
            }
            outcome => outcome,
        };
        outcome.map_err(|error| {
            self.moved = moved(&error);
            if error.code() == Some("READONLY") || error.is_connection_dropped() {
                // The server was demoted, or is gone; what is idle leads to the same one.
                self.pool.idle().remove(&self.route);
            }
            failure(operation, &error)
        })
    }

    /// Where the keys are, where the server has just said so.
    pub(super) fn moved(&mut self) -> Route {
        self.moved.take()
    }

    /// Has the server take a script without running it.
    pub(super) async fn load(&mut self, operation: Operation) -> Result<(), StoreError> {
        let mut command = cmd("SCRIPT");
        command.arg("LOAD").arg(&operation.source().text);
        let loaded = self.send(&command).await.map_err(|error| unreachable(&error))?;
        let expected = Value::BulkString(operation.source().sha.clone().into_bytes());
        if loaded == expected { Ok(()) } else { Err(StoreError::Refused) }
    }

    /// How many replicas have what this connection wrote; an error counts as none.
    pub(super) async fn replicas(&mut self, wanted: u32, wait: std::time::Duration) -> u32 {
        let mut command = cmd("WAIT");
        command.arg(wanted).arg(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        match command.query_async(&mut self.connection).await {
            Ok(replicas) => replicas,
            Err(error) => {
                tracing::warn!(%error, "redis did not say how many replicas have a claim");
                0
            }
        }
    }

    /// Gives the connection back, after a reply.
    pub(super) fn give_back(self) {
        self.pool.idle().entry(self.route).or_default().push(self.connection);
    }

    async fn send(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        self.connection.send_packed_command(command).await.and_then(Value::extract_error)
    }
}

fn script(name: &str, script: &str, keys: &[String], arguments: &[&[u8]]) -> Cmd {
    let mut command = cmd(name);
    command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
    command
}

/// The address in `MOVED 3999 127.0.0.1:6381`.
fn moved(error: &RedisError) -> Route {
    if error.code() != Some("MOVED") {
        return None;
    }
    error.detail()?.split_whitespace().last().map(Arc::from)
}

/// Answers of a server that has not begun to run the script.
const NOT_RUN: [&str; 15] = [
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOAUTH",
    "NOPERM",
    "NOREPLICAS",
    "NOSCRIPT",
    "OOM",
    "READONLY",
    "TRYAGAIN",
];

/// Without an answer, and with any other one, nobody knows what was done.
fn failure(operation: Operation, error: &RedisError) -> Failure {
    match error.code() {
        Some("OOM") => Failure::Refused(Refused::OutOfMemory),
        Some("MOVED") => Failure::Refused(Refused::Moved),
        Some(code) => {
            tracing::error!(?operation, code, detail = error.detail(), "redis refused a script");
            match NOT_RUN.contains(&code) {
                true => Failure::Refused(Refused::Other),
                false => Failure::Lost,
            }
        }
        None => {
            tracing::warn!(?operation, %error, "redis did not answer");
            Failure::Lost
        }
    }
}
