//! An MCP server that does what the test says, and keeps what it received.

use super::reply::{Envelope, Reply, Step, http, json_reply, result_for};
use super::within;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A request as the upstream received it.
#[derive(Clone, Debug)]
pub struct Received {
    /// The request line.
    pub line: String,
    /// Names in lower case, values as sent, in order.
    pub headers: Vec<(String, String)>,
    /// The body without its transfer coding.
    pub body: Vec<u8>,
    /// Which connection it came on, counted from 1.
    pub connection: usize,
}

impl Received {
    /// The value of the only header line of that name, if there is one.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.lines(name);
        assert!(found.len() <= 1, "{name} came {} times: {self:?}", found.len());
        found.first().copied()
    }

    /// The values of all header lines of that name.
    pub fn lines(&self, name: &str) -> Vec<&str> {
        let wanted = name.to_ascii_lowercase();
        self.headers.iter().filter(|(held, _)| *held == wanted).map(|(_, v)| v.as_str()).collect()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Received,
    Answered,
    Abandoned,
}

type Fallback = dyn Fn(usize, &Received) -> Reply + Send + Sync;

struct Shared {
    received: Mutex<Vec<Received>>,
    stages: watch::Sender<Vec<Stage>>,
    script: Mutex<VecDeque<Reply>>,
    fallback: Box<Fallback>,
}

