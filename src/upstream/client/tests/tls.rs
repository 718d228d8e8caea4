//! TLS: whom the client trusts, and that a failed handshake sent nothing.

use std::io::Write;

use base64::Engine;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::scripted::{Connection, Hits, Upstream};
use super::*;

/// A certificate authority of its own, for `localhost`.
fn certificate() -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    (made.cert.der().clone(), key)
}

fn trusting(certificate: CertificateDer<'static>) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a root");
    Client::new(PATIENT, &Trust::roots(roots).expect("TLS set up"))
}

/// An `https` upstream with this certificate that answers every request.
async fn serving(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> (Upstream, Hits) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a server");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let hits = Hits::default();
    let seen = hits.clone();
    let upstream = Upstream::start(move |number, connection| {
        let acceptor = acceptor.clone();
        let hits = seen.clone();
        async move {
            let Ok(stream) = acceptor.accept(connection.stream).await else {
                return;
            };
            let mut connection = Connection { number, stream, hits };
            while connection.request().await {
                connection.write(OK).await;
            }
        }
    })
    .await;
    (upstream, hits)
}

fn https(upstream: &Upstream) -> String {
    format!("https://localhost:{}/mcp", upstream.address.port())
}

#[tokio::test]
async fn an_upstream_of_a_trusted_authority_is_reached() {
    let (certificate, key) = certificate();
    let (upstream, hits) = serving(certificate.clone(), key).await;
    let client = trusting(certificate);
    for _ in 0..2 {
        let response = client.send(post(https(&upstream))).await.expect("a reply");
        assert_eq!(read(response.body).await, Ok(b"ok".to_vec()));
    }
    let connections: Vec<usize> = hits.all().iter().map(|(number, _)| *number).collect();
    assert_eq!(connections, [0, 0]);
}

/// What `SSL_CERT_FILE` leads to: a file of certificates in PEM form.
#[tokio::test]
async fn an_authority_of_the_systems_store_is_trusted() {
    let (certificate, key) = certificate();
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(
        file,
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----",
        base64::engine::general_purpose::STANDARD.encode(&certificate)
    )
    .expect("written");
    let (upstream, hits) = serving(certificate, key).await;
    let found = rustls_native_certs::load_certs_from_paths(Some(file.path()), None);
    let client = Client::new(PATIENT, &Trust::found(found).expect("TLS set up"));
    client.send(post(https(&upstream))).await.expect("a reply");
    assert_eq!(hits.of("/mcp"), 1);
}

#[tokio::test]
async fn a_system_without_a_store_still_reaches_plain_upstreams() {
    let upstream = Upstream::replying(OK).await;
    let nothing = rustls_native_certs::CertificateResult::default();
    let client = Client::new(PATIENT, &Trust::found(nothing).expect("TLS set up"));
    client.send(post(upstream.url("/mcp"))).await.expect("a reply");
}

#[tokio::test]
async fn an_untrusted_certificate_is_unsent() {
    let (certificate, key) = certificate();
    let (upstream, hits) = serving(certificate, key).await;
    let failure = client(PATIENT).send(post(https(&upstream))).await;
    assert_eq!(failure.err(), Some(Failure::Unsent(UnsentCause::Tls)));
    assert_eq!(hits.of("/mcp"), 0);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_unsent() {
    let (certificate, key) = certificate();
    let (upstream, hits) = serving(certificate.clone(), key).await;
    let url = format!("https://127.0.0.1:{}/mcp", upstream.address.port());
    let failure = trusting(certificate).send(post(url)).await;
    assert_eq!(failure.err(), Some(Failure::Unsent(UnsentCause::Tls)));
    assert_eq!(hits.of("/mcp"), 0);
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_unsent() {
    let upstream = Upstream::start(|_, mut connection| async move {
        connection.write(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        connection.closed().await;
    })
    .await;
    let failure = client(PATIENT).send(post(https(&upstream))).await;
    assert_eq!(failure.err(), Some(Failure::Unsent(UnsentCause::Tls)));
}

#[tokio::test]
async fn a_handshake_that_breaks_off_is_unsent() {
    let upstream = Upstream::start(|_, connection| async move { drop(connection) }).await;
    let failure = client(PATIENT).send(post(https(&upstream))).await;
    assert!(matches!(failure, Err(Failure::Unsent(_))), "{failure:?}");
}

#[tokio::test]
async fn a_silent_handshake_is_unsent_and_no_response_time_out_runs_meanwhile() {
    let upstream = Upstream::start(|_, mut connection| async move {
        connection.closed().await;
    })
    .await;
    let timeouts = Timeouts { connect: SHORT, response: Duration::from_millis(1), idle: LONG };
    let failure = client(timeouts).send(post(https(&upstream))).await;
    assert_eq!(failure.err(), Some(Failure::Unsent(UnsentCause::Timeout)));
}
