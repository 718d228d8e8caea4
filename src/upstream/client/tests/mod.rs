//! The client against scripted upstreams on raw sockets.
//!
//! A time-out is short only where it is what the test expects; everywhere else it is longer than
//! any machine needs.

mod replies;
mod reuse;
mod scripted;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use rustls::RootCertStore;
use scripted::Upstream;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(50);
const PATIENT: Timeouts = Timeouts { connect: LONG, response: LONG, idle: LONG };

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

const TIMEOUT: Failure = Failure::Ambiguous(AmbiguousCause::Timeout);
const DISCONNECTED: Failure = Failure::Ambiguous(AmbiguousCause::Disconnected);

fn client(timeouts: Timeouts) -> Client {
    Client::new(timeouts, &Trust::roots(RootCertStore::empty()).expect("TLS set up"))
}

fn post(url: String) -> Request<Full<Bytes>> {
    Request::post(url).body(Full::from("{}")).expect("a request")
}

async fn read(mut body: Body) -> Result<Vec<u8>, (Vec<u8>, Failure)> {
    let mut read = Vec::new();
    loop {
        match body.chunk().await {
            Ok(Some(chunk)) => read.extend_from_slice(&chunk),
            Ok(None) => return Ok(read),
            Err(failure) => return Err((read, failure)),
        }
    }
}

#[tokio::test]
async fn a_refused_connection_is_unsent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let failure = client(PATIENT).send(post(format!("http://{address}/mcp"))).await;
    assert_eq!(failure.err(), Some(Failure::Unsent(UnsentCause::Connect)));
}

#[tokio::test]
async fn an_unknown_name_is_unsent() {
    let failure = client(PATIENT).send(post("http://upstream.invalid/mcp".into())).await;
    assert!(matches!(failure, Err(Failure::Unsent(_))), "{failure:?}");
}

#[tokio::test]
async fn no_answer_in_time_is_ambiguous() {
    let upstream = Upstream::start(|_, mut connection| async move {
        connection.request().await;
        connection.closed().await;
    })
    .await;
    let client = client(Timeouts { response: SHORT, ..PATIENT });
    assert_eq!(client.send(post(upstream.url("/mcp"))).await.err(), Some(TIMEOUT));
    assert!(upstream.hits.of("/mcp") <= 1);
}

#[tokio::test]
async fn half_a_head_is_no_answer() {
    let upstream = Upstream::start(|_, mut connection| async move {
        connection.request().await;
        connection.write(b"HTTP/1.1 200 OK\r\ncontent-").await;
        connection.closed().await;
    })
    .await;
    let client = client(Timeouts { response: SHORT, ..PATIENT });
    assert_eq!(client.send(post(upstream.url("/mcp"))).await.err(), Some(TIMEOUT));
}

/// An upstream that answers with `reply` and tells when the client has closed the connection.
async fn watched(reply: &'static [u8]) -> (Upstream, mpsc::UnboundedReceiver<&'static str>) {
    let (tell, told) = mpsc::unbounded_channel();
    let upstream = Upstream::start(move |_, mut connection| {
        let tell = tell.clone();
        async move {
            connection.request().await;
            connection.write(reply).await;
            tell.send("written").expect("the test waits");
            connection.closed().await;
            tell.send("closed").expect("the test waits");
        }
    })
    .await;
    (upstream, told)
}

#[tokio::test]
async fn dropping_the_exchange_closes_the_connection() {
    let (upstream, mut told) = watched(b"").await;
    let client = client(PATIENT);
    let call = tokio::spawn(async move { client.send(post(upstream.url("/mcp"))).await.map(drop) });
    assert_eq!(told.recv().await, Some("written"));
    call.abort();
    assert_eq!(told.recv().await, Some("closed"));
}

#[tokio::test]
async fn dropping_a_quiet_body_closes_the_connection() {
    let (upstream, mut told) =
        watched(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hi\n\n").await;
    let client = client(PATIENT);
    let mut response = client.send(post(upstream.url("/mcp"))).await.expect("a head");
    assert_eq!(response.body.chunk().await, Ok(Some(Bytes::from_static(b": hi\n\n"))));
    drop(response);
    assert_eq!(told.recv().await, Some("written"));
    assert_eq!(told.recv().await, Some("closed"));
}

#[tokio::test]
async fn the_request_goes_out_as_given_with_host_and_length() {
    let upstream = Upstream::replying(OK).await;
    let mut request = post(upstream.url("/mcp?dry=1"));
    request.headers_mut().append("x-a", "1".parse().expect("a value"));
    request.headers_mut().append("x-a", "2".parse().expect("a value"));
    client(PATIENT).send(request).await.expect("a reply");
    let (_, head) = upstream.hits.all().remove(0);
    assert!(head.starts_with("POST /mcp?dry=1 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nhost: {}\r\n", upstream.address)), "{head}");
    assert!(head.contains("\r\ncontent-length: 2\r\n"), "{head}");
    assert!(head.contains("\r\nx-a: 1\r\nx-a: 2\r\n"), "{head}");
}
