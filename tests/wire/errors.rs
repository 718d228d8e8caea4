//! The shape of refusals (CONTRACT section 6).

use crate::support::{
    Gate, Gateway, Policy, Reply, Request, Response, Setup, TOKEN_B, Upstream, call, call_with_id,
    http, key_hash, pay,
};
use serde_json::{Value, json};

const REASONS_THAT_COME_BACK: [&str; 2] = ["idempotency_in_flight", "idempotency_capacity"];

/// What a refusal of a call with id 1 under a scoped key must be.
#[track_caller]
fn assert_shape(response: &Response, status: u16, reason: &str, advice: &str) {
    response.assert_refused(status, reason);
    assert_eq!(response.header("Content-Type"), Some("application/json"));
    let body = response.json();
    assert_eq!(body["jsonrpc"], json!("2.0"));
    assert_eq!(body["id"], json!(1));
    assert_eq!(body["error"]["code"], json!(-31000 - i64::from(status)));
    assert_eq!(body["error"]["data"]["advice"], json!(advice), "{reason}");
    assert_sentence(&body["error"]["message"]);
    let retry_after = response.header("Retry-After");
    if REASONS_THAT_COME_BACK.contains(&reason) {
        assert_eq!(retry_after, Some("1"), "{reason}");
        assert_eq!(body["error"]["data"]["retry_after"], json!(1), "{reason}");
    }
    if advice == "new_key" || advice == "reconcile" {
        assert_eq!(retry_after, None, "{reason}");
    }
}

#[track_caller]
fn assert_sentence(message: &Value) {
    let message = message.as_str().expect("a message");
    let begins = message.starts_with(|first: char| first.is_ascii_uppercase());
    assert!(begins && message.ends_with('.') && message.len() > 20, "{message}");
}

#[tokio::test]
async fn every_outcome_says_what_to_do() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).set("limits", "scope_in_flight", "1");
    let gateway = setup.start().await;

    gateway.call("done", pay()).await.assert_first();
    let conflict = gateway.call("done", call("pay", json!({"amount": 99}))).await;
    assert_shape(&conflict, 409, "idempotency_key_conflict", "new_key");

    upstream.script(Reply::silent().close());
    let cut = gateway.call("unknown", pay()).await;
    assert_shape(&cut, 502, "upstream_disconnected", "reconcile");
    let unknown = gateway.call("unknown", pay()).await;
    assert_shape(&unknown, 409, "idempotency_outcome_unknown", "reconcile");

    upstream.script(Reply::raw(http(200, &[("Content-Encoding", "br")], "coded")));
    gateway.call("unkept", pay()).await;
    let unkept = gateway.call("unkept", pay()).await;
    assert_shape(&unkept, 409, "idempotency_response_not_replayable", "reconcile");

    let gate = Gate::new();
    upstream.script(Reply::silent().wait(&gate));
    let _waiting = gateway.begin(&Request::keyed("held", pay())).await;
    upstream.hit(4).await;
    let in_flight = gateway.call("held", pay()).await;
    assert_shape(&in_flight, 409, "idempotency_in_flight", "retry_same_key");
    let full = gateway.call("more", pay()).await;
    assert_shape(&full, 429, "idempotency_capacity", "retry_same_key");
    gate.open();

    let hashes = [
        (conflict, "done"),
        (cut, "unknown"),
        (unknown, "unknown"),
        (unkept, "unkept"),
        (in_flight, "held"),
        (full, "more"),
    ];
    for (refused, key) in hashes {
        let hash = key_hash(["alice", "agent-a", "team-a", "", "uid-payments", key, ""]);
        assert_eq!(refused.json()["error"]["data"]["key_hash"], json!(hash), "{key}");
    }
}

