//! A reply is whole for its caller only after its claim has settled (CONTRACT section 4): the
//! gateway in this process, over a store whose settles land when the test says so.

#![cfg(feature = "gateway")]

use std::sync::Arc;
use std::time::Duration;

use onceward::claim::{Fence, Millis, Reply, SlotKey, TombstoneReason};
use onceward::gateway::cors::Origins;
use onceward::gateway::drain::Drain;
use onceward::gateway::holders::Holders;
use onceward::gateway::hosts::Hosts;
use onceward::gateway::inspect::BodyLimits;
use onceward::gateway::router::Router;
use onceward::gateway::server::{self, ClientSettings, Listening};
use onceward::gateway::state::Gateway;
use onceward::identity::Issuers;
use onceward::observe::{Audit, Metrics};
use onceward::policy::{LoadContext, PolicySet, PolicyWatch, SessionsWatch};
use onceward::store::{
    Asked, Begin, Begun, Known, MonotonicClock, Occupancy, SettleOnDrop, Settled, Store,
    StoreError, StoreFuture, Ticket,
};
use onceward::upstream::{CircuitSettings, Timeouts, Trust};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a test looks for what must not come. A gateway that is right passes however long.
const LOOK: Duration = Duration::from_millis(200);

const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;

/// Every slot is free; a settle says that it came and lands once the door is open.
struct HeldStore {
    came: mpsc::UnboundedSender<&'static str>,
    door: watch::Receiver<bool>,
    /// Whether its claims are still their owners' when they are handed out.
    leased: bool,
}

struct Guard {
    leased: bool,
}

impl SettleOnDrop for Guard {
    fn settle_unknown(&self, _: SlotKey, _: Fence, _: usize) {}

    fn is_held(&self, _: Fence) -> bool {
        self.leased
    }
}

impl HeldStore {
    fn settle(&self, how: &'static str) -> StoreFuture<'_, Settled> {
        let mut door = self.door.clone();
        self.came.send(how).expect("the test listens");
        Box::pin(async move {
            door.wait_for(|open| *open).await.map_err(|_| StoreError::Stopping)?;
            Ok(Settled::Done)
        })
    }
}

impl Store for HeldStore {
    fn look_up(&self, _: &Begin) -> Option<Known> {
        None
    }
    fn begin(&self, asked: Asked<'_>) -> StoreFuture<'_, Begun> {
        let begin = asked.begin;
        let guard = Arc::new(Guard { leased: self.leased });
        let ticket = Ticket::new(begin.slot, Fence(0), 0, guard);
        Box::pin(async { Ok(Begun::First(ticket)) })
    }
    fn reserve_attempt(&self, _: &mut Ticket) -> StoreFuture<'_, Settled> {
        self.settle("reserve")
    }
    fn complete(&self, _: Ticket, _: Reply) -> StoreFuture<'_, Settled> {
        self.settle("complete")
    }
    fn tombstone(&self, _: Ticket, _: TombstoneReason) -> StoreFuture<'_, Settled> {
        self.settle("tombstone")
    }
    fn release(&self, _: Ticket) -> StoreFuture<'_, Settled> {
        self.settle("release")
    }
    fn occupancy(&self) -> Occupancy {
        Occupancy::default()
    }
    fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }
    fn kind(&self) -> &'static str {
        "held"
    }
    fn stop(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// The gateway, what its store was told, and the door that lets settles land.
struct Held {
    gateway: Listening,
    came: mpsc::UnboundedReceiver<&'static str>,
    door: watch::Sender<bool>,
}

fn gateway(upstream: &str, leased: bool) -> Held {
    let (came_sender, came) = mpsc::unbounded_channel();
    let (door, held) = watch::channel(false);
    let context = LoadContext { loopback: true, client_ca: true };
    let policy = PolicySet::local(upstream, context).expect("a policy");
    let circuit = CircuitSettings { failures: 5, open_for: Millis(1000), max_in_flight: 8 };
    let trust = Trust::system().expect("a trust store");
    let listener = server::bind(([127, 0, 0, 1], 0).into()).expect("an address");
    let address = listener.local_addr().expect("an address");
    let watch = Arc::new(PolicyWatch::fixed(policy));
    let gateway = Gateway {
        store: Arc::new(HeldStore { came: came_sender, door: held, leased }),
        router: Router::new(watch, Arc::new(Metrics::new()), circuit, Issuers::new(trust.clone())),
        sessions: Arc::new(SessionsWatch::new(None)),
        audit: Arc::new(Audit::with_sink(Box::new(std::io::sink())).expect("an audit trail")),
        traces: None,
        clock: Arc::new(MonotonicClock::start()),
        holders: Holders::new(),
        hosts: Hosts::new(vec![], address),
        origins: Origins::new(Vec::new(), address),
        body: BodyLimits { bytes: 1024, idle: PATIENCE },
        reply_bytes: 1024,
        drain: Drain::new(),
    };
    let timeouts = Timeouts { connect: PATIENCE, response: PATIENCE, idle: PATIENCE };
    let client = ClientSettings { timeouts, trust };
    let gateway =
        server::listen(listener, 1, 16, Arc::new(gateway), client, None).expect("it listens");
    Held { gateway, came, door }
}

/// An upstream that answers one request with these bytes.
async fn upstream(reply: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("an address");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.expect("a connection");
        let mut request = Vec::new();
        while !request.ends_with(b"}}") {
            assert_ne!(connection.read_buf(&mut request).await.expect("a request"), 0);
        }
        connection.write_all(reply.as_bytes()).await.expect("the reply is taken");
        // The connection stays open until the other side has had enough.
        let _ = connection.read_buf(&mut request).await;
    });
    url
}

