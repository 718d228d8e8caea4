//! Starting and stopping: listeners, workers, watchers, store (CONTRACT section 10).

use std::future::ready;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_http::error::DispatchError;
use actix_http::{Extensions, HttpService, Protocol, Request, Response};
use actix_server::{Server, ServerHandle};
use actix_service::{ServiceFactory, ServiceFactoryExt as _, fn_service, map_config};
use actix_web::body::BoxBody;
use actix_web::dev::AppConfig;
use actix_web::rt::net::TcpStream;
use actix_web::web::{self, Data};
use actix_web::{App, rt};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};

use super::admit::{self, NotContinued};
use super::audit::Auditing;
use super::state::{Gateway, Worker};
use super::tls::{self, Acceptor, Secured};
use super::{cors, pipeline};
use crate::identity::Peer;
use crate::upstream::{Client, Timeouts, Trust};

/// How long an idle kept-alive connection of a client stays open.
const CLIENT_KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long a client may take to send the head of the first request of a connection; the HTTP server
/// sets no bound on a later one.
const CLIENT_HEAD: Duration = Duration::from_secs(10);
/// How long a connection that is being closed may take to take the rest of a reply.
const CLIENT_DISCONNECT: Duration = Duration::from_secs(5);

/// Connections that may wait to be accepted; the standard library's 128 drop the first packet of the
/// others in a burst, and each of those clients waits a second for its next try.
const BACKLOG: i32 = 1024;

/// A listener that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}; choose another address or stop what uses it")]
pub struct ListenError {
    address: SocketAddr,
    source: io::Error,
}

/// The running MCP listener.
pub struct Listening {
    /// The bound address.
    pub address: SocketAddr,
    handle: ServerHandle,
    socket: Socket,
    gateway: Arc<Gateway>,
}

/// What a worker needs to make its client.
#[derive(Clone)]
pub struct ClientSettings {
    /// Bounds on each part of an upstream exchange.
    pub timeouts: Timeouts,
    /// The roots that upstream certificates must lead to.
    pub trust: Trust,
}

/// Opens a listener.
///
/// # Errors
///
/// [`ListenError`]: the address is taken or not this machine's.
pub fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
    open(address).map_err(|source| ListenError { address, source })
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM, Some(socket2::Protocol::TCP))?;
    // As the standard library does: a restart must not wait for connections of the last run.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Serves the MCP listener with `workers` workers, each with its own upstream client, and at most
/// `max_connections` clients at one time; more wait to be accepted. Without `tls` it speaks plain HTTP.
///
/// # Errors
///
/// [`ListenError`] where the listener cannot be used.
pub fn listen(
    listener: TcpListener,
    workers: usize,
    max_connections: usize,
    gateway: Arc<Gateway>,
    client: ClientSettings,
    tls: Option<Arc<Acceptor>>,
) -> Result<Listening, ListenError> {
    let unnamed = SocketAddr::from(([0, 0, 0, 0], 0));
    let address =
        listener.local_addr().map_err(|source| ListenError { address: unnamed, source })?;
    let failed = |source| ListenError { address, source };
    let socket = listener.try_clone().map_err(failed)?.into();
    let shared = Arc::clone(&gateway);
    let builder = Server::build()
        .workers(workers)
        // The bound is one for each worker there.
        .max_concurrent_connections(max_connections.div_ceil(workers))
        .disable_signals();
    let server = match tls {
        None => builder.listen("mcp", listener, move || {
            let begin = |stream| ready(Ok(begin_plain(stream)));
            fn_service(begin).and_then(http(&shared, &client, |_: &TcpStream, _| {}))
        }),
        Some(acceptor) => builder.listen("mcp", listener, move || {
            let acceptor = Arc::clone(&acceptor);
            let begin = move |stream| begin_secured(Arc::clone(&acceptor), stream);
            let note = |stream: &Secured, connection: &mut Extensions| {
                if let Some(peer) = tls::peer(stream) {
                    connection.insert(peer);
                }
            };
            fn_service(begin).and_then(http(&shared, &client, note).map_err(drop))
        }),
    };
    let server = server.map_err(failed)?.run();
    let handle = server.handle();
    rt::spawn(server);
    Ok(Listening { address, handle, socket, gateway })
}

/// A connection, what is spoken on it, and whose it is.
type Begun<T> = (T, Protocol, Option<SocketAddr>);

