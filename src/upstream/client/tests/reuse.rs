//! Kept-alive connections, and what happens when one dies under a request.

use std::io::{Read, Write};
use std::net::TcpListener as BlockingListener;
use std::sync::mpsc as blocking;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::scripted::Upstream;
use super::*;

/// Makes one exchange, so that the next request finds a kept-alive connection.
async fn warm_up(client: &Client, upstream: &Upstream) {
    let response = client.send(post(upstream.url("/first"))).await.expect("a reply");
    assert_eq!(read(response.body).await, Ok(b"ok".to_vec()));
}

/// Sends `/call` over a reused connection that fails under it, then `/marker`: had anything sent
/// the call again, it would have arrived before.
async fn dies_under_the_call(upstream: &Upstream) -> Failure {
    let client = client(PATIENT);
    warm_up(&client, upstream).await;
    let failure = client.send(post(upstream.url("/call"))).await.expect_err("it dies");
    client.send(post(upstream.url("/marker"))).await.expect("a new connection");
    assert_eq!(upstream.hits.of("/marker"), 1);
    failure
}

#[tokio::test]
async fn a_reused_connection_reset_after_the_request_is_ambiguous_and_one_hit() {
    let upstream = Upstream::start(|number, mut connection| async move {
        connection.request().await;
        connection.write(OK).await;
        if number == 0 {
            connection.request().await;
            connection.reset();
        }
    })
    .await;
    assert_eq!(dies_under_the_call(&upstream).await, DISCONNECTED);
    assert_eq!(upstream.hits.of("/call"), 1);
}

#[tokio::test]
async fn a_reused_connection_closed_after_the_request_is_ambiguous_and_one_hit() {
    let upstream = Upstream::start(|number, mut connection| async move {
        connection.request().await;
        connection.write(OK).await;
        if number == 0 {
            connection.request().await;
        }
    })
    .await;
    assert_eq!(dies_under_the_call(&upstream).await, DISCONNECTED);
    assert_eq!(upstream.hits.of("/call"), 1);
}

#[tokio::test]
async fn a_reused_connection_reset_within_the_request_is_ambiguous() {
    let upstream = Upstream::start(|number, mut connection| async move {
        connection.request().await;
        connection.write(OK).await;
        if number == 0 {
            connection.head().await;
            connection.reset();
        }
    })
    .await;
    assert_eq!(dies_under_the_call(&upstream).await, DISCONNECTED);
    assert_eq!(upstream.hits.of("/call"), 0, "never read whole, and not sent again");
}

#[tokio::test]
async fn an_idle_connection_closed_by_the_server_never_gives_a_second_hit() {
    for _ in 0..50 {
        let (closing, mut closed) = mpsc::unbounded_channel();
        let upstream = Upstream::start(move |number, mut connection| {
            let closing = closing.clone();
            async move {
                connection.request().await;
                connection.write(OK).await;
                if number == 0 {
                    drop(connection);
                    closing.send(()).expect("the test waits");
                }
            }
        })
        .await;
        let client = client(PATIENT);
        warm_up(&client, &upstream).await;
        closed.recv().await.expect("closed");
        let result = client.send(post(upstream.url("/call"))).await;
        let expected = match &result {
            Ok(_) => 1,
            // The close may still be on its way; then the request is lost, and that is all.
            Err(Failure::Unsent(_) | Failure::Ambiguous(_)) => 0,
        };
        client.send(post(upstream.url("/marker"))).await.expect("a new connection");
        assert_eq!(upstream.hits.of("/call"), expected, "{result:?}");
    }
}

#[tokio::test]
async fn a_connection_is_reused() {
    let upstream = Upstream::start(|_, mut connection| async move {
        while connection.request().await {
            connection.write(OK).await;
        }
    })
    .await;
    let client = client(PATIENT);
    for _ in 0..3 {
        warm_up(&client, &upstream).await;
    }
    let connections: Vec<usize> = upstream.hits.all().iter().map(|(number, _)| *number).collect();
    assert_eq!(connections, [0, 0, 0]);
}

