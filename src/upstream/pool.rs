//! Kept-alive connections of one worker, by upstream.
//!
//! A connection is lent to one exchange at a time and comes back when the reply was read to its end.
//! One that was given up before is closed by being dropped, and with it the exchange.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use http_body_util::Full;
use hyper::Uri;
use hyper::client::conn::http1::SendRequest;
use hyper::header::HeaderValue;
use hyper::http::uri::{Authority, Scheme};
use tokio::time::Instant;

/// The sending end of a connection.
pub(super) type Sender = SendRequest<Full<Bytes>>;

/// Where a connection leads. Compared by its text, which a policy writes in one way: the types' own
/// comparison is without case, and hashes each byte by itself.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    scheme: Scheme,
    authority: Authority,
}

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.authority.as_str() == other.authority.as_str()
    }
}

impl Eq for Origin {}

impl Hash for Origin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.authority.as_str().hash(state);
    }
}

impl Origin {
    /// The origin of an absolute URI.
    pub(super) fn of(uri: &Uri) -> Option<Self> {
        Some(Self { scheme: uri.scheme()?.clone(), authority: uri.authority()?.clone() })
    }

    /// The value of `Host`: without the port that the scheme implies.
    pub(super) fn host(&self) -> Option<HeaderValue> {
        let host = self.authority.host();
        let implied = if self.scheme == Scheme::HTTPS { 443 } else { 80 };
        match self.authority.port_u16().filter(|port| *port != implied) {
            Some(port) => HeaderValue::try_from(format!("{host}:{port}")),
            None => HeaderValue::from_str(host),
        }
        .ok()
    }
}

/// The idle connections. Cloning shares them.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    state: Arc<Mutex<State>>,
    idle_for: Duration,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    /// The one that came back last is the last.
    idle: HashMap<Origin, Vec<Idle>>,
    sweeping: bool,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

/// A connection and what every request on it says.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: Sender,
    pub(super) host: HeaderValue,
}

impl Pool {
    /// A pool that gives an idle connection up after `idle_for`, and keeps at most `most` of one
    /// origin.
    pub(super) fn new(idle_for: Duration, most: usize) -> Self {
        Self { state: Arc::default(), idle_for, most }
    }

    /// The connection that came back last, since the others may then rest until they are given up.
    pub(super) fn take(&self, origin: &Origin) -> Option<Connection> {
        let mut state = self.lock();
        let idle = state.idle.get_mut(origin)?;
        let now = Instant::now();
        while let Some(Idle { connection, since }) = idle.pop() {
            if now - since < self.idle_for && !connection.sender.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    fn put(&self, origin: Origin, connection: Connection) {
        let mut state = self.lock();
        let idle = state.idle.entry(origin).or_default();
        if idle.len() >= self.most {
            return;
        }
        idle.push(Idle { connection, since: Instant::now() });
        if !std::mem::replace(&mut state.sweeping, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.state), self.idle_for));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Nothing panics while the lock is held, so a poisoned state is whole all the same.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes what has rested too long, until nothing rests.
async fn sweep(pool: Weak<Mutex<State>>, idle_for: Duration) {
    loop {
        tokio::time::sleep(idle_for).await;
        let Some(state) = pool.upgrade() else { return };
        let mut state = lock(&state);
        let now = Instant::now();
        state.idle.retain(|_, idle| {
            idle.retain(|idle| now - idle.since < idle_for && !idle.connection.sender.is_closed());
            !idle.is_empty()
        });
        if state.idle.is_empty() {
            state.sweeping = false;
            return;
        }
    }
}

/// A connection on loan. Dropped, it is closed.
pub(super) struct Lease {
    pub(super) connection: Connection,
    origin: Origin,
    pool: Pool,
}

impl Lease {
    pub(super) fn new(connection: Connection, origin: Origin, pool: Pool) -> Self {
        Self { connection, origin, pool }
    }

    /// Gives the connection back after a reply that was read to its end.
    pub(super) fn give_back(self) {
        let Self { mut connection, origin, pool } = self;
        if connection.sender.is_ready() {
            pool.put(origin, connection);
        } else if !connection.sender.is_closed() {
            // It has not yet noticed the end itself, or its request is not yet sent whole.
            tokio::spawn(async move {
                if connection.sender.ready().await.is_ok() {
                    pool.put(origin, connection);
                }
            });
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.origin).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_names_the_port_that_its_scheme_does_not_imply() {
        for (uri, host) in [
            ("http://tool.example/mcp", "tool.example"),
            ("http://tool.example:80/mcp", "tool.example"),
            ("http://tool.example:443/mcp", "tool.example:443"),
            ("https://tool.example:443/mcp", "tool.example"),
            ("https://tool.example:8443/mcp", "tool.example:8443"),
            ("http://[::1]:9000/mcp", "[::1]:9000"),
        ] {
            let origin = Origin::of(&uri.parse().expect("a URI")).expect("absolute");
            assert_eq!(origin.host().expect("a host"), host, "{uri}");
        }
        assert_eq!(Origin::of(&Uri::from_static("/mcp")), None);
    }
}
