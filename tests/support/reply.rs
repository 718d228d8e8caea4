//! What the scripted upstream does with a request, step by step.

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// Holds a reply back until the test opens it.
#[derive(Clone)]
pub struct Gate(Arc<Semaphore>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets everything pass that waits or will come.
    pub fn open(&self) {
        self.0.close();
    }

    /// Returns once the gate is open.
    pub async fn passed(&self) {
        // A closed semaphore answers with an error at once, and there never is a permit.
        let _ = self.0.acquire().await;
    }
}

/// One step of a reply.
pub enum Step {
    /// Write these bytes.
    Send(Vec<u8>),
    /// Wait until the gate is open.
    Wait(Gate),
    /// Close the connection in order.
    Close,
    /// Reset the connection.
    Reset,
    /// Reset the connection as soon as a byte of the next request has come, without reading it.
    ResetOnNextByte,
}

/// A scripted reply; the connection stays open after it unless a step closes it.
pub struct Reply {
    steps: VecDeque<Step>,
    live: Option<mpsc::UnboundedReceiver<Step>>,
    reads_body: bool,
}

impl Reply {
    /// A reply that sends nothing.
    pub fn silent() -> Self {
        Self { steps: VecDeque::new(), live: None, reads_body: true }
    }

    /// A reply that sends these bytes.
    pub fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self::silent().send(bytes)
    }

    /// A 200 with this JSON text.
    pub fn json(body: &str) -> Self {
        Self::raw(json_reply(200, body))
    }

    /// A reply whose steps the test gives while it runs.
    pub fn live() -> (Self, Live) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut reply = Self::silent();
        reply.live = Some(receiver);
        (reply, Live(sender))
    }

    /// A live reply that has begun an event stream.
    pub fn stream() -> (Self, Live) {
        let (reply, live) = Self::live();
        live.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n");
        live.send("Transfer-Encoding: chunked\r\n\r\n");
        (reply, live)
    }

    /// Acts as soon as the request's head has come, its body left unread.
    pub fn without_reading_the_body(mut self) -> Self {
        self.reads_body = false;
        self
    }

    /// Then sends these bytes.
    pub fn send(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Step::Send(bytes.as_ref().to_vec()))
    }

    /// Then waits for the gate.
    pub fn wait(self, gate: &Gate) -> Self {
        self.then(Step::Wait(gate.clone()))
    }

    /// Then closes the connection.
    pub fn close(self) -> Self {
        self.then(Step::Close)
    }

    /// Then resets the connection.
    pub fn reset(self) -> Self {
        self.then(Step::Reset)
    }

    /// Then resets the connection when the next request begins.
    pub fn reset_on_next_byte(self) -> Self {
        self.then(Step::ResetOnNextByte)
    }

    fn then(mut self, step: Step) -> Self {
        self.steps.push_back(step);
        self
    }

    pub(super) fn reads_body(&self) -> bool {
        self.reads_body
    }

    /// The next step, waited for where the reply is live; nothing once the script has ended.
    pub(super) async fn next(&mut self) -> Option<Step> {
        match (self.steps.pop_front(), &mut self.live) {
            (Some(step), _) => Some(step),
            (None, Some(live)) => live.recv().await,
            (None, None) => None,
        }
    }
}

/// The test's end of a live reply. Dropping it ends the reply and keeps the connection.
pub struct Live(mpsc::UnboundedSender<Step>);

impl Live {
    /// Sends bytes as they are.
    pub fn send(&self, bytes: impl AsRef<[u8]>) {
        let _ = self.0.send(Step::Send(bytes.as_ref().to_vec()));
    }

    /// Sends one chunk of a chunked body.
    pub fn chunk(&self, data: impl AsRef<[u8]>) {
        let data = data.as_ref();
        let mut bytes = format!("{:x}\r\n", data.len()).into_bytes();
        bytes.extend_from_slice(data);
        bytes.extend_from_slice(b"\r\n");
        self.send(bytes);
    }

    /// Ends a chunked body in order.
    pub fn finish(self) {
        self.send("0\r\n\r\n");
    }

    /// Resets the connection.
    pub fn reset(self) {
        let _ = self.0.send(Step::Reset);
    }
}

/// A whole response with a `Content-Length`.
pub fn http(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status} Scripted\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// A whole `application/json` response.
pub fn json_reply(status: u16, body: &str) -> Vec<u8> {
    http(status, &[("Content-Type", "application/json")], body)
}

/// What the upstream reads of a message: little enough that no number and no depth can stop it.
#[derive(Deserialize)]
pub struct Envelope {
    /// Null where there is none.
    #[serde(default)]
    pub id: Value,
    /// The method, unless the message is a response.
    pub method: Option<String>,
}

impl Envelope {
    /// Reads a message.
    pub fn of(message: &[u8]) -> Option<Self> {
        serde_json::from_slice(message).ok()
    }
}

/// A tool's result with this text, as an answer to the id that `request` holds.
pub fn result_for(request: &[u8], text: &str) -> String {
    let id = Envelope::of(request).map_or(Value::Null, |envelope| envelope.id);
    let content = json!([{"type": "text", "text": text}]);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":{content}}}}}"#)
}
