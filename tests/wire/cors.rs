//! Browsers: Origin validation, preflight and exposed headers (CONTRACT section 7).

use crate::support::{
    Gateway, KEY, Reply, Request, Response, Setup, Upstream, http, pay, result_for,
};

const A: &str = "https://a.example";
const B: &str = "https://b.example";

async fn browsable(upstream: &Upstream) -> Gateway {
    let origins = format!("[{A:?}, {B:?}]");
    Setup::new(upstream).set("listen", "allowed_origins", &origins).start().await
}

fn preflight(origin: &str, wanted: &str) -> Request {
    Request::new("OPTIONS", "/mcp")
        .without("Authorization")
        .header("Origin", origin)
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", wanted)
}

#[track_caller]
fn assert_readable_by(response: &Response, origin: &str) {
    assert_eq!(response.header("Access-Control-Allow-Origin"), Some(origin), "{response:?}");
    assert!(response.lists("Vary", "Origin"), "{response:?}");
    for name in ["Idempotency-Replayed", KEY, "Retry-After"] {
        assert!(response.lists("Access-Control-Expose-Headers", name), "{name} in {response:?}");
    }
}

#[tokio::test]
async fn a_preflight_is_answered_first_and_allows_the_key() {
    let upstream = Upstream::start().await;
    let gateway = browsable(&upstream).await;
    let wanted =
        "idempotency-key, content-type, authorization, mcp-session-id, mcp-protocol-version";
    let plain = preflight(B, wanted);
    // Were it looked at, this key would be refused.
    let keyed = preflight(B, wanted).header(KEY, "not a key");
    for request in [plain, keyed] {
        let answer = gateway.send(&request).await;
        assert!(matches!(answer.status, 200 | 204), "{} {}", answer.status, answer.text());
        assert_eq!(answer.header("Access-Control-Allow-Origin"), Some(B));
        assert!(answer.lists("Access-Control-Allow-Methods", "POST"), "{answer:?}");
        for name in wanted.split(", ") {
            assert!(answer.lists("Access-Control-Allow-Headers", name), "{name} in {answer:?}");
        }
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn replays_and_refusals_carry_the_headers_of_their_own_origin() {
    let upstream = Upstream::start().await;
    let gateway = browsable(&upstream).await;
    let headers = [
        ("Content-Type", "application/json"),
        ("Access-Control-Allow-Origin", A),
        ("Access-Control-Expose-Headers", "X-Upstream"),
        ("Vary", "X-Upstream"),
    ];
    upstream.script(Reply::raw(http(200, &headers, result_for(pay().as_bytes(), "x"))));
    let request = Request::keyed("K1", pay());
    let first = gateway.send(&request.clone().header("Origin", A)).await;
    first.assert_first();
    assert_readable_by(&first, A);
    let replay = gateway.send(&request.clone().header("Origin", B)).await;
    replay.assert_replays(&first);
    assert_readable_by(&replay, B);
    assert!(!replay.lists("Vary", "X-Upstream"), "a header of the first reply was replayed");

    let other = crate::support::call("pay", serde_json::json!({"amount": 99}));
    let conflict = gateway.send(&Request::keyed("K1", other).header("Origin", B)).await;
    conflict.assert_refused(409, "idempotency_key_conflict");
    assert_readable_by(&conflict, B);
    let stranger = gateway.send(&request.clone().bearer("wrong").header("Origin", B)).await;
    assert_eq!(stranger.status, 401);
    assert_readable_by(&stranger, B);
    let broken = gateway.send(&Request::post("{").header("Origin", B)).await;
    broken.assert_rpc_error(400, -32700);
    assert_readable_by(&broken, B);
}

#[tokio::test]
async fn a_foreign_origin_is_refused_before_anything_happens() {
    let upstream = Upstream::start().await;
    let gateway = browsable(&upstream).await;
    let foreign = [
        "https://evil.example",
        "http://a.example",
        "https://a.example:444",
        "https://a.example.evil.example",
        "null",
    ];
    for origin in foreign {
        for request in
            [Request::keyed("K1", pay()), Request::post(pay()), Request::new("GET", "/mcp")]
        {
            let answer = gateway.send(&request.header("Origin", origin)).await;
            answer.assert_refused(403, "origin_not_allowed");
            assert_eq!(answer.header("Access-Control-Allow-Origin"), None);
        }
        let answer = gateway.send(&preflight(origin, "idempotency-key")).await;
        assert_eq!(answer.header("Access-Control-Allow-Origin"), None, "{answer:?}");
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn a_request_without_an_origin_is_no_browsers() {
    let upstream = Upstream::start().await;
    let gateway = browsable(&upstream).await;
    gateway.call("K1", pay()).await.assert_first();
}

#[tokio::test]
async fn by_default_a_loopback_listener_serves_loopback_origins() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let local = [
        "http://localhost",
        "http://localhost:6274",
        "https://localhost:8443",
        "http://127.0.0.1:3000",
        "http://[::1]:3000",
    ];
    for origin in local {
        let answer = gateway.send(&Request::post(pay()).header("Origin", origin)).await;
        answer.assert_first();
        assert_readable_by(&answer, origin);
    }
    let foreign = [
        "https://a.example",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "http://evil.example#localhost",
        "file://localhost",
    ];
    for origin in foreign {
        let answer = gateway.send(&Request::post(pay()).header("Origin", origin)).await;
        answer.assert_refused(403, "origin_not_allowed");
    }
    assert_eq!(upstream.hits(), local.len());
}
