//! Connections, each used by one call at a time. The client library sends what it is given, once: a
//! connection that has failed or timed out is closed, never mended, and whether to send again is
//! decided above, where it is known what a second time would do (STORE section 4, "Repeats").

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, Value, cmd};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::script::Operation;
use super::server::ServerInfo;
use super::settings::RedisSettings;
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

/// A bounded number of connections.
pub(super) struct Pool {
    client: Client,
    config: AsyncConnectionConfig,
    wait: std::time::Duration,
    places: Semaphore,
    idle: Mutex<Vec<MultiplexedConnection>>,
    unreadable: AtomicBool,
}

/// A connection while it is used. One that is not given back is closed.
pub(super) struct Link<'p> {
    pool: &'p Pool,
    connection: MultiplexedConnection,
    _place: SemaphorePermit<'p>,
}

impl Pool {
    /// # Errors
    ///
    /// When the client library does not take the settings.
    pub(super) fn new(settings: &RedisSettings) -> Result<Self, StoreError> {
        let client = Client::open(settings.url.info()).map_err(|error| {
            tracing::error!(%error, "the redis client cannot be made");
            StoreError::Unreachable
        })?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(settings.connect_timeout))
            .set_response_timeout(Some(settings.timeout));
        Ok(Self {
            client,
            config,
            wait: settings.timeout,
            places: Semaphore::new(settings.connections),
            idle: Mutex::default(),
            unreadable: AtomicBool::new(false),
        })
    }

    /// An idle connection, or a new one.
    ///
    /// # Errors
    ///
    /// [`Failure::Unsent`]: no place in time, no connection, or a server that cannot keep claims.
    pub(super) async fn link(&self) -> Result<Link<'_>, Failure> {
        let place = match timeout(self.wait, self.places.acquire()).await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) => return Err(Failure::Unsent(StoreError::Stopping)),
            Err(_) => return Err(Failure::Unsent(StoreError::Overloaded)),
        };
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect().await.map_err(Failure::Unsent)?,
        };
        Ok(Link { pool: self, connection, _place: place })
    }

    /// A new connection, to a server that was looked at.
    async fn connect(&self) -> Result<MultiplexedConnection, StoreError> {
        let connecting = self.client.get_multiplexed_async_connection_with_config(&self.config);
        let mut connection = connecting.await.map_err(|error| unreachable(&error))?;
        if let Some(info) = self.look_at(&mut connection).await? {
            if info.evicts() {
                return Err(StoreError::Evicts);
            }
            if info.is_replica() {
                tracing::error!("the redis server is a replica and takes no claims");
                return Err(StoreError::Refused);
            }
        }
        Ok(connection)
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

    /// Looks at the server through a new connection, which then serves.
    ///
    /// # Errors
    ///
    /// Why no claim could be made now.
    pub(super) async fn probe(&self) -> Result<Option<ServerInfo>, StoreError> {
        let mut link = self.link().await.map_err(Failure::error)?;
        let info = match self.look_at(&mut link.connection).await {
            Ok(info) => info,
            // It may have died while it was idle.
            Err(_) => {
                drop(link);
                self.idle().clear();
                link = self.link().await.map_err(Failure::error)?;
                self.look_at(&mut link.connection).await?
            }
        };
        if info.as_ref().is_some_and(ServerInfo::evicts) {
            // Those that are open must not be used either.
            self.idle().clear();
            return Err(StoreError::Evicts);
        }
        link.give_back();
        Ok(info)
    }

    /// No more calls from now on.
    pub(super) fn close(&self) {
        self.places.close();
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<MultiplexedConnection>> {
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
        outcome.map_err(|error| failure(operation, &error))
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
        self.pool.idle().push(self.connection);
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
