//! A raw HTTP/1.1 client connection.

use super::message::Response;
use super::within;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// The connection ended before the message did.
#[derive(Debug)]
pub struct Cut {
    /// What had come of the message: its final head, if that, and the part of its body.
    pub partial: Option<Response>,
}

/// One piece of a body that is read while it comes.
#[derive(Debug, PartialEq)]
pub enum Piece {
    /// Bytes of the body.
    Data(Vec<u8>),
    /// The body ended as its framing demands.
    End,
    /// The connection ended first.
    Cut,
}

#[derive(Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
    Close,
}

/// A connection to the gateway.
pub struct Conn<S = TcpStream> {
    stream: S,
    buffer: Vec<u8>,
    framing: Framing,
}

impl Conn {
    /// Connects.
    pub async fn open(address: SocketAddr) -> Self {
        Self::try_open(address).await.expect("connect")
    }

    /// Connects, where somebody listens.
    pub async fn try_open(address: SocketAddr) -> std::io::Result<Self> {
        let stream = within("a connection", TcpStream::connect(address)).await?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }

    /// Ends the connection with a reset.
    pub fn reset(self) {
        self.stream.set_zero_linger().expect("linger");
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conn<S> {
    /// A connection that stands already.
    pub fn over(stream: S) -> Self {
        Self { stream, buffer: Vec::new(), framing: Framing::Length(0) }
    }

    /// Writes bytes. A peer that has already closed is no failure: tests look at what it answered.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = within("room to write", self.stream.write_all(bytes.as_ref())).await;
    }

    /// Says that no more bytes follow, and goes on reading.
    pub async fn finish_writing(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Reads one whole response, interim ones before it included.
    pub async fn response(&mut self) -> Result<Response, Cut> {
        let mut response = self.head().await.ok_or(Cut { partial: None })?;
        loop {
            match self.piece().await {
                Piece::Data(bytes) => response.body.extend_from_slice(&bytes),
                Piece::End => return Ok(response),
                Piece::Cut => {
                    return Err(Cut { partial: Some(response) });
                }
            }
        }
    }

    /// Reads up to the end of the final response's head.
    pub async fn head(&mut self) -> Option<Response> {
        let mut interim = Vec::new();
        loop {
            let (status, headers) = self.one_head().await?;
            if (100..200).contains(&status) && status != 101 {
                interim.push(status);
                continue;
            }
            self.framing = framing(status, &headers);
            return Some(Response { status, headers, body: Vec::new(), interim });
        }
    }

    /// Reads one head, interim or final.
    pub async fn one_head(&mut self) -> Option<(u16, Vec<(String, String)>)> {
        let head = self.take_until(b"\r\n\r\n").await?;
        let text = String::from_utf8_lossy(&head).into_owned();
        let mut lines = text.split("\r\n").filter(|line| !line.is_empty());
        let status = lines.next()?.split(' ').nth(1)?.parse().expect("a status");
        let headers = lines
            .map(|line| line.split_once(':').expect("a header line"))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Some((status, headers))
    }

    /// The next piece of the body, as soon as there is one.
    pub async fn piece(&mut self) -> Piece {
        match self.framing {
            Framing::Length(0) => Piece::End,
            Framing::Length(left) => match self.some(left).await {
                Some(bytes) => {
                    self.framing = Framing::Length(left - bytes.len());
                    Piece::Data(bytes)
                }
                None => Piece::Cut,
            },
            Framing::Close => self.some(usize::MAX).await.map_or(Piece::End, Piece::Data),
            Framing::Chunked => self.chunk().await.unwrap_or(Piece::Cut),
        }
    }

    /// Reads the body until it holds `wanted`, and gives what was read.
    pub async fn body_until(&mut self, wanted: &[u8]) -> Vec<u8> {
        let mut seen = Vec::new();
        while !seen.windows(wanted.len()).any(|window| window == wanted) {
            match self.piece().await {
                Piece::Data(bytes) => seen.extend_from_slice(&bytes),
                end => panic!("{end:?} after {:?}", String::from_utf8_lossy(&seen)),
            }
        }
        seen
    }

    /// Reads the rest of the body, and says how it ended.
    pub async fn rest(&mut self) -> (Vec<u8>, Piece) {
        let mut seen = Vec::new();
        loop {
            match self.piece().await {
                Piece::Data(bytes) => seen.extend_from_slice(&bytes),
                end => return (seen, end),
            }
        }
    }

    /// Waits until the peer has closed, and gives the bytes that came before.
    pub async fn until_closed(&mut self) -> Vec<u8> {
        while self.fill().await {}
        std::mem::take(&mut self.buffer)
    }

    async fn chunk(&mut self) -> Option<Piece> {
        let line = self.take_until(b"\r\n").await?;
        let text = String::from_utf8_lossy(&line);
        let size = text.trim().split(';').next().expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a hexadecimal size");
        if size == 0 {
            self.take_until(b"\r\n").await?;
            self.framing = Framing::Length(0);
            return Some(Piece::End);
        }
        let mut data = self.take(size + 2).await?;
        data.truncate(size);
        Some(Piece::Data(data))
    }

    async fn take_until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            let found = self.buffer.windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                return Some(self.buffer.drain(..at + end.len()).collect());
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    async fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.buffer.len() < count {
            if !self.fill().await {
                return None;
            }
        }
        Some(self.buffer.drain(..count).collect())
    }

    async fn some(&mut self, most: usize) -> Option<Vec<u8>> {
        if self.buffer.is_empty() && !self.fill().await {
            return None;
        }
        let count = self.buffer.len().min(most);
        Some(self.buffer.drain(..count).collect())
    }

    /// Reads what has come; false at the end of the connection, however it ended.
    async fn fill(&mut self) -> bool {
        let mut bytes = [0; 16 * 1024];
        let read = within("bytes from the gateway", self.stream.read(&mut bytes)).await;
        let count = read.unwrap_or(0);
        self.buffer.extend_from_slice(&bytes[..count]);
        count > 0
    }
}

fn framing(status: u16, headers: &[(String, String)]) -> Framing {
    let value = |name: &str| headers.iter().find(|(held, _)| held == name).map(|(_, v)| v.clone());
    if status < 200 || status == 204 || status == 304 {
        return Framing::Length(0);
    }
    if value("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
        return Framing::Chunked;
    }
    match value("content-length") {
        Some(length) => Framing::Length(length.parse().expect("a length")),
        None => Framing::Close,
    }
}
