//! TLS on the MCP listener (CONTRACT section 10): real clients, and clients that do it wrongly.

use crate::support::{
    Authority, Conn, Gateway, Request, Setup, TlsClient, Upstream, eventually, pay, within,
};
use std::process::Output;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The first bytes of a handshake record, and nothing after them.
const HALF_A_HELLO: [u8; 6] = [22, 3, 1, 2, 0, 1];

async fn secured(upstream: &Upstream, authority: &Authority) -> Gateway {
    Setup::new(upstream).tls(&authority.server(), None).start().await
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}\n{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

#[tokio::test]
async fn curl_and_openssl_are_answered_as_over_plain_http() {
    let (upstream, authority) = (Upstream::start().await, Authority::new());
    let gateway = secured(&upstream, &authority).await;
    let client = TlsClient::new(&authority);
    let call = pay();
    let arguments = [
        "--header",
        "Content-Type: application/json",
        "--header",
        "Authorization: Bearer token-of-A",
        "--header",
        "Idempotency-Key: K1",
        "--data",
        &call,
    ];
    for version in ["--tlsv1.2", "--tlsv1.3"] {
        let output = client.curl(gateway.mcp, &[&[version][..], &arguments].concat()).await;
        assert!(output.status.success(), "{}", text(&output));
        assert!(text(&output).starts_with("HTTP/1.1 200"), "{}", text(&output));
    }
    let request = Request::keyed("K1", call).set("Connection", "close").bytes();
    let output = client.s_client(gateway.mcp, &["-alpn", "http/1.1"], &request).await;
    assert!(
        text(&output).to_lowercase().contains("idempotency-replayed: true"),
        "{}",
        text(&output)
    );
    assert_eq!(upstream.hits(), 1, "a first call and two replays");
}

#[tokio::test]
async fn a_client_that_asks_for_100_continue_is_served_over_tls_too() {
    let (upstream, authority) = (Upstream::start().await, Authority::new());
    let gateway = secured(&upstream, &authority).await;
    let request = Request::keyed("K1", pay()).header("Expect", "100-continue");
    let answer = TlsClient::new(&authority).send(gateway.mcp, &request).await;
    answer.assert_first();
    assert_eq!(answer.interim, [100]);
}

#[tokio::test]
async fn a_protocol_of_the_past_is_refused() {
    let (upstream, authority) = (Upstream::start().await, Authority::new());
    let gateway = secured(&upstream, &authority).await;
    let client = TlsClient::new(&authority);
    let request = Request::post(pay()).set("Connection", "close").bytes();
    for version in ["-tls1", "-tls1_1"] {
        let arguments = [version, "-cipher", "DEFAULT@SECLEVEL=0"];
        let output = client.s_client(gateway.mcp, &arguments, &request).await;
        assert!(!output.status.success(), "{version}: {}", text(&output));
        assert!(text(&output).contains("SSL alert number"), "{version}: {}", text(&output));
        assert!(output.stdout.is_empty(), "{version}: {}", text(&output));
    }
    assert_eq!(upstream.hits(), 0);
    client.send(gateway.mcp, &Request::post(pay())).await.assert_first();
}

#[tokio::test]
async fn plain_http_on_the_tls_port_is_told_so_and_goes_nowhere() {
    let (upstream, authority) = (Upstream::start().await, Authority::new());
    let gateway = secured(&upstream, &authority).await;
    let answer = gateway.send(&Request::keyed("K1", pay())).await;
    answer.assert_refused(400, "tls_required");
    assert_eq!(answer.header("Connection"), Some("close"));
    eventually("it to be counted", || async {
        (failures(&gateway, "not_tls").await == 1).then_some(())
    })
    .await;
    assert_eq!(upstream.hits(), 0);
    TlsClient::new(&authority).send(gateway.mcp, &Request::post(pay())).await.assert_first();
}

#[tokio::test]
async fn a_server_that_the_client_does_not_trust_gets_no_request() {
    let (upstream, authority) = (Upstream::start().await, Authority::new());
    let gateway = secured(&upstream, &authority).await;
    let stranger = TlsClient::new(&Authority::new());
    assert!(stranger.try_send(gateway.mcp, &Request::post(pay())).await.is_none());
    eventually("it to be counted", || async {
        (failures(&gateway, "refused").await == 1).then_some(())
    })
    .await;
    assert_eq!(upstream.hits(), 0);
}

async fn failures(gateway: &Gateway, cause: &str) -> u64 {
    gateway.metrics().await.sum("onceward_handshake_failures_total", &[("cause", cause)])
}

/// Whether the gateway closes the connection.
async fn is_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let _ = within("the gateway to close", stream.read_to_end(&mut rest)).await;
}

#[tokio::test]
async fn clients_that_stall_are_cut_off_and_hold_nobody_up() {
    let (upstream, authority) = (Upstream::start().await, Authority::new());
    let setup = Setup::new(&upstream)
        .tls(&authority.server(), None)
        .set("listen.tls", "handshake_timeout", "\"500ms\"")
        .set("listen.tls", "max_handshakes", "2");
    let gateway = setup.start().await;
    let mut stalled = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(gateway.mcp).await.expect("connect");
        stream.write_all(&HALF_A_HELLO).await.expect("write");
        stalled.push(stream);
    }
    let client = TlsClient::new(&authority);
    eventually("a client behind them to be served", || async {
        client.try_send(gateway.mcp, &Request::keyed("K1", pay())).await
    })
    .await
    .assert_first();
    for stream in &mut stalled {
        is_closed(stream).await;
    }
    eventually("each to be counted", || async {
        (failures(&gateway, "timeout").await >= 4).then_some(())
    })
    .await;
}

#[tokio::test]
async fn clients_that_say_nothing_take_no_turn() {
    let (upstream, authority) = (Upstream::start().await, Authority::new());
    let setup = Setup::new(&upstream)
        .tls(&authority.server(), None)
        .set("listen.tls", "handshake_timeout", "\"1h\"")
        .set("listen.tls", "max_handshakes", "1");
    let gateway = setup.start().await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(Conn::open(gateway.mcp).await);
    }
    let client = TlsClient::new(&authority);
    client.send(gateway.mcp, &Request::post(pay())).await.assert_first();
}

#[tokio::test]
async fn a_running_call_settles_and_is_answered_in_a_shutdown() {
    let (upstream, authority) = (Upstream::start().await, Authority::new());
    let mut gateway = secured(&upstream, &authority).await;
    let gate = crate::support::Gate::new();
    let reply =
        crate::support::json_reply(200, &crate::support::result_for(pay().as_bytes(), "late"));
    upstream.script(crate::support::Reply::silent().wait(&gate).send(reply));
    let client = TlsClient::new(&authority);
    let mut waiting = client.connect(gateway.mcp).await.expect("a connection");
    waiting.send(Request::keyed("K1", pay()).bytes()).await;
    upstream.hit(1).await;
    gateway.sigterm();
    eventually("new clients to be refused", || async {
        TcpStream::connect(gateway.mcp).await.is_err().then_some(())
    })
    .await;
    gate.open();
    waiting.response().await.expect("the answer").assert_first();
    assert!(gateway.wait().await.success());
}
