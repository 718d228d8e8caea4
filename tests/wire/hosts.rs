//! Web pages whose name was made to lead to this machine (DNS rebinding): MCP, Transports.

use crate::support::{Conn, Gateway, Request, Setup, Upstream, call, pay};
use serde_json::json;

async fn admin(gateway: &Gateway, path: &str, host: &str) -> u16 {
    let mut connection = Conn::open(gateway.admin).await;
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
    connection.response().await.expect("an answer").status
}

#[tokio::test]
async fn a_loopback_listener_answers_under_its_machines_names_only() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for host in ["evil.example", "evil.example:8080", "localhost.evil.example", "10.0.0.1", ""] {
        for request in [
            Request::post(pay()),
            Request::keyed("K1", pay()),
            Request::new("GET", "/mcp"),
            Request::new("OPTIONS", "/mcp").header("Access-Control-Request-Method", "POST"),
            Request::keyed("K1", pay()).header("Expect", "100-continue"),
            Request::new("GET", "/nowhere"),
        ] {
            let answer = gateway.send(&request.set("Host", host)).await;
            answer.assert_refused(403, "host_not_allowed");
            assert_eq!(answer.interim, Vec::<u16>::new());
        }
    }
    let mut connection = gateway.connect().await;
    let absolute = "GET http://evil.example/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n";
    connection.send(absolute.to_owned()).await;
    let answer = connection.response().await.expect("an answer");
    answer.assert_refused(403, "host_not_allowed");
    let twice = Request::post(pay()).header("Host", "localhost");
    assert!(gateway.send(&twice).await.status >= 400);
    assert_eq!(upstream.hits(), 0);
    for host in ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "[::1]:8080"] {
        gateway.send(&Request::post(pay()).set("Host", host)).await.assert_first();
    }
}

#[tokio::test]
async fn the_admin_listener_shows_a_foreign_name_nothing() {
    let gateway = Gateway::start(&Upstream::start().await).await;
    for path in ["/healthz", "/readyz", "/metrics", "/v1/status"] {
        assert_eq!(admin(&gateway, path, "evil.example").await, 403, "{path}");
        assert_eq!(admin(&gateway, path, "127.0.0.1").await, 200, "{path}");
    }
}

#[tokio::test]
async fn a_proxy_that_keeps_the_name_is_let_in_by_configuration() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).set("listen", "allowed_hosts", "[\"mcp.example.com\"]");
    let gateway = setup.start().await;
    let named = |host: &str| Request::post(call("read", json!({}))).set("Host", host);
    gateway.send(&named("mcp.example.com")).await.assert_first();
    gateway.send(&named("MCP.example.com:443")).await.assert_first();
    gateway.send(&named("example.com")).await.assert_refused(403, "host_not_allowed");
    assert_eq!(admin(&gateway, "/healthz", "mcp.example.com").await, 200);
}
