//! The demo's MCP client: one connection a request, so that it can hang up on one alone.

use std::io;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

/// The protocol version that the client speaks.
pub const PROTOCOL: &str = "2025-11-25";

/// The most bytes of a reply that the client reads.
const MAX_REPLY: usize = 256 * 1024;
/// The blank line that ends an event.
const EVENT_END: &[u8] = b"\n\n";

/// A client of one MCP endpoint host.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    address: SocketAddr,
}

/// One JSON-RPC message to send.
#[derive(Debug, Clone)]
pub struct Call {
    /// The path of the server it is for.
    pub path: &'static str,
    /// The `Idempotency-Key`, where the call has one.
    pub key: Option<&'static str>,
    /// The message.
    pub message: Value,
}

/// A call under way. Dropping it hangs up.
pub type Pending = AbortOnDropHandle<Result<Answer, ClientError>>;

/// A reply whose head has come. Dropping it hangs up.
pub struct Reply {
    status: u16,
    headers: HeaderMap,
    body: hyper::body::Incoming,
    read: BytesMut,
    taken: usize,
    _connection: AbortOnDropHandle<()>,
}

/// A whole reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Whether it says `Idempotency-Replayed: true`.
    pub replayed: bool,
    /// The seconds of `Retry-After`.
    pub retry_after: Option<u64>,
    /// The media type, empty where there is none.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
}

/// What the gateway says when it refuses (CONTRACT section 6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The stable name.
    pub reason: String,
    /// What to do, as a name.
    pub advice: String,
    /// What to do, as a sentence.
    pub message: String,
}

/// Why there is no whole reply.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("cannot connect to {0}: {1}")]
    Connect(SocketAddr, io::Error),
    /// The peer closed, or spoke no HTTP.
    #[error("the connection ended without a whole reply: {0}")]
    Broken(#[from] hyper::Error),
    /// The call cannot be written as a request.
    #[error("the call cannot be sent: {0}")]
    Unsendable(#[from] hyper::http::Error),
    /// More than `MAX_REPLY`.
    #[error("the reply is longer than {MAX_REPLY} bytes")]
    TooLong,
    /// The task that carried the call ended early.
    #[error("the call was cut short: {0}")]
    CutShort(#[from] tokio::task::JoinError),
}

impl Call {
    /// The same call under a key.
    pub fn keyed(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }

    /// The same call, with a progress token: its reply is to be a stream of events.
    pub fn streamed(mut self) -> Self {
        self.message["params"]["_meta"] = json!({ "progressToken": self.message["id"] });
        self
    }

    /// The same call with another value of one of the tool's arguments.
    pub fn with(mut self, argument: &str, value: impl Into<Value>) -> Self {
        self.message["params"]["arguments"][argument] = value.into();
        self
    }
}

impl Client {
    /// A client of what listens on `address`.
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// Sends a call and reads the whole reply.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn send(&self, call: &Call) -> Result<Answer, ClientError> {
        self.open(call).await?.whole().await
    }

    /// Sends a call and lets it run beside the caller.
    pub fn start(&self, call: &Call) -> Pending {
        let (client, call) = (*self, call.clone());
        AbortOnDropHandle::new(tokio::spawn(async move { client.send(&call).await }))
    }

    /// Sends a call and waits for the head of the reply.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn open(&self, call: &Call) -> Result<Reply, ClientError> {
        let request = self.request(call)?;
        let stream = TcpStream::connect(self.address)
            .await
            .map_err(|error| ClientError::Connect(self.address, error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = AbortOnDropHandle::new(tokio::spawn(async move {
            // What goes wrong on the connection is what the request itself reports.
            let _ = connection.await;
        }));
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok(Reply {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            read: BytesMut::new(),
            taken: 0,
            _connection: connection,
        })
    }

    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let mut request = Request::post(call.path)
            .header(HOST, self.address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("MCP-Protocol-Version", PROTOCOL);
        if let Some(key) = call.key {
            request = request.header("Idempotency-Key", key);
        }
        request.body(Full::from(call.message.to_string()))
    }
}

impl Reply {
    /// The next event of a stream, as its bytes without the blank line; `None` at the end.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn event(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let rest = &self.read[self.taken..];
            if let Some(end) = rest.windows(EVENT_END.len()).position(|bytes| bytes == EVENT_END) {
                let event = Bytes::copy_from_slice(&rest[..end]);
                self.taken += end + EVENT_END.len();
                return Ok(Some(event));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// The whole reply, the events that were already taken included.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn whole(mut self) -> Result<Answer, ClientError> {
        while self.more().await? {}
        let text = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok());
        Ok(Answer {
            status: self.status,
            replayed: text("idempotency-replayed") == Some("true"),
            retry_after: text(RETRY_AFTER.as_str()).and_then(|seconds| seconds.parse().ok()),
            content_type: text(CONTENT_TYPE.as_str()).unwrap_or_default().to_owned(),
            body: self.read.freeze(),
        })
    }

    /// Reads on; false at the end of the body.
    async fn more(&mut self) -> Result<bool, ClientError> {
        let Some(frame) = self.body.frame().await.transpose()? else {
            return Ok(false);
        };
        if let Some(data) = frame.data_ref() {
            if self.read.len() + data.len() > MAX_REPLY {
                return Err(ClientError::TooLong);
            }
            self.read.extend_from_slice(data);
        }
        Ok(true)
    }
}

impl Answer {
    /// What the gateway says, where this is a refusal of its own.
    pub fn refusal(&self) -> Option<Refusal> {
        let message = self.message()?;
        let data = message.pointer("/error/data")?;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        Some(Refusal {
            reason: text(data.get("reason"))?,
            advice: text(data.get("advice")).unwrap_or_default(),
            message: text(message.pointer("/error/message")).unwrap_or_default(),
        })
    }

    /// What the tool says, where it ran and did not refuse.
    pub fn tool_text(&self) -> Option<String> {
        let message = self.message()?;
        let result = message.get("result")?;
        if result.get("isError") == Some(&Value::Bool(true)) {
            return None;
        }
        Some(result.pointer("/content/0/text")?.as_str()?.to_owned())
    }

    /// The result of a request that is not a tool's.
    pub fn result(&self) -> Option<Value> {
        self.message()?.get_mut("result").map(Value::take)
    }

    /// The JSON-RPC message of the body; of a stream, the last one.
    fn message(&self) -> Option<Value> {
        if self.content_type.starts_with("text/event-stream") {
            let text = std::str::from_utf8(&self.body).ok()?;
            serde_json::from_str(text.lines().rev().find_map(|line| line.strip_prefix("data: "))?)
                .ok()
        } else {
            serde_json::from_slice(&self.body).ok()
        }
    }
}

/// A request of `method`.
pub fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}