/// Nobody is told of a handshake that failed but the client, and the log.
async fn begin_secured(acceptor: Arc<Acceptor>, stream: TcpStream) -> Result<Begun<Secured>, ()> {
    let (stream, protocol, address) = begin_plain(stream);
    let secured = acceptor.accept(stream).await.map_err(drop)?;
    Ok((secured, protocol, address))
}

/// A connection as it was accepted. Small writes go out at once: a reply's pieces are passed on as
/// they come.
fn begin_plain(stream: TcpStream) -> Begun<TcpStream> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small writes of a connection may be late");
    }
    let address = stream.peer_addr().ok();
    (stream, Protocol::Http1, address)
}

/// HTTP on connections of one kind; `note` keeps what requests must know of theirs.
fn http<T, N>(
    gateway: &Arc<Gateway>,
    client: &ClientSettings,
    note: N,
) -> impl ServiceFactory<Begun<T>, Config = (), Response = (), Error = DispatchError, InitError = ()>
+ use<T, N>
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
    N: Fn(&T, &mut Extensions) + 'static,
{
    let worker = Data::new(Worker {
        gateway: Arc::clone(gateway),
        client: Client::new(client.timeouts, &client.trust),
    });
    let [connecting, closing, expecting] = std::array::from_fn(|_| Arc::clone(gateway));
    let app = App::new().app_data(worker).default_service(web::to(pipeline::handle));
    HttpService::build()
        .keep_alive(CLIENT_KEEP_ALIVE)
        .client_request_timeout(CLIENT_HEAD)
        .client_disconnect_timeout(CLIENT_DISCONNECT)
        // Otherwise a client that has left would be noticed only at the next write.
        .h1_allow_half_closed(false)
        .on_connect_ext(move |stream, connection| {
            connection.insert(connecting.drain.connection());
            note(stream, connection);
        })
        .graceful_shutdown_signal(move || closing.drain.closing())
        .expect(fn_service(move |request: Request| {
            let gateway = Arc::clone(&expecting);
            async move { before_continue(&gateway, request).await }
        }))
        .finish(map_config(app, |()| AppConfig::default()))
}

async fn before_continue(
    gateway: &Arc<Gateway>,
    request: Request,
) -> Result<Request, Response<BoxBody>> {
    let peer = request.conn_data::<Peer>();
    match admit::before_continue(gateway, request.head(), peer).await {
        Ok(()) => Ok(request),
        Err(refused) => {
            let NotContinued { refusal, route } = *refused;
            let mut audit = Auditing::begin(gateway, request.head());
            if let Some(route) = &route {
                audit.server(route);
            }
            let mut response = pipeline::refuse(audit, &refusal.close(), None);
            if let Ok(Some(origin)) = admit::origin(gateway, request.head()) {
                cors::apply(&mut response, origin);
            }
            Err(response.into())
        }
    }
}

impl Listening {
    /// Stops: no new connection, no new request, until what runs has settled and its answers are
    /// written, or `limit` is over. What still runs then settles as unknown. Says whether all had
    /// settled.
    pub async fn stop(self, limit: Duration) -> bool {
        let started = Instant::now();
        self.gateway.drain.begin();
        self.handle.pause().await;
        // A paused listener would still let clients connect and wait; a shut one refuses them.
        if let Err(error) = self.socket.shutdown(std::net::Shutdown::Both) {
            tracing::debug!(%error, "the listener could not be shut early");
        }
        let finished = self.gateway.drain.finished(limit).await;
        self.gateway.drain.closed(limit.saturating_sub(started.elapsed())).await;
        self.handle.stop(false).await;
        finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn a_burst_of_clients_is_let_in_at_once() {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(900));
        let clients: Vec<_> = (0..300).map(connect).collect();
        assert!(clients.iter().all(Result::is_ok));
    }

    #[tokio::test]
    async fn small_writes_go_out_at_once() {
        let listener = rt::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let client = TcpStream::connect(address).expect("connected");
        let (stream, _) = listener.accept().await.expect("a connection");
        let (stream, _, peer) = begin_plain(stream);
        assert!(stream.nodelay().expect("an option"));
        assert_eq!(peer, client.local_addr().ok());
    }

    #[test]
    fn a_taken_address_is_an_error_that_names_it() {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let error = bind(address).expect_err("taken").to_string();
        assert!(error.contains(&address.to_string()) && error.contains("another"), "{error}");
    }
}
