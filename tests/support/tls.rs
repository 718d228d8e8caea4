//! Certificates made for a test, and clients that show them.

use super::http::Conn;
use super::message::{Request, Response};
use super::within;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType, string,
};
use std::fmt::Write;
use std::net::SocketAddr;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName,
};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A certificate authority of its own.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
#[derive(Clone)]
pub struct Issued {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Authority {
    /// Another one each time, of another name.
    pub fn new() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        Self::named(&format!("authority {}", MADE.fetch_add(1, Ordering::Relaxed)))
    }

    /// One of this name, with a key of its own.
    pub fn named(name: &str) -> Self {
        let mut root = CertificateParams::default();
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        root.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(root, key).expect("a root"))
    }

    /// What trusts it reads.
    pub fn pem(&self) -> String {
        pem("CERTIFICATE", self.0.der())
    }

    /// A server's certificate for `localhost`.
    pub fn server(&self) -> Issued {
        self.issue(CertificateParams::new(["localhost".to_owned()]).expect("a name"))
    }

    /// A client's certificate with these URIs for names.
    pub fn client(&self, uris: &[&str]) -> Issued {
        self.client_with(uris, |_| {})
    }

    /// [`Authority::client`], changed.
    pub fn client_with(
        &self,
        uris: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Issued {
        let mut params = CertificateParams::new(["client.test".to_owned()]).expect("a name");
        for uri in uris {
            let name = string::Ia5String::try_from(*uri).expect("a URI");
            params.subject_alt_names.push(SanType::URI(name));
        }
        change(&mut params);
        self.issue(params)
    }

    fn issue(&self, params: CertificateParams) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Issued { certificate: certificate.der().clone(), key: key.serialize_der() }
    }
}

impl Issued {
    /// The certificate's file.
    pub fn pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// The key's file.
    pub fn key_pem(&self) -> String {
        pem("PRIVATE KEY", &self.key)
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in BASE64_STANDARD.encode(der).as_bytes().chunks(64) {
        writeln!(text, "{}", String::from_utf8_lossy(line)).expect("text");
    }
    text + &format!("-----END {label}-----\n")
}

/// A client that trusts an authority and may show a certificate.
#[derive(Clone)]
pub struct TlsClient {
    connector: TlsConnector,
    files: Arc<TempDir>,
    shown: bool,
}

impl TlsClient {
    /// Shows nothing.
    pub fn new(trusted: &Authority) -> Self {
        Self::make(trusted, None)
    }

    /// Shows a certificate.
    pub fn showing(trusted: &Authority, certificate: &Issued) -> Self {
        Self::make(trusted, Some(certificate))
    }

    fn make(trusted: &Authority, certificate: Option<&Issued>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.0.der().clone()).expect("a root");
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let files = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: String| {
            std::fs::write(files.path().join(name), text).expect("write");
        };
        write("ca.pem", trusted.pem());
        let config = match certificate {
            None => builder.with_no_client_auth(),
            Some(issued) => {
                write("cert.pem", issued.pem());
                write("key.pem", issued.key_pem());
                let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(issued.key.clone()));
                builder
                    .with_client_auth_cert(vec![issued.certificate.clone()], key)
                    .expect("a client's certificate")
            }
        };
        let connector = TlsConnector::from(Arc::new(config));
        Self { connector, files: Arc::new(files), shown: certificate.is_some() }
    }

    /// A connection whose handshake is done, as far as the client can tell.
    pub async fn connect(
        &self,
        address: SocketAddr,
    ) -> std::io::Result<Conn<TlsStream<TcpStream>>> {
        let stream = within("a connection", TcpStream::connect(address)).await?;
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = within("a handshake", self.connector.connect(name, stream)).await?;
        Ok(Conn::over(stream))
    }

    /// One request on a connection of its own; `None` where the connection ends without an answer.
    pub async fn try_send(&self, address: SocketAddr, request: &Request) -> Option<Response> {
        let mut connection = self.connect(address).await.ok()?;
        connection.send(request.bytes()).await;
        connection.response().await.ok()
    }

    /// One request that is answered.
    pub async fn send(&self, address: SocketAddr, request: &Request) -> Response {
        self.try_send(address, request).await.expect("an answer over TLS")
    }

    /// `curl` to `/mcp` with these arguments.
    pub async fn curl(&self, address: SocketAddr, arguments: &[&str]) -> Output {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--include", "--max-time", "30", "--cacert"]);
        command.arg(self.files.path().join("ca.pem"));
        if self.shown {
            command.arg("--cert").arg(self.files.path().join("cert.pem"));
            command.arg("--key").arg(self.files.path().join("key.pem"));
        }
        command.args(["--resolve", &format!("localhost:{}:{}", address.port(), address.ip())]);
        command.args(arguments).arg(format!("https://localhost:{}/mcp", address.port()));
        run(command, b"").await
    }

    /// `openssl s_client` with these arguments and this input.
    pub async fn s_client(&self, address: SocketAddr, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", &address.to_string(), "-servername", "localhost"]);
        command.args(["-verify_return_error", "-quiet", "-CAfile"]);
        command.arg(self.files.path().join("ca.pem"));
        if self.shown {
            command.arg("-cert").arg(self.files.path().join("cert.pem"));
            command.arg("-key").arg(self.files.path().join("key.pem"));
        }
        command.args(arguments);
        run(command, input).await
    }
}

async fn run(mut command: Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("the program is installed");
    let mut stdin = child.stdin.take().expect("its input");
    // A program that has ended takes nothing.
    let _ = stdin.write_all(input).await;
    let ended = within("the program's end", child.wait_with_output()).await;
    drop(stdin);
    ended.expect("its output")
}
