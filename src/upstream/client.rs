//! The HTTP client: one request, sent once.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Request, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::time::timeout;
use tower_service::Service;

use super::body::Body;
use super::failure::{AmbiguousCause, Failure, UnsentCause};
use super::pool::{Connection, Lease, Origin, Pool};
use super::trust::Trust;

/// How long a kept-alive connection may rest in the pool. Common servers close an idle connection
/// after 5 s; a request that meets that close on its way is lost and cannot be sent again, so the
/// client gives the connection up first.
pub const POOL_IDLE: Duration = Duration::from_secs(4);

/// Idle connections that one worker keeps for one upstream.
pub const POOL_CONNECTIONS: usize = 64;

/// The size of the read buffer, which a reply's status line and headers must fit; a head of twice
/// this size always breaks the exchange, since what one read adds is only then counted.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Headers of a reply; more breaks the exchange.
pub const MAX_HEADERS: usize = 100;

/// How long each part of an exchange may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Name look-up, TCP and TLS together.
    pub connect: Duration,
    /// From the connection to the reply's headers, the sending of the request included.
    pub response: Duration,
    /// Between two parts of the reply's body.
    pub idle: Duration,
}

/// A client of HTTP/1.1 upstreams, `http` and `https`, with a pool of kept-alive connections.
///
/// It sends each request at most once: no retry, no redirect (CONTRACT section 4). Make one for
/// each worker, since its connections live in the runtime that made them. Cloning is cheap and
/// shares the pool.
///
/// The pool is its own, over hyper's connections: hyper-util's would send requests again unless it
/// is told not to, proves less about what was sent, and costs more for each request.
#[derive(Debug, Clone)]
pub struct Client {
    connector: HttpsConnector<HttpConnector>,
    pool: Pool,
    timeouts: Timeouts,
}

/// The head of a reply, with its body still to come. Interim replies (1xx) are left out, save 101.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers as received.
    pub headers: HeaderMap,
    /// The body.
    pub body: Body,
}

impl Client {
    /// A client with these time-outs that trusts these roots.
    pub fn new(timeouts: Timeouts, trust: &Trust) -> Self {
        Self::with_pool(timeouts, trust, Pool::new(POOL_IDLE, POOL_CONNECTIONS))
    }

    fn with_pool(timeouts: Timeouts, trust: &Trust, pool: Pool) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // With several addresses, each gets its share of the limit.
        tcp.set_connect_timeout(Some(timeouts.connect));
        let connector = HttpsConnector::from((tcp, trust.config()));
        Self { connector, pool, timeouts }
    }

    /// Sends a request to its absolute URI and waits for the head of the reply. Dropping the future
    /// closes the connection.
    ///
    /// # Errors
    ///
    /// [`Failure::Unsent`] only where it is proven that no byte of the request was sent: there was
    /// no connection for it, or the connection handed it back untouched. All else is
    /// [`Failure::Ambiguous`], a TLS 1.3 server's late refusal of the handshake included.
    pub async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Response, Failure> {
        let origin = Origin::of(request.uri()).ok_or(Failure::Unsent(UnsentCause::Connect))?;
        let mut connection = match self.pool.take(&origin) {
            Some(connection) => connection,
            // Boxed: it is rare and large, and what it takes up would be moved with every exchange.
            None => Box::pin(self.connect(request.uri(), &origin)).await?,
        };
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        request.headers_mut().insert(HOST, connection.host.clone());
        let reply = timeout(self.timeouts.response, connection.sender.try_send_request(request))
            .await
            .map_err(|_| Failure::Ambiguous(AmbiguousCause::Timeout))?
            .map_err(failed)?;
        let (head, incoming) = reply.into_parts();
        let lease = Lease::new(connection, origin, self.pool.clone());
        Ok(Response {
            status: head.status.as_u16(),
            headers: head.headers,
            body: Body::new(incoming, lease, self.timeouts.idle),
        })
    }

    /// Makes a connection. Dropping the future gives the attempt up.
    async fn connect(&self, uri: &Uri, origin: &Origin) -> Result<Connection, Failure> {
        let host = origin.host().ok_or(Failure::Unsent(UnsentCause::Connect))?;
        let mut connector = self.connector.clone();
        let connecting = async {
            poll_fn(|context| connector.poll_ready(context)).await?;
            connector.call(uri.clone()).await
        };
        let stream = timeout(self.timeouts.connect, connecting)
            .await
            .map_err(|_| Failure::Unsent(UnsentCause::Timeout))?
            .map_err(|error| {
                let failure = Failure::Unsent(connect_cause(&*error));
                tracing::debug!(error = %Chain(&*error), %failure, "an upstream is not reached");
                failure
            })?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(MAX_HEADERS)
            .handshake(stream)
            .await
            .map_err(|_| Failure::Unsent(UnsentCause::Connect))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = %Chain(&error), "an upstream connection broke off");
            }
        });
        Ok(Connection { sender, host })
    }
}

/// A connection hands back a request that it has not begun to write.
fn failed(mut error: TrySendError<Request<Full<Bytes>>>) -> Failure {
    let failure = match error.take_message() {
        Some(_untouched) => Failure::Unsent(UnsentCause::Closed),
        None => Failure::Ambiguous(AmbiguousCause::Disconnected),
    };
    tracing::debug!(error = %Chain(error.error()), %failure, "an upstream exchange failed");
    failure
}

fn connect_cause(error: &(dyn Error + 'static)) -> UnsentCause {
    for cause in causes(error) {
        let timed_out = cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::TimedOut);
        if timed_out {
            return UnsentCause::Timeout;
        }
        if cause.is::<rustls::Error>() {
            return UnsentCause::Tls;
        }
    }
    UnsentCause::Connect
}

/// An error and everything under it. An `io::Error` hides what it wraps from `source`.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error: &&'e (dyn Error + 'static)| {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &'e (dyn Error + 'static)),
            None => error.source(),
        }
    })
}

/// Displays an error with its causes.
struct Chain<'e>(&'e (dyn Error + 'static));

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (depth, cause) in causes(self.0).enumerate() {
            write!(f, "{}{cause}", if depth == 0 { "" } else { ": " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