/// Sends a keyed call.
async fn send(held: &Held) -> TcpStream {
    let mut connection = TcpStream::connect(held.gateway.address).await.expect("a connection");
    let body =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{}}}"#;
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Idempotency-Key: K1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(request.as_bytes()).await.expect("sent");
    connection
}

/// Calls through a gateway whose settles are held: what the caller had while the settle was out,
/// and what once it landed, until it ends with `end`.
async fn call(reply: String, settles: &str, end: &str) -> (String, String) {
    let mut held = gateway(&upstream(reply).await, true);
    let mut connection = send(&held).await;
    let came = tokio::time::timeout(PATIENCE, held.came.recv()).await.expect("a settle in time");
    assert_eq!(came, Some(settles));
    let mut received = Vec::new();
    let look = async { while connection.read_buf(&mut received).await.expect("read") > 0 {} };
    assert!(tokio::time::timeout(LOOK, look).await.is_err(), "the connection was closed");
    let before = String::from_utf8(received.clone()).expect("text");

    held.door.send(true).expect("the store waits");
    let rest = async {
        while !received.ends_with(end.as_bytes()) {
            assert_ne!(connection.read_buf(&mut received).await.expect("read"), 0);
        }
    };
    tokio::time::timeout(PATIENCE, rest).await.expect("the rest in time");
    (before, String::from_utf8(received).expect("text"))
}

fn sized(content_type: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[actix_web::test]
async fn a_reply_that_is_kept_leaves_after_it_was_completed() {
    let (before, after) = call(sized("application/json", RESULT), "complete", RESULT).await;
    assert_eq!(before, "");
    assert!(after.starts_with("HTTP/1.1 200"), "{after}");
}

#[actix_web::test]
async fn the_last_bytes_of_a_stream_leave_after_its_tombstone() {
    let event = format!("data: {RESULT}\n\n");
    let (before, after) = call(sized("text/event-stream", &event), "tombstone", &event).await;
    assert!(before.starts_with("HTTP/1.1 200"), "its head does not wait: {before}");
    assert!(!before.ends_with(&event), "{before}");
    assert!(after.ends_with(&event));
}

#[actix_web::test]
async fn a_stream_of_unknown_length_ends_after_its_tombstone() {
    let event = format!("data: {RESULT}\n\n");
    let reply = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{event}\r\n0\r\n\r\n",
        event.len()
    );
    let (before, after) = call(reply, "tombstone", "\r\n0\r\n\r\n").await;
    assert!(before.contains(&event), "what is no end does not wait: {before}");
    assert!(!before.ends_with("\r\n0\r\n\r\n"));
    assert!(after.ends_with("\r\n0\r\n\r\n"));
}

#[actix_web::test]
async fn nothing_is_sent_under_a_claim_whose_lease_may_have_ended() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("an address");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let mut held = gateway(&url, false);
    let mut connection = send(&held).await;
    held.door.send(true).expect("the store waits");
    let came = tokio::time::timeout(PATIENCE, held.came.recv()).await.expect("a settle in time");
    assert_eq!(came, Some("release"), "nothing was executed");
    let mut received = Vec::new();
    let refused = async {
        while !String::from_utf8_lossy(&received).contains("idempotency_unavailable") {
            assert_ne!(connection.read_buf(&mut received).await.expect("read"), 0);
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("an answer in time");
    assert!(received.starts_with(b"HTTP/1.1 503"));
    let nobody = tokio::time::timeout(LOOK, listener.accept()).await;
    assert!(nobody.is_err(), "the upstream was connected to");
}