#[tokio::test]
async fn refusals_at_the_door_say_what_to_mend() {
    let upstream = Upstream::start().await;
    let keyed = Policy::new(&upstream.url());
    let unowned = Policy::new(&upstream.url()).at("unowned").with(|document| {
        document["server"].as_object_mut().expect("a server").remove("uid");
    });
    let observed = Policy::new(&upstream.url())
        .at("observed")
        .with(|document| document["policy"]["mode"] = json!("observe"));
    let gateway = Setup::policies([keyed, unowned, observed]).start().await;
    let cases = [
        (Request::keyed("not a key", pay()), 400, "idempotency_key_invalid", "fix_request"),
        (
            Request::keyed("K1", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
            400,
            "idempotency_unsupported_request",
            "fix_request",
        ),
        (
            Request::keyed("K1", pay()).to("/mcp/observed").bearer("wrong"),
            400,
            "idempotency_requires_verified_identity",
            "fix_request",
        ),
        (
            Request::keyed("K1", pay()).to("/mcp/unowned"),
            503,
            "idempotency_unavailable",
            "retry_same_key",
        ),
    ];
    for (request, status, reason, advice) in cases {
        let refused = gateway.send(&request).await;
        assert_shape(&refused, status, reason, advice);
        assert_eq!(refused.json()["error"]["data"]["key_hash"], Value::Null, "{reason}");
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn refusals_before_a_key_is_looked_at_have_the_same_shape() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let cases = [
        (Request::post(pay()).bearer("wrong"), 401, json!(1)),
        (Request::post(call("unlisted", json!({}))), 403, json!(1)),
        (Request::post(vec![b' '; 1024 * 1024 + 1]), 413, Value::Null),
        (Request::post(pay()).set("Content-Type", "text/plain"), 415, Value::Null),
    ];
    for (request, status, id) in cases {
        let refused = gateway.send(&request).await;
        assert_eq!(refused.status, status);
        assert_eq!(refused.header("Content-Type"), Some("application/json"));
        let body = refused.json();
        assert_eq!(body["error"]["code"], json!(-31000 - i64::from(status)));
        assert!(!refused.reason().is_empty(), "{body}");
        assert_sentence(&body["error"]["message"]);
        if status != 415 {
            assert_eq!(body["id"], id, "{status}");
        }
    }
}

#[tokio::test]
async fn a_refusal_carries_the_requests_own_id() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let ids = ["7", r#""seven""#, "1.5", "9007199254740993", r#""\u0041""#, "-0"];
    for id in ids {
        let body = call_with_id(id, "pay", json!({}));
        let refused = gateway.call("not a key", body).await;
        refused.assert_refused(400, "idempotency_key_invalid");
        let expected: Value = serde_json::from_str(id).expect("an id");
        assert_eq!(refused.json()["id"], expected);
    }
    let big = call_with_id("123456789012345678901234567890", "pay", json!({}));
    let refused = gateway.call("not a key", big).await;
    assert!(refused.text().contains("123456789012345678901234567890"), "{}", refused.text());
}

#[tokio::test]
async fn no_refusal_shows_a_key_or_a_payload() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let secret = "sk-very-secret-1234";
    let body = call("pay", json!({"card": "4111-1111"}));
    gateway.call(secret, body.clone()).await.assert_first();
    let other = call("pay", json!({"card": "5500-0000"}));
    let broken = format!("{}{}", body, "}");
    let answers = [
        gateway.call(secret, other.clone()).await,
        gateway.call(&format!("{secret} {secret}"), body.clone()).await,
        gateway.call(secret, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await,
        gateway.send(&Request::post(broken)).await,
        gateway.send(&Request::keyed(secret, body.clone()).bearer("token-secret")).await,
        gateway.send(&Request::keyed(secret, call("unlisted", json!({"card": "4111-1111"})))).await,
    ];
    for answer in answers {
        assert!(answer.status >= 400);
        let shown = format!("{:?} {}", answer.headers, answer.text());
        for hidden in
            [secret, "4111-1111", "5500-0000", "token-secret", "token-of-A", "/tmp", ".rs"]
        {
            assert!(!shown.contains(hidden), "{hidden} in {shown}");
        }
    }
}

#[tokio::test]
async fn an_unkeyed_call_that_fails_is_answered_in_the_same_shape() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    upstream.script(Reply::silent().close());
    let cut = gateway.send(&Request::post(pay())).await;
    assert_shape(&cut, 502, "upstream_disconnected", "reconcile");
    let gate = Gate::new();
    upstream.script(Reply::silent().wait(&gate));
    let hasty = Setup::new(&upstream).set("upstream", "response_timeout", "\"200ms\"");
    let late = hasty.start().await.send(&Request::post(pay())).await;
    assert_shape(&late, 504, "upstream_timeout", "reconcile");
    assert_eq!(upstream.hits(), 2);
    drop(upstream);
    let gone = gateway.send(&Request::post(pay())).await;
    assert_shape(&gone, 502, "upstream_unreachable", "retry_same_key");
    assert!(gone.header("Retry-After").is_some());
    for refused in [cut, late, gone] {
        assert_eq!(refused.json()["error"]["data"]["key_hash"], Value::Null);
    }
    assert!(gateway.metrics().await.outcomes().is_empty());
}

#[tokio::test]
async fn a_foreign_key_shows_in_no_refusal() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    gateway.call("K1", pay()).await.assert_first();
    upstream.script(Reply::silent().close());
    gateway.call("K2", pay()).await;
    for key in ["K1", "K2", "unused"] {
        let other = Request::keyed(key, call("pay", json!({"n": 1}))).bearer(TOKEN_B);
        let first = gateway.send(&other).await;
        first.assert_first();
    }
}

#[tokio::test]
async fn a_storm_of_retries_costs_no_upstream_call() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let gate = Gate::new();
    upstream.script(Reply::silent().wait(&gate).close());
    let _waiting = gateway.begin(&Request::keyed("K1", pay())).await;
    upstream.hit(1).await;
    for _ in 0..10 {
        let mut storm = Vec::new();
        for _ in 0..20 {
            storm.push(gateway.begin(&Request::keyed("K1", pay())).await);
        }
        for mut connection in storm {
            let answer = connection.response().await.expect("an answer");
            assert_shape(&answer, 409, "idempotency_in_flight", "retry_same_key");
        }
    }
    let other = gateway.call("K1", call("pay", json!({"amount": 99}))).await;
    assert_shape(&other, 409, "idempotency_key_conflict", "new_key");
    gate.open();
    let after = gateway.settled(&Request::keyed("K1", pay())).await;
    assert_shape(&after, 409, "idempotency_outcome_unknown", "reconcile");
    assert_eq!(upstream.hits(), 1);
}
