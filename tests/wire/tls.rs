//! Upstreams over HTTPS.

use crate::support::{Gateway, Issuer, Request, Setup, Upstream, pay};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A TLS listener for `localhost` in front of a server, and the root that vouches for it.
pub struct Secured {
    address: SocketAddr,
    folder: TempDir,
}

impl Secured {
    /// In front of what listens there.
    pub async fn in_front_of(server: SocketAddr) -> Self {
        let mut issuer = CertificateParams::default();
        issuer.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer_key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(issuer, issuer_key).expect("a root");
        let key = KeyPair::generate().expect("a key");
        let leaf = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");

        let folder = tempfile::tempdir().expect("a folder");
        let root = BASE64_STANDARD.encode(issuer.der());
        let root = format!("-----BEGIN CERTIFICATE-----\n{root}\n-----END CERTIFICATE-----\n");
        std::fs::write(folder.path().join("root.pem"), root).expect("write");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .expect("a configuration");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(terminate(listener, TlsAcceptor::from(Arc::new(config)), server));
        Self { address, folder }
    }

    /// `localhost` and its port.
    pub fn authority(&self) -> String {
        format!("localhost:{}", self.address.port())
    }

    /// The file with its root.
    pub fn root(&self) -> String {
        self.folder.path().join("root.pem").to_string_lossy().into_owned()
    }

    fn url(&self) -> String {
        format!("https://{}", self.authority())
    }

    /// A gateway in front of it that trusts the root, or only those of the system.
    async fn gateway(&self, upstream: &Upstream, trusted: bool) -> Gateway {
        let url = format!("{}/mcp", self.url());
        let setup = Setup::new(upstream)
            .policy(|policy| policy.with(|document| document["server"]["upstream"] = json!(url)));
        self.start(setup, trusted).await
    }

    async fn start(&self, setup: Setup, trusted: bool) -> Gateway {
        match trusted {
            true => setup.env("SSL_CERT_FILE", &self.root()).start().await,
            false => setup.start().await,
        }
    }
}

async fn terminate(listener: TcpListener, acceptor: TlsAcceptor, upstream: SocketAddr) {
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let Ok(mut secured) = acceptor.accept(stream).await else { return };
            let Ok(mut plain) = TcpStream::connect(upstream).await else { return };
            let _ = tokio::io::copy_bidirectional(&mut secured, &mut plain).await;
        });
    }
}

#[tokio::test]
async fn an_upstream_over_https_is_called_like_any_other() {
    let upstream = Upstream::start().await;
    let secured = Secured::in_front_of(upstream.address()).await;
    let gateway = secured.gateway(&upstream, true).await;
    let first = gateway.call("K1", pay()).await;
    first.assert_first();
    gateway.call("K1", pay()).await.assert_replays(&first);
    gateway.send(&Request::post(pay())).await.assert_first();
    assert_eq!(upstream.hits(), 2);
}

#[tokio::test]
async fn an_upstream_that_nobody_vouches_for_is_sent_nothing() {
    let upstream = Upstream::start().await;
    let secured = Secured::in_front_of(upstream.address()).await;
    let gateway = secured.gateway(&upstream, false).await;
    for _ in 0..2 {
        gateway.call("K1", pay()).await.assert_refused(502, "upstream_unreachable");
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn an_audit_sink_over_https_must_be_vouched_for_too() {
    let upstream = Upstream::start().await;
    let collector = Upstream::start().await;
    let secured = Secured::in_front_of(collector.address()).await;
    let setup = || {
        let sink = format!("\"https://localhost:{}/audit\"", secured.address.port());
        Setup::new(&upstream).set("audit", "sink", &sink)
    };
    let mut unknown = secured.start(setup(), false).await;
    unknown.send(&Request::post(pay())).await;
    unknown.sigterm();
    unknown.wait().await;
    assert_eq!(collector.hits(), 0);
    let mut trusting = secured.start(setup(), true).await;
    trusting.send(&Request::post(pay())).await;
    trusting.sigterm();
    trusting.wait().await;
    assert_eq!(collector.hit(1).await.line, "POST /audit HTTP/1.1");
}

#[tokio::test]
async fn an_issuers_keys_come_from_whom_somebody_vouches_for() {
    let (upstream, issuer) = (Upstream::start().await, Issuer::start().await);
    let secured = Secured::in_front_of(issuer.address()).await;
    issuer.is_called(&secured.url());
    let request = Request::post(pay()).bearer(&issuer.token(|_| {}));
    for trusted in [true, false] {
        let setup = Setup::new(&upstream)
            .policy(|policy| policy.with(|document| document["auth"] = issuer.auth()));
        let answer = secured.start(setup, trusted).await.send(&request).await;
        match trusted {
            true => answer.assert_first(),
            false => answer.assert_refused(503, "issuer_unavailable"),
        }
    }
    assert_eq!(upstream.hits(), 1);
}