/// An upstream that keeps its connections alive and tells when the client has closed one.
async fn keeping_alive() -> (Upstream, mpsc::UnboundedReceiver<usize>) {
    let (tell, told) = mpsc::unbounded_channel();
    let upstream = Upstream::start(move |number, mut connection| {
        let tell = tell.clone();
        async move {
            while connection.request().await {
                connection.write(OK).await;
            }
            // Nobody may be listening.
            let _ = tell.send(number);
        }
    })
    .await;
    (upstream, told)
}

fn pooled(idle_for: Duration, most: usize) -> Client {
    let trust = Trust::roots(RootCertStore::empty()).expect("TLS set up");
    Client::with_pool(PATIENT, &trust, Pool::new(idle_for, most))
}

#[tokio::test]
async fn a_connection_that_rested_too_long_and_one_too_many_are_not_reused() {
    for client in [pooled(Duration::ZERO, 1), pooled(LONG, 0)] {
        let (upstream, _told) = keeping_alive().await;
        for _ in 0..2 {
            warm_up(&client, &upstream).await;
        }
        let connections: Vec<usize> =
            upstream.hits.all().iter().map(|(number, _)| *number).collect();
        assert_eq!(connections, [0, 1]);
    }
}

#[tokio::test]
async fn a_connection_that_rested_too_long_is_closed_without_being_asked_for() {
    let (upstream, mut told) = keeping_alive().await;
    let client = pooled(SHORT, 1);
    warm_up(&client, &upstream).await;
    assert_eq!(told.recv().await, Some(0));
    // Until here: a client that goes takes its connections with it.
    drop(client);
}

#[test]
fn the_pool_gives_up_a_connection_before_common_servers_do() {
    assert!(POOL_IDLE < Duration::from_secs(5));
}

/// The close of the idle connection and the next request meet in one turn of the event loop: the
/// pool still takes the connection for open, and it hands the request back untouched. A client that
/// retries by itself would now succeed on a second connection.
#[tokio::test]
async fn a_request_that_the_closed_connection_hands_back_is_unsent_and_not_retried() {
    let server = BlockingListener::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("an address");
    let (close, closing) = blocking::channel::<()>();
    let (tell, told) = blocking::channel();
    let thread = std::thread::spawn(move || {
        let (mut signal, _) = server.accept().expect("the signal's connection");
        let (mut connection, _) = server.accept().expect("the client's connection");
        let mut head = [0; 4096];
        let _ = connection.read(&mut head).expect("a request");
        connection.write_all(OK).expect("answered");
        closing.recv().expect("the test says when");
        drop(connection);
        signal.write_all(b"!").expect("signalled");
        tell.send(()).expect("the test waits");
        server.set_nonblocking(true).expect("set");
        // Dropped by the test's end only: a retry would find the listener open.
        (server, signal)
    });
    let mut signal = TcpStream::connect(address).await.expect("connected");
    let client = client(PATIENT);
    let response = client.send(post(format!("http://{address}/first"))).await.expect("a reply");
    assert_eq!(read(response.body).await, Ok(b"ok".to_vec()));
    // Lets the connection go back to the pool.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    close.send(()).expect("the server waits");
    // Blocks on purpose: the loop must learn of the close and of the signal in the same turn.
    told.recv().expect("closed");
    signal.read_u8().await.expect("signalled");
    let failure = client.send(post(format!("http://{address}/call"))).await;
    assert_eq!(failure.err(), Some(Failure::Unsent(UnsentCause::Closed)));
    let (server, _signal) = thread.join().expect("no panic");
    let second = server.accept().map(drop).map_err(|error| error.kind());
    assert_eq!(second, Err(std::io::ErrorKind::WouldBlock), "no other connection was made");
}
