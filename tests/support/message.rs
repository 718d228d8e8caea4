//! What goes over the wire: requests as exact bytes, responses as they came.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The bearer tokens of the two principals that the default policy knows.
pub const TOKEN_A: &str = "token-of-A";
pub const TOKEN_B: &str = "token-of-B";

/// The header that names a call.
pub const KEY: &str = "Idempotency-Key";

/// The body of a `tools/call` with id 1.
pub fn call(tool: &str, arguments: Value) -> String {
    call_with_id("1", tool, arguments)
}

/// The body of a `tools/call`, its id given as JSON text.
pub fn call_with_id(id: &str, tool: &str, arguments: Value) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":{},"arguments":{arguments}}}}}"#,
        json!(tool)
    )
}

/// The call that most tests make.
pub fn pay() -> String {
    call("pay", json!({"to": "acct-1", "amount": 10}))
}

/// A continuation of [`pay`]: the same arguments with `extra` members in its params.
pub fn continuation(id: u32, extra: &Value) -> String {
    let mut params = json!({"name": "pay", "arguments": {"to": "acct-1", "amount": 10}});
    for (name, value) in extra.as_object().expect("an object") {
        params[name] = value.clone();
    }
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

/// SHA-256 in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first 16 hex characters of the scoped hash, as the vectors define it, of human, agent, team,
/// session, server uid, key and round.
pub fn key_hash(fields: [&str; 7]) -> String {
    let mut bytes = Vec::new();
    for field in std::iter::once("onceward.session.v1").chain(fields) {
        bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
        bytes.extend_from_slice(field.as_bytes());
    }
    sha256_hex(&bytes)[..16].to_owned()
}

/// A request whose every byte the test decides.
#[derive(Clone, Debug)]
pub struct Request {
    line: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    sized: bool,
}

impl Request {
    /// `POST /mcp` with the headers that an MCP client of principal A sends, and no key.
    pub fn post(body: impl Into<Vec<u8>>) -> Self {
        let mut request = Self::new("POST", "/mcp")
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream");
        request.body = body.into();
        request.sized = true;
        request
    }

    /// [`Request::post`] with a key.
    pub fn keyed(key: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::post(body).header(KEY, key)
    }

    /// A request of principal A without a body.
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            line: format!("{method} {target} HTTP/1.1"),
            headers: Vec::new(),
            body: Vec::new(),
            sized: false,
        }
        .header("Host", "localhost")
        .bearer(TOKEN_A)
    }

    /// The same request to another target.
    pub fn to(mut self, target: &str) -> Self {
        let method = self.line.split(' ').next().unwrap_or_default().to_owned();
        self.line = format!("{method} {target} HTTP/1.1");
        self
    }

    /// The same request with another method.
    pub fn with_method(mut self, method: &str) -> Self {
        let rest = self.line.split_once(' ').map_or("", |(_, rest)| rest);
        self.line = format!("{method} {rest}");
        self
    }

    /// One more header line, also where there is one of that name.
    pub fn header(self, name: &str, value: &str) -> Self {
        self.raw_header(name, value.as_bytes())
    }

    /// [`Request::header`] with any bytes.
    pub fn raw_header(mut self, name: &str, value: &[u8]) -> Self {
        self.headers.push((name.to_owned(), value.to_vec()));
        self
    }

    /// All header lines of that name are taken out.
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(held, _)| !held.eq_ignore_ascii_case(name));
        self
    }

    /// Exactly one header line of that name.
    pub fn set(self, name: &str, value: &str) -> Self {
        self.without(name).header(name, value)
    }

    /// The credential of the request.
    pub fn bearer(self, token: &str) -> Self {
        self.set("Authorization", &format!("Bearer {token}"))
    }

    /// The request line and the headers, `Content-Length` included where a body was given.
    pub fn head_bytes(&self) -> Vec<u8> {
        let mut bytes = self.line.clone().into_bytes();
        bytes.extend_from_slice(b"\r\n");
        for (name, value) in &self.headers {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        if self.sized {
            let length = format!("Content-Length: {}\r\n", self.body.len());
            bytes.extend_from_slice(length.as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }

    /// The request as it is written.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// A response as it came.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status of the final response.
    pub status: u16,
    /// Names in lower case, values as sent, in order.
    pub headers: Vec<(String, String)>,
    /// The body without its transfer coding.
    pub body: Vec<u8>,
    /// The statuses of the interim responses before it.
    pub interim: Vec<u16>,
}

impl Response {
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

    /// Whether a comma-separated header lists `member`, compared without case.
    pub fn lists(&self, name: &str, member: &str) -> bool {
        self.lines(name)
            .iter()
            .flat_map(|line| line.split(','))
            .any(|part| part.trim().eq_ignore_ascii_case(member))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("no JSON ({error}) in {} {}", self.status, self.text()),
        }
    }

    /// `error.data.reason` of a refusal, or nothing.
    pub fn reason(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body["error"]["data"]["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// Whether the response says that it is a replay.
    pub fn replayed(&self) -> bool {
        self.header("Idempotency-Replayed") == Some("true")
    }

    /// Fails the test unless this is the refusal `reason` under `status`.
    #[track_caller]
    pub fn assert_refused(&self, status: u16, reason: &str) {
        assert_eq!((self.status, self.reason().as_str()), (status, reason), "{}", self.text());
        assert!(!self.replayed(), "a refusal is no replay: {self:?}");
    }

    /// Fails the test unless this is the JSON-RPC error `code` under `status`.
    #[track_caller]
    pub fn assert_rpc_error(&self, status: u16, code: i64) {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.json()["error"]["code"], json!(code), "{}", self.text());
    }

    /// Fails the test unless this is a 200 that came from an execution, not from the store.
    #[track_caller]
    pub fn assert_first(&self) {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.lines("Idempotency-Replayed"), Vec::<&str>::new(), "{self:?}");
    }

    /// Fails the test unless this repeats `first` from the store.
    #[track_caller]
    pub fn assert_replays(&self, first: &Response) {
        assert!(self.replayed(), "no replay: {} {}", self.status, self.text());
        assert_eq!(self.status, first.status);
        assert_eq!(self.header("Content-Type"), first.header("Content-Type"));
        assert_eq!(self.body, first.body, "the replayed body differs");
    }
}
