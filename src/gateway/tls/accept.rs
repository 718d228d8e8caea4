//! The beginning of a connection: its handshake, bounded in time and number.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_web::rt::net::TcpStream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::watch::TlsWatch;
use crate::gateway::error::Refusal;
use crate::identity::Peer;
use crate::observe::HandshakeFailures;

/// A connection whose handshake is done.
pub type Secured = tokio_rustls::server::TlsStream<TcpStream>;

/// The first byte of every TLS connection: a handshake record.
const HANDSHAKE_RECORD: u8 = 22;

/// The most bytes that are read of a client without TLS.
const PLAIN_BYTES: u64 = 1024 * 1024;

/// Why a connection did not begin. The client is told by a TLS alert, where it can be.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The handshake did not end in time.
    #[error("the handshake took longer than `listen.tls.handshake_timeout`")]
    TimedOut,
    /// The client left without a word, as probes of a port do.
    #[error("the client said nothing")]
    Silent,
    /// The client speaks HTTP without TLS, and was told so.
    #[error("the client does not speak TLS")]
    NotTls,
    /// The connection broke, or TLS refused it: a protocol of the past, a certificate that the
    /// authorities do not vouch for, or one that has expired.
    #[error(transparent)]
    Failed(io::Error),
}

/// Begins connections, of all workers.
#[derive(Debug)]
pub struct Acceptor {
    watch: Arc<TlsWatch>,
    deadline: Duration,
    handshakes: Semaphore,
    failures: Failures,
}

#[derive(Debug, Default)]
struct Failures {
    timeout: AtomicU64,
    not_tls: AtomicU64,
    refused: AtomicU64,
}

impl Acceptor {
    /// Handshakes under what `watch` holds, at most `most` at a time, each within `deadline`; the
    /// wait for a turn has the same bound.
    pub fn new(watch: Arc<TlsWatch>, deadline: Duration, most: usize) -> Self {
        let handshakes = Semaphore::new(most.min(Semaphore::MAX_PERMITS));
        Self { watch, deadline, handshakes, failures: Failures::default() }
    }

    /// What it begins connections with.
    pub fn watch(&self) -> &TlsWatch {
        &self.watch
    }

    /// The connections so far that did not begin.
    pub fn failures(&self) -> HandshakeFailures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HandshakeFailures {
            timeout: read(&self.failures.timeout),
            not_tls: read(&self.failures.not_tls),
            refused: read(&self.failures.refused),
        }
    }

    /// One connection's handshake.
    ///
    /// # Errors
    ///
    /// [`HandshakeError`]; the connection is closed.
    pub async fn accept(&self, stream: TcpStream) -> Result<Secured, HandshakeError> {
        let outcome = self.begin(stream).await;
        if let Err(error) = &outcome {
            if let Some(counter) = self.failures.of(error) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
            tracing::debug!(%error, "a connection did not begin");
        }
        outcome
    }

    async fn begin(&self, stream: TcpStream) -> Result<Secured, HandshakeError> {
        // A client that has sent nothing yet takes no turn from one that has.
        match self.bounded(first_byte(&stream)).await? {
            Some(HANDSHAKE_RECORD) => {}
            None => return Err(HandshakeError::Silent),
            Some(_) => {
                // Whether it listens to the answer is its own affair.
                let _told = self.bounded(answer_plainly(stream)).await;
                return Err(HandshakeError::NotTls);
            }
        }
        let turn = async { self.handshakes.acquire().await.map_err(io::Error::other) };
        let _turn = self.bounded(turn).await?;
        let config = Arc::clone(&self.watch.snapshot().config);
        self.bounded(TlsAcceptor::from(config).accept(stream)).await
    }

    async fn bounded<T>(
        &self,
        step: impl Future<Output = io::Result<T>>,
    ) -> Result<T, HandshakeError> {
        let step = timeout(self.deadline, step).await;
        step.map_err(|_| HandshakeError::TimedOut)?.map_err(HandshakeError::Failed)
    }
}

impl Failures {
    fn of(&self, error: &HandshakeError) -> Option<&AtomicU64> {
        match error {
            HandshakeError::TimedOut => Some(&self.timeout),
            HandshakeError::NotTls => Some(&self.not_tls),
            HandshakeError::Failed(_) => Some(&self.refused),
            HandshakeError::Silent => None,
        }
    }
}

/// What a client begins with, left where it is; `None` if it leaves.
async fn first_byte(stream: &TcpStream) -> io::Result<Option<u8>> {
    let mut first = [0];
    let found = stream.peek(&mut first).await?;
    Ok((found > 0).then_some(first[0]))
}

/// Tells a client without TLS what is wrong, in an answer that it understands.
async fn answer_plainly(mut stream: TcpStream) -> io::Result<()> {
    let refusal = Refusal::tls_required();
    let body = refusal.body(None);
    let answer = format!(
        "HTTP/1.1 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        refusal.status,
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // Closing with unread bytes would reset the connection, and the answer with it.
    let mut rest = stream.take(PLAIN_BYTES);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await.map(drop)
}

/// What the verified client certificate of a connection says, if it has one.
pub fn peer(stream: &Secured) -> Option<Peer> {
    let (_, session) = stream.get_ref();
    session.peer_certificates()?.first().map(|certificate| Peer::of(certificate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::tls::TlsFiles;
    use actix_web::rt::net::TcpListener;
    use tokio_rustls::rustls;

    /// An acceptor of one handshake at a time, the certificate that it shows, and its files.
    fn acceptor(deadline: Duration) -> (Acceptor, rustls::RootCertStore, tempfile::TempDir) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let pem = |label: &str, der: &[u8]| {
            let body = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, der);
            format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
        };
        std::fs::write(path("cert"), pem("CERTIFICATE", made.cert.der())).expect("written");
        let key = made.signing_key.serialize_der();
        std::fs::write(path("key"), pem("PRIVATE KEY", &key)).expect("written");
        let files = TlsFiles { cert: path("cert"), key: path("key"), client_ca: None };
        let watch = Arc::new(TlsWatch::load(files).expect("usable"));
        let mut roots = rustls::RootCertStore::empty();
        roots.add(made.cert.der().clone()).expect("a root");
        (Acceptor::new(watch, deadline, 1), roots, folder)
    }

    /// A client that begins a handshake, and the stream on which it arrives.
    async fn client(roots: rustls::RootCertStore) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("an address");
        let config =
            rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        tokio::spawn(async move {
            let stream = TcpStream::connect(address).await.expect("connect");
            let name = "localhost".try_into().expect("a name");
            let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
            let _held = connector.connect(name, stream).await;
            std::future::pending::<()>().await;
        });
        listener.accept().await.expect("a connection").0
    }

    #[tokio::test]
    async fn a_handshake_waits_for_its_turn_and_no_longer_than_the_bound() {
        let (acceptor, roots, _folder) = acceptor(Duration::from_millis(50));
        let turn = acceptor.handshakes.acquire().await.expect("the only turn");
        let refused = acceptor.accept(client(roots.clone()).await).await;
        assert!(matches!(refused, Err(HandshakeError::TimedOut)), "{refused:?}");
        drop(turn);
        let (acceptor, roots, _folder) = self::acceptor(Duration::from_secs(60));
        for _ in 0..2 {
            assert!(acceptor.accept(client(roots.clone()).await).await.is_ok(), "turns come back");
        }
    }
}
