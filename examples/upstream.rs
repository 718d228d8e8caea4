//! The upstream that `scripts/bench` puts behind everything: it answers each POST to `/mcp` as an MCP
//! server answers a `tools/call`, with the request's own id, and any other as a plain HTTP API does.
//! It costs as little as it can, so that what stands in front of it is what is measured. It is no
//! HTTP server for anything else: it trusts its client and understands only `Content-Length`.
//!
//!     cargo run --release --example upstream -- LISTEN REPLY_BYTES
//!
//! `GET /calls` answers with the number of calls so far.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const READ_BYTES: usize = 16 * 1024;
const BODY_MARK: &[u8] = b"\r\n\r\n";
const LENGTH_MARK: &[u8] = b"content-length: ";
const ID_MARK: &[u8] = br#""id":"#;

struct Replies {
    /// The length of a reply to a request whose id is one character.
    bytes: usize,
    calls: AtomicU64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, bytes] = arguments.as_slice() else {
        return Err("usage: upstream LISTEN REPLY_BYTES".into());
    };
    let replies = Arc::new(Replies { bytes: bytes.parse()?, calls: AtomicU64::new(0) });
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let replies = Arc::clone(&replies);
        tokio::spawn(async move {
            // A client that leaves ends its connection; there is nothing to do about it.
            let _ = serve(socket, &replies).await;
        });
    }
}

async fn serve(mut socket: TcpStream, replies: &Replies) -> Result<(), Box<dyn Error>> {
    let mut received = Vec::with_capacity(READ_BYTES);
    let mut out = Vec::with_capacity(replies.bytes + 256);
    loop {
        while let Some(end) = request_end(&received) {
            replies.answer(&received[..end], &mut out);
            received.drain(..end);
        }
        if !out.is_empty() {
            socket.write_all(&out).await?;
            out.clear();
        }
        if socket.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
    }
}

/// Where the first request ends, if all of it is here.
fn request_end(received: &[u8]) -> Option<usize> {
    let head = find(received, BODY_MARK)? + BODY_MARK.len();
    let mut lines = received[..head].split(|&byte| byte == b'\n');
    let length = lines.find_map(declared_length).unwrap_or(0);
    (received.len() >= head + length).then_some(head + length)
}

fn declared_length(line: &[u8]) -> Option<usize> {
    let (name, value) = line.split_at_checked(LENGTH_MARK.len())?;
    if !name.eq_ignore_ascii_case(LENGTH_MARK) {
        return None;
    }
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}

impl Replies {
    fn answer(&self, request: &[u8], out: &mut Vec<u8>) {
        if request.starts_with(b"GET ") {
            let calls = self.calls.load(Ordering::Relaxed).to_string();
            return respond(out, "text/plain", &[calls.as_bytes()]);
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        let [before, id, open, close] = parts(request);
        let padding = self.bytes.saturating_sub(before.len() + 1 + open.len() + close.len());
        respond(out, "application/json", &[before, id, open, &vec![b'x'; padding], close]);
    }
}

/// What a reply is made of, around what fills it: the request's id behind the first part, and the
/// filling behind the third.
fn parts(request: &[u8]) -> [&[u8]; 4] {
    if !request.starts_with(b"POST /mcp ") {
        return [br#"{"id":"#, b"7", br#","status":"done","memo":""#, br#""}"#];
    }
    let open = br#","result":{"content":[{"type":"text","text":""#;
    let id = id_of(request).unwrap_or(b"0");
    [br#"{"jsonrpc":"2.0","id":"#, id, open, br#""}],"isError":false}}"#]
}

/// The id of a JSON-RPC request that is a number or a string without escapes.
fn id_of(request: &[u8]) -> Option<&[u8]> {
    let body = &request[find(request, BODY_MARK)?..];
    let value = &body[find(body, ID_MARK)? + ID_MARK.len()..];
    let end = value.iter().position(|byte| matches!(byte, b',' | b'}'))?;
    Some(&value[..end])
}

fn respond(out: &mut Vec<u8>, content_type: &str, body: &[&[u8]]) {
    let length: usize = body.iter().map(|part| part.len()).sum();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
    );
    out.extend_from_slice(head.as_bytes());
    for part in body {
        out.extend_from_slice(part);
    }
}
