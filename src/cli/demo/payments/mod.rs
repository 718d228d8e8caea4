//! A small MCP payments server: the demo's upstream, and the sample that the README's curl lines
//! talk to.
//!
//! It speaks MCP Streamable HTTP at `/mcp` and has two tools, `charge` and `list_charges`. A charge
//! is not idempotent: every call that arrives charges again. Beside that it has a plain API, which
//! charges once for each `Idempotency-Key`. It can be made to fail in the ways that
//! make retries dangerous, by the argument `simulate` (`charge::Simulate`) or, inside the process,
//! by [`Payments::hold_next`].

mod charge;
mod ledger;
mod mcp;
mod vendor;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::dev::ServerHandle;
use actix_web::rt::net::TcpStream;
use actix_web::{App, HttpServer, web};
use socket2::{SockRef, Socket};
use tokio::sync::oneshot;

pub use ledger::{Charge, Ledger, Order};

/// The path of the MCP endpoint.
pub const PATH: &str = "/mcp";
/// The path of the plain API, which dedupes by `Idempotency-Key`.
pub const VENDOR_PATH: &str = "/v1/charges";

/// A running payments server.
pub struct Payments {
    address: SocketAddr,
    bank: Arc<Bank>,
    server: ServerHandle,
}

/// A reply that the server holds back; the charge itself has happened or will. Dropping this lets
/// the reply go.
#[must_use = "dropping this lets the reply go at once"]
pub struct Held {
    _gate: oneshot::Sender<()>,
}

/// What all requests share.
#[derive(Default)]
struct Bank {
    ledger: Ledger,
    /// What the plain API has charged under which key.
    known: vendor::Known,
    /// The gates of the next replies to hold, first come first served.
    holds: Mutex<VecDeque<oneshot::Receiver<()>>>,
}

/// The socket under a request, so that a simulated crash can cut it.
struct Line(Socket);

impl Payments {
    /// Starts the server on `address` (port 0 takes a free one), inside a running actix system.
    ///
    /// # Errors
    ///
    /// The address cannot be listened on.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let bank = Arc::new(Bank::default());
        let shared = web::Data::from(Arc::clone(&bank));
        let server = HttpServer::new(move || {
            App::new()
                .app_data(shared.clone())
                .route(PATH, web::post().to(mcp::post))
                .route(VENDOR_PATH, web::post().to(vendor::post))
        })
        .on_connect(|connection, data| {
            if let Some(stream) = connection.downcast_ref::<TcpStream>()
                && let Ok(socket) = SockRef::from(stream).try_clone()
            {
                data.insert(Line(socket));
            }
        })
        // An event must leave when it is written, not when the one before it is acknowledged.
        .tcp_nodelay(true)
        .workers(1)
        .disable_signals()
        .bind(address)?;
        let address = server.addrs().first().copied().unwrap_or(address);
        let server = server.run();
        let handle = server.handle();
        tokio::spawn(server);
        Ok(Self { address, bank, server: handle })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was really charged.
    pub fn ledger(&self) -> &Ledger {
        &self.bank.ledger
    }

    /// Makes the next charge without a `simulate` argument happen, and its reply wait until the
    /// returned value is dropped. A streamed reply waits after its first event.
    pub fn hold_next(&self) -> Held {
        let (gate, held) = oneshot::channel();
        self.bank.holds.lock().unwrap_or_else(PoisonError::into_inner).push_back(held);
        Held { _gate: gate }
    }

    /// Stops at once: what still runs is cut off.
    pub async fn stop(self) {
        self.server.stop(false).await;
    }
}

impl Bank {
    fn next_hold(&self) -> Option<oneshot::Receiver<()>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::demo::client::{Answer, Call, Client, ClientError, request};

    fn start() -> (Payments, Client) {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let payments = Payments::start(any).expect("a free port");
        let client = Client::new(payments.address());
        (payments, client)
    }

    fn message(message: Value) -> Call {
        Call { path: PATH, key: None, message }
    }

    fn tool(name: &str, arguments: Value) -> Call {
        message(request(7, "tools/call", json!({ "name": name, "arguments": arguments })))
    }

    fn charge() -> Call {
        tool("charge", json!({ "amount": 2500, "currency": "EUR", "customer": "ada" }))
    }

    fn json_body(answer: &Answer) -> Value {
        serde_json::from_slice(&answer.body).expect("a JSON reply")
    }

