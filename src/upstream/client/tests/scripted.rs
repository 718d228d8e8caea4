//! A scripted upstream on a raw socket: what it reads is counted, what it writes is the test's.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Every request that was read, as (number of the connection, request head).
#[derive(Clone, Default)]
pub struct Hits(Arc<Mutex<Vec<(usize, String)>>>);

impl Hits {
    pub fn all(&self) -> Vec<(usize, String)> {
        self.0.lock().expect("not poisoned").clone()
    }

    /// How many requests had this path.
    pub fn of(&self, path: &str) -> usize {
        let wanted = format!("POST {path} HTTP/1.1\r\n");
        self.all().iter().filter(|(_, head)| head.starts_with(&wanted)).count()
    }
}

pub struct Upstream {
    pub address: SocketAddr,
    pub hits: Hits,
}

impl Upstream {
    /// Runs `script` for every connection, numbered from 0.
    pub async fn start<S, F>(script: S) -> Self
    where
        S: Fn(usize, Connection<TcpStream>) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let hits = Hits::default();
        let seen = hits.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.expect("a connection");
                tokio::spawn(script(number, Connection { number, stream, hits: seen.clone() }));
            }
        });
        Self { address, hits }
    }

    /// An upstream that reads one request of each connection, writes `reply` and closes.
    pub async fn replying(reply: &'static [u8]) -> Self {
        Self::start(move |_, mut connection| async move {
            connection.request().await;
            connection.write(reply).await;
        })
        .await
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

pub struct Connection<S> {
    pub number: usize,
    pub stream: S,
    pub hits: Hits,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Reads a request with its body and counts it; `false` when the connection ends before.
    pub async fn request(&mut self) -> bool {
        let Some(head) = self.head().await else {
            return false;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().expect("a length"));
        let mut body = vec![0; length];
        if self.stream.read_exact(&mut body).await.is_err() {
            return false;
        }
        self.hits.0.lock().expect("not poisoned").push((self.number, head));
        true
    }

    /// Reads the head of a request, and nothing of its body.
    pub async fn head(&mut self) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.ok()?);
        }
        Some(String::from_utf8(head).expect("an ASCII head"))
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("written");
        self.stream.flush().await.expect("flushed");
    }

    /// Waits until the client has closed the connection.
    pub async fn closed(&mut self) {
        let mut rest = Vec::new();
        // A reset is a close too.
        let _ = self.stream.read_to_end(&mut rest).await;
    }
}

impl Connection<TcpStream> {
    /// Closes with a reset instead of an orderly end.
    pub fn reset(self) {
        self.stream.set_zero_linger().expect("set");
    }
}