/// The scripted upstream; it ends with the value.
pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Upstream {
    /// An upstream that answers every `tools/call` with the text `run N`, N being its hits, and
    /// what has no id with 202.
    pub async fn start() -> Self {
        Self::with(plain_answer).await
    }

    /// An upstream that answers hit N as `answer` says, unless a scripted reply is waiting.
    pub async fn with(answer: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            received: Mutex::new(Vec::new()),
            stages: watch::Sender::new(Vec::new()),
            script: Mutex::new(VecDeque::new()),
            fallback: Box::new(answer),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of its MCP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The next request without a script gets this reply.
    pub fn script(&self, reply: Reply) {
        self.shared.script.lock().unwrap().push_back(reply);
    }

    /// How many requests have come, whole or cut.
    pub fn hits(&self) -> usize {
        self.shared.received.lock().unwrap().len()
    }

    /// How many `tools/call` requests have come with this argument member in their text.
    pub fn hits_with(&self, text: &str) -> usize {
        let received = self.shared.received.lock().unwrap();
        received.iter().filter(|request| request.text().contains(text)).count()
    }

    /// Waits for hit `n`, counted from 1, and gives it.
    pub async fn hit(&self, n: usize) -> Received {
        self.stage(n, "to arrive", |_| true).await;
        self.shared.received.lock().unwrap()[n - 1].clone()
    }

    /// The last request that came.
    pub fn last(&self) -> Received {
        self.shared.received.lock().unwrap().last().expect("a request").clone()
    }

    /// Waits until the reply to hit `n` has been written whole.
    pub async fn answered(&self, n: usize) {
        self.stage(n, "to be answered", |stage| stage == Stage::Answered).await;
    }

    /// Waits until the gateway has closed the connection of hit `n` in mid-reply.
    pub async fn abandoned(&self, n: usize) {
        self.stage(n, "to be abandoned", |stage| stage == Stage::Abandoned).await;
    }

    /// Whether the gateway has closed the connection of hit `n` in mid-reply.
    pub fn is_abandoned(&self, n: usize) -> bool {
        self.shared.stages.borrow().get(n - 1) == Some(&Stage::Abandoned)
    }

    async fn stage(&self, n: usize, what: &str, wanted: impl Fn(Stage) -> bool) {
        let mut stages = self.shared.stages.subscribe();
        let reached = stages.wait_for(|all| all.get(n - 1).is_some_and(|stage| wanted(*stage)));
        within(&format!("hit {n} {what}"), reached).await.expect("the upstream");
    }
}

fn plain_answer(hit: usize, request: &Received) -> Reply {
    if !request.line.starts_with("POST ") {
        return Reply::raw(http(200, &[("Content-Type", "text/plain")], "ok"));
    }
    let expects_reply = Envelope::of(&request.body)
        .is_some_and(|message| message.method.is_some() && !message.id.is_null());
    if !expects_reply {
        return Reply::raw(http(202, &[], ""));
    }
    Reply::raw(json_reply(200, &result_for(&request.body, &format!("run {hit}"))))
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    for number in 1.. {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        let _ = stream.set_nodelay(true);
        connections.spawn(serve(stream, number, Arc::clone(&shared)));
    }
}

async fn serve(stream: TcpStream, connection: usize, shared: Arc<Shared>) {
    let mut buffer = Vec::new();
    while let Some((line, headers)) = read_head(&stream, &mut buffer).await {
        let scripted = shared.script.lock().unwrap().pop_front();
        let mut request = Received { line, headers, body: Vec::new(), connection };
        if scripted.as_ref().is_none_or(Reply::reads_body) {
            request.body = read_body(&stream, &mut buffer, &request).await;
        }
        let hit = shared.record(request.clone());
        let mut reply = scripted.unwrap_or_else(|| (shared.fallback)(hit, &request));
        let (stage, open) = perform(&stream, &mut reply).await;
        shared.stages.send_modify(|stages| stages[hit - 1] = stage);
        if !open {
            return;
        }
    }
}

impl Shared {
    fn record(&self, request: Received) -> usize {
        let mut received = self.received.lock().unwrap();
        received.push(request);
        self.stages.send_modify(|stages| stages.push(Stage::Received));
        received.len()
    }
}

/// Runs the script; says how far it came, and whether the connection goes on.
async fn perform(stream: &TcpStream, reply: &mut Reply) -> (Stage, bool) {
    loop {
        let step = tokio::select! {
            biased;
            step = reply.next() => step,
            () = peer_gone(stream) => return (Stage::Abandoned, false),
        };
        let Some(step) = step else {
            return (Stage::Answered, true);
        };
        let passed = match step {
            Step::Send(bytes) => write(stream, &bytes).await,
            Step::Wait(gate) => tokio::select! {
                () = gate.passed() => true,
                () = peer_gone(stream) => false,
            },
            Step::Close => return (Stage::Answered, false),
            Step::Reset => return (Stage::Answered, reset(stream)),
            Step::ResetOnNextByte => {
                // Unlike readiness, which may be stale, a peek waits for the byte itself.
                let _ = stream.peek(&mut [0]).await;
                return (Stage::Answered, reset(stream));
            }
        };
        if !passed {
            return (Stage::Abandoned, false);
        }
    }
}

fn reset(stream: &TcpStream) -> bool {
    stream.set_zero_linger().expect("linger");
    false
}

/// Returns when the peer has closed; never while it is there.
async fn peer_gone(stream: &TcpStream) {
    if matches!(stream.peek(&mut [0]).await, Ok(count) if count > 0) {
        std::future::pending::<()>().await;
    }
}

async fn write(stream: &TcpStream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        tokio::select! {
            _ = stream.writable() => {}
            () = peer_gone(stream) => return false,
        }
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    true
}

async fn fill(stream: &TcpStream, buffer: &mut Vec<u8>) -> bool {
    loop {
        if stream.readable().await.is_err() {
            return false;
        }
        match stream.try_read_buf(buffer) {
            Ok(count) => return count > 0,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
}

async fn take_until(stream: &TcpStream, buffer: &mut Vec<u8>, end: &[u8]) -> Option<Vec<u8>> {
    loop {
        if let Some(at) = buffer.windows(end.len()).position(|window| window == end) {
            return Some(buffer.drain(..at + end.len()).collect());
        }
        if !fill(stream, buffer).await {
            return None;
        }
    }
}

async fn take(stream: &TcpStream, buffer: &mut Vec<u8>, count: usize) -> Vec<u8> {
    while buffer.len() < count && fill(stream, buffer).await {}
    let count = count.min(buffer.len());
    buffer.drain(..count).collect()
}

async fn read_head(
    stream: &TcpStream,
    buffer: &mut Vec<u8>,
) -> Option<(String, Vec<(String, String)>)> {
    let head = take_until(stream, buffer, b"\r\n\r\n").await?;
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut lines = text.split("\r\n").filter(|line| !line.is_empty());
    let line = lines.next()?.to_owned();
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Some((line, headers))
}

async fn read_body(stream: &TcpStream, buffer: &mut Vec<u8>, request: &Received) -> Vec<u8> {
    if let Some(length) = request.header("content-length") {
        return take(stream, buffer, length.parse().expect("a length")).await;
    }
    let mut body = Vec::new();
    if request.header("transfer-encoding").is_none() {
        return body;
    }
    while let Some(line) = take_until(stream, buffer, b"\r\n").await {
        let size = String::from_utf8_lossy(&line).trim().to_owned();
        let size = usize::from_str_radix(&size, 16).expect("a size");
        let data = take(stream, buffer, size + 2).await;
        body.extend_from_slice(&data[..size.min(data.len())]);
        if size == 0 {
            break;
        }
    }
    body
}