    #[actix_web::test]
    async fn it_greets_and_lists_its_tools() {
        let (payments, client) = start();
        let hello = request(1, "initialize", json!({ "protocolVersion": "2025-06-18" }));
        let answer = client.send(&message(hello)).await.expect("a reply");
        let result = answer.result().expect("a result");
        assert_eq!(result["protocolVersion"], "2025-06-18");
        assert!(result["capabilities"]["tools"].is_object());

        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let answer = client.send(&message(ready)).await.expect("a reply");
        assert_eq!((answer.status, answer.body.len()), (202, 0));

        let list = message(request(2, "tools/list", json!({})));
        let tools = client.send(&list).await.expect("a reply").result().expect("a result");
        let names: Vec<&Value> =
            tools["tools"].as_array().expect("a list").iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["charge", "list_charges"]);
        payments.stop().await;
    }

    #[actix_web::test]
    async fn every_charge_charges_again_and_is_listed() {
        let (payments, client) = start();
        for text in ["charged ch_1: 25.00 EUR to ada", "charged ch_2: 25.00 EUR to ada"] {
            let answer = client.send(&charge()).await.expect("a reply");
            assert_eq!(answer.tool_text().as_deref(), Some(text));
            assert_eq!(json_body(&answer)["id"], 7);
        }
        assert_eq!(payments.ledger().count(), 2);
        let listed = |customer: &str| tool("list_charges", json!({ "customer": customer }));
        let answer = client.send(&listed("ada")).await.expect("a reply");
        let both = "ch_1 25.00 EUR to ada\nch_2 25.00 EUR to ada";
        assert_eq!(answer.tool_text().as_deref(), Some(both));
        let answer = client.send(&listed("ben")).await.expect("a reply");
        assert_eq!(answer.tool_text().as_deref(), Some("no charges"));
        payments.stop().await;
    }

    #[actix_web::test]
    async fn a_held_reply_waits_after_the_charge() {
        let (payments, client) = start();
        let held = payments.hold_next();
        let pending = client.start(&charge());
        payments.ledger().reaches(1).await;
        assert!(!pending.is_finished());
        drop(held);
        let answer = pending.await.expect("no panic").expect("a reply");
        assert_eq!(answer.status, 200);
        payments.stop().await;
    }

    #[actix_web::test]
    async fn a_crash_charges_and_gives_no_reply() {
        let (payments, client) = start();
        let answer = client.send(&charge().with("simulate", "crash")).await;
        assert!(matches!(answer, Err(ClientError::Broken(_))), "{answer:?}");
        assert_eq!(payments.ledger().count(), 1);
        payments.stop().await;
    }

    #[actix_web::test]
    async fn a_progress_token_makes_the_reply_a_stream() {
        let (payments, client) = start();
        let held = payments.hold_next();
        let mut reply = client.open(&charge().streamed()).await.expect("a head");
        let event = reply.event().await.expect("no error").expect("the first event");
        assert!(event.starts_with(b"event: message\ndata: {"), "{event:?}");
        drop(held);
        let answer = reply.whole().await.expect("the rest");
        assert_eq!(answer.content_type, "text/event-stream");
        assert_eq!(answer.tool_text().as_deref(), Some("charged ch_1: 25.00 EUR to ada"));
        assert_eq!(answer.body.windows(6).filter(|bytes| bytes == b"data: ").count(), 3);
        payments.stop().await;
    }

    #[actix_web::test]
    async fn what_is_no_call_of_a_tool_is_told_so() {
        let (payments, client) = start();
        let cases = [
            (json!([]), 400, -32700),
            (request(1, "tools/forget", json!({})), 200, -32601),
            (request(1, "tools/call", json!({ "name": "refund" })), 200, -32602),
            (request(1, "tools/call", json!({})), 200, -32602),
            (json!({ "jsonrpc": "2.0", "id": {}, "method": "ping" }), 400, -32600),
        ];
        for (sent, status, code) in cases {
            let answer = client.send(&message(sent.clone())).await.expect("a reply");
            assert_eq!(answer.status, status, "{sent}");
            assert_eq!(json_body(&answer)["error"]["code"], code, "{sent}");
        }
        let wrong = tool("charge", json!({ "amount": 0, "currency": "EUR", "customer": "ada" }));
        let answer = client.send(&wrong).await.expect("a reply");
        assert_eq!(json_body(&answer)["result"]["isError"], true);
        assert_eq!(payments.ledger().count(), 0);
        payments.stop().await;
    }
}
