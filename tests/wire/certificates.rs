//! Certificates and keys that change while the gateway runs.

use crate::support::{
    Authority, Gateway, Issued, Policy, Request, Setup, TlsClient, Upstream, eventually, pay, run,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

async fn certificates(gateway: &Gateway) -> Value {
    gateway.status().await["certificates"].clone()
}

/// Puts a certificate and its key in place, one after the other, and waits until it is shown.
async fn rotate(gateway: &Gateway, next: &Issued) {
    let before = certificates(gateway).await["revision"].clone();
    gateway.rewrite("cert.pem", &next.pem());
    gateway.rewrite("key.pem", &next.key_pem());
    eventually("the new certificate", || async {
        let now = certificates(gateway).await;
        (now["revision"] != before && now["last_error"].is_null()).then_some(())
    })
    .await;
}

async fn failed(gateway: &Gateway, named: &str) {
    eventually(&format!("a reload to fail with {named}"), || async {
        let error = certificates(gateway).await["last_error"].clone();
        error.as_str().is_some_and(|text| text.contains(named)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_rotation_under_load_fails_no_request() {
    let (upstream, authority) = (Upstream::start().await, Authority::new());
    let gateway = Arc::new(Setup::new(&upstream).tls(&authority.server(), None).start().await);
    let (over, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let client = TlsClient::new(&authority);
    let mut standing = client.connect(gateway.mcp).await.expect("a connection");
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (client, at) = (client.clone(), gateway.mcp);
            let (over, served) = (Arc::clone(&over), Arc::clone(&served));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    client.send(at, &Request::post(pay())).await.assert_first();
                    served.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for _ in 0..5 {
        let before = served.load(Ordering::Relaxed);
        rotate(&gateway, &authority.server()).await;
        standing.send(Request::post(pay()).bytes()).await;
        standing.response().await.expect("on the first certificate still").assert_first();
        eventually("requests after the rotation", || async {
            (served.load(Ordering::Relaxed) > before + 4).then_some(())
        })
        .await;
    }
    over.store(true, Ordering::Relaxed);
    for task in load {
        task.await.expect("no request failed");
    }
}

#[tokio::test]
async fn a_bad_file_keeps_the_last_good_one_and_is_reported() {
    let (upstream, authority) = (Upstream::start().await, Authority::new());
    let server = authority.server();
    let setup = Setup::new(&upstream).tls(&server, Some(&authority));
    let gateway = setup.start().await;
    let client = TlsClient::new(&authority);
    let revision = certificates(&gateway).await["revision"].clone();
    let torn = |text: String| text[..text.len() / 2].to_owned();
    for (name, bad) in [
        ("key.pem", torn(server.key_pem())),
        ("key.pem", String::new()),
        ("key.pem", authority.server().key_pem()),
        ("cert.pem", torn(server.pem())),
        ("cert.pem", "no certificate".to_owned()),
        ("client_ca.pem", torn(authority.pem())),
        ("client_ca.pem", String::new()),
    ] {
        gateway.rewrite_in_place(name, &bad);
        failed(&gateway, name).await;
        client.send(gateway.mcp, &Request::post(pay())).await.assert_first();
        assert_eq!(certificates(&gateway).await["revision"], revision);
        let good = match name {
            "key.pem" => server.key_pem(),
            "cert.pem" => server.pem(),
            _ => authority.pem(),
        };
        gateway.rewrite_in_place(name, &good);
        eventually("the good file to be taken again", || async {
            certificates(&gateway).await["last_error"].is_null().then_some(())
        })
        .await;
    }
    let failures = [("result", "failure")];
    let counted = gateway.metrics().await.sum("onceward_certificate_reloads_total", &failures);
    assert!(counted >= 7, "{counted}");
    let key = server.key_pem();
    let secret = key.lines().nth(1).expect("a line of the key");
    assert!(gateway.stderr().contains("certificates not loaded"), "{}", gateway.stderr());
    assert!(
        !gateway.stderr().contains(secret) && !gateway.status().await.to_string().contains(secret)
    );
}

/// A session certificate of a new authority is known once the authority is, and one of an old
/// authority is not once it is gone.
#[tokio::test]
async fn the_authorities_of_clients_are_read_again_too() {
    let upstream = Upstream::start().await;
    let (old, new) = (Authority::new(), Authority::new());
    let policy = Policy::new(&upstream.url()).with(|document| {
        document["auth"] = json!({"mode": "mtls", "trust_domain": "example.org"});
        document["sessions"] =
            json!([{"name": "s", "human_id": "alice", "consented_trust": "high"}]);
    });
    let gateway = Setup::policies([policy]).tls(&old.server(), Some(&old)).start().await;
    let id = "spiffe://example.org/ns/test/session/s";
    let client = |authority: &Authority| TlsClient::showing(&old, &authority.client(&[id]));
    let (of_old, of_new) = (client(&old), client(&new));
    let request = Request::post(pay());
    of_old.send(gateway.mcp, &request).await.assert_first();
    assert!(of_new.try_send(gateway.mcp, &request).await.is_none());

    let mut standing = of_old.connect(gateway.mcp).await.expect("a connection");
    gateway.rewrite("client_ca.pem", &new.pem());
    eventually("the new authority", || of_new.try_send(gateway.mcp, &request)).await.assert_first();
    // Resuming an old session is no way around the new authority.
    assert!(of_old.try_send(gateway.mcp, &request).await.is_none());
    standing.send(request.bytes()).await;
    standing.response().await.expect("a connection that stands").assert_first();
}

#[tokio::test]
async fn a_start_without_usable_certificates_fails_and_check_says_why() {
    let (upstream, authority) = (Upstream::start().await, Authority::new());
    let good = authority.server();
    for (certificate, expected) in [(&good, "cannot be used together"), (&good, "key.pem")] {
        let setup = Setup::new(&upstream).tls(certificate, None);
        let config = setup.write();
        let key = config.with_file_name("key.pem");
        std::fs::write(key, authority.server().key_pem()).expect("write");
        let config = config.to_string_lossy().into_owned();
        for command in ["check", "serve"] {
            let finished = run(&[command, "--config", &config]).await;
            assert_eq!(finished.status.code(), Some(1), "{command}");
            assert!(finished.stderr.contains(expected), "{command}: {}", finished.stderr);
        }
    }
    let setup = Setup::new(&upstream).tls(&good, Some(&authority));
    let config = setup.write().to_string_lossy().into_owned();
    let finished = run(&["check", "--config", &config]).await;
    assert!(finished.status.success(), "{}", finished.stderr);
    for part in ["cert.pem with ", "handshakes  256 at a time, 5s each", "client_ca.pem", "sha256:"]
    {
        assert!(finished.stdout.contains(part), "{part}: {}", finished.stdout);
    }
}

#[tokio::test]
async fn mtls_on_a_listener_without_an_authority_is_refused_at_load() {
    let (upstream, authority) = (Upstream::start().await, Authority::new());
    let policy = Policy::new(&upstream.url()).with(|document| {
        document["auth"] = json!({"mode": "mtls", "trust_domain": "example.org"});
    });
    for secured in [false, true] {
        let setup = Setup::policies([policy.clone()]);
        let setup = if secured { setup.tls(&authority.server(), None) } else { setup };
        let config = setup.write().to_string_lossy().into_owned();
        let finished = run(&["check", "--config", &config]).await;
        assert_eq!(finished.status.code(), Some(1));
        assert!(
            finished.stderr.contains("auth.mode: `mtls` needs a listener"),
            "{}",
            finished.stderr
        );
        assert!(finished.stderr.contains("client_ca"), "{}", finished.stderr);
    }
}
