//! Idempotency keys: where they may stand, what they may be, when they apply (CONTRACT section 3).

use crate::support::{Gateway, KEY, Policy, Request, Setup, Upstream, call, grant, pay};
use base64::Engine;
use serde_json::{Value, json};

const VECTORS: &str = include_str!("../vectors/keys.json");

fn vectors() -> Value {
    serde_json::from_str(VECTORS).expect("the vectors")
}

/// A header value with a control character is refused by the HTTP parser, before anything could
/// give a reason.
fn is_http(value: &[u8]) -> bool {
    value.iter().all(|byte| (*byte >= 0x20 && *byte != 0x7f) || *byte == b'\t')
}

#[tokio::test]
async fn the_key_vectors_hold_on_the_wire() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let mut valid = 0;
    for vector in vectors()["any"].as_array().expect("vectors") {
        let text = vector["base64"].as_str().expect("base64");
        let value = base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
        let answer = gateway.send(&Request::post(pay()).raw_header(KEY, &value)).await;
        if vector["valid"] == json!(true) {
            answer.assert_first();
            valid += 1;
        } else if is_http(&value) {
            answer.assert_refused(400, "idempotency_key_invalid");
        } else {
            assert_eq!(answer.status, 400);
        }
    }
    assert_eq!(upstream.hits(), valid, "an invalid key is never no key");
}

#[tokio::test]
async fn the_idt_format_vectors_hold_on_the_wire() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).policy(|p| p.idempotency("format", json!("idt")));
    let gateway = setup.start().await;
    for vector in vectors()["idt"].as_array().expect("vectors") {
        let key = vector["value"].as_str().expect("a key");
        let answer = gateway.call(key, pay()).await;
        if vector["valid"] == json!(true) {
            answer.assert_first();
        } else {
            answer.assert_refused(400, "idempotency_key_invalid");
        }
    }
}

#[tokio::test]
async fn two_header_lines_are_refused_also_with_one_value() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for (first, second) in [("K1", "K1"), ("K1", "K2"), ("K1", ""), ("", "")] {
        let request = Request::keyed(first, pay()).header("idempotency-key", second);
        gateway.send(&request).await.assert_refused(400, "idempotency_key_invalid");
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn a_folded_key_is_refused() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let request = Request::post(pay()).raw_header(KEY, b"K\r\n 1");
    let answer = gateway.exchange(&request).await;
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status == 400));
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn white_space_around_the_value_is_no_part_of_the_key() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let first = gateway.call("K1", pay()).await;
    gateway.send(&Request::post(pay()).header(KEY, " \t K1 \t ")).await.assert_replays(&first);
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn long_keys_are_told_apart_by_their_last_character() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let keys: Vec<String> = ["a", "b"].iter().map(|end| "k".repeat(254) + end).collect();
    let first = gateway.call(&keys[0], pay()).await;
    first.assert_first();
    gateway.call(&keys[1], pay()).await.assert_first();
    gateway.call(&keys[0], pay()).await.assert_replays(&first);
    for length in [256, 8 * 1024] {
        let refused = gateway.call(&"k".repeat(length), pay()).await;
        refused.assert_refused(400, "idempotency_key_invalid");
    }
    assert_eq!(upstream.hits(), 2);
}

#[tokio::test]
async fn a_key_is_opaque_text() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let keys = ["../{x}:*?[a]", "%00", "\"K\"", "K", "'K'", "k", "K,K", "{\"a\":1}", "$(id)"];
    for (number, key) in keys.into_iter().enumerate() {
        let first = gateway.call(key, pay()).await;
        first.assert_first();
        gateway.call(key, pay()).await.assert_replays(&first);
        assert_eq!(upstream.hits(), number + 1);
    }
}

#[tokio::test]
async fn no_key_means_no_guarantee_and_no_trace_of_one() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for hits in 1..=3 {
        let answer = gateway.send(&Request::post(pay())).await;
        answer.assert_first();
        assert_eq!(upstream.hits(), hits);
    }
    assert!(gateway.metrics().await.outcomes().is_empty());
}

#[tokio::test]
async fn a_key_on_another_http_method_is_refused() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for method in ["GET", "DELETE"] {
        let request = Request::new(method, "/mcp").header(KEY, "K1");
        gateway.send(&request).await.assert_refused(400, "idempotency_unsupported_request");
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn where_keys_are_off_a_key_is_refused_and_calls_pass() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).policy(|p| p.idempotency("keys", json!("off")));
    let gateway = setup.start().await;
    let refused = gateway.call("K1", pay()).await;
    refused.assert_refused(400, "idempotency_unsupported_request");
    assert_eq!(upstream.hits(), 0);
    gateway.send(&Request::post(pay())).await.assert_first();
}

fn with_pointers(policy: Policy) -> Policy {
    let pointers = json!([
        "/params/idempotencyKey",
        "/params/arguments/meta/idempotency-key",
        "/params/_meta/com.example~1idempotency-key",
    ]);
    policy.idempotency("key_pointers", pointers)
}

/// A `pay` call with these params beside its name.
fn pay_with_params(extra: &Value) -> String {
    let mut params = extra.clone();
    params["name"] = json!("pay");
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

#[tokio::test]
async fn a_key_in_the_body_counts_where_the_policy_points() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new(&upstream).policy(with_pointers).start().await;
    let places = [
        json!({"idempotencyKey": "B1"}),
        json!({"arguments": {"meta": {"idempotency-key": "B2"}}}),
        json!({"_meta": {"com.example/idempotency-key": "B3"}}),
    ];
    for (number, place) in places.iter().enumerate() {
        let body = pay_with_params(place);
        let first = gateway.send(&Request::post(body.clone())).await;
        first.assert_first();
        assert_eq!(upstream.last().text(), body, "the body is forwarded as it came");
        gateway.send(&Request::post(body)).await.assert_replays(&first);
        assert_eq!(upstream.hits(), number + 1);
    }
}

#[tokio::test]
async fn header_and_body_may_say_the_same_key_but_not_two() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new(&upstream).policy(with_pointers).start().await;
    let body = pay_with_params(&json!({"idempotencyKey": "B1"}));
    let first = gateway.call("B1", body.clone()).await;
    first.assert_first();
    gateway.send(&Request::post(body.clone())).await.assert_replays(&first);
    gateway.call("B2", body).await.assert_refused(400, "idempotency_key_invalid");
    let two = json!({"idempotencyKey": "B1", "_meta": {"com.example/idempotency-key": "B2"}});
    let refused = gateway.send(&Request::post(pay_with_params(&two))).await;
    refused.assert_refused(400, "idempotency_key_invalid");
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn what_a_pointer_finds_must_be_a_key() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new(&upstream).policy(with_pointers).start().await;
    let values = [
        json!(null),
        json!(""),
        json!(7),
        json!(true),
        json!({}),
        json!(["B1"]),
        json!(" B1"),
        json!("B1 "),
        json!("é"),
        json!("k".repeat(256)),
    ];
    for value in values {
        let body = pay_with_params(&json!({"idempotencyKey": value}));
        let refused = gateway.send(&Request::post(body)).await;
        refused.assert_refused(400, "idempotency_key_invalid");
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn a_bad_key_in_one_source_is_not_mended_by_a_good_one_in_another() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new(&upstream).policy(with_pointers).start().await;
    let bad_in_body = pay_with_params(&json!({"idempotencyKey": null}));
    gateway.call("K1", bad_in_body).await.assert_refused(400, "idempotency_key_invalid");
    let good_in_body = pay_with_params(&json!({"idempotencyKey": "K1"}));
    for bad in ["", "not a key"] {
        let refused = gateway.call(bad, good_in_body.clone()).await;
        refused.assert_refused(400, "idempotency_key_invalid");
    }
    let twice = Request::keyed("K1", good_in_body).header(KEY, "K1");
    gateway.send(&twice).await.assert_refused(400, "idempotency_key_invalid");
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn the_format_holds_for_keys_in_the_body_too() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream)
        .policy(|policy| with_pointers(policy).idempotency("format", json!("idt")));
    let gateway = setup.start().await;
    let body = |key: &str| pay_with_params(&json!({"idempotencyKey": key}));
    let refused = gateway.send(&Request::post(body("plain"))).await;
    refused.assert_refused(400, "idempotency_key_invalid");
    let minted = body("idt_5c1f2a9b0e4d7c6a3b8f1d2e5a4c7b90");
    gateway.send(&Request::post(minted)).await.assert_first();
}

#[tokio::test]
async fn a_pointer_that_finds_nothing_is_no_key() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new(&upstream).policy(with_pointers).start().await;
    for hits in 1..=2 {
        let body = pay_with_params(&json!({"arguments": {"meta": "text"}, "_meta": {}}));
        gateway.send(&Request::post(body)).await.assert_first();
        assert_eq!(upstream.hits(), hits);
    }
}

#[tokio::test]
async fn pointers_are_read_in_calls_only() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new(&upstream).policy(with_pointers).start().await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"idempotencyKey":"B1"}}"#;
    for hits in 1..=2 {
        gateway.send(&Request::post(body)).await.assert_first();
        assert_eq!(upstream.hits(), hits);
    }
}

#[tokio::test]
async fn a_key_of_a_caller_who_is_not_verified_is_refused() {
    let upstream = Upstream::start().await;
    let delegated = Policy::new(&upstream.url()).at("delegated").with(|document| {
        document["auth"] = json!({"mode": "header"});
    });
    let anonymous = Policy::new(&upstream.url()).at("anonymous").with(|document| {
        document["auth"] = json!({"mode": "none"});
        document["policy"]["mode"] = json!("observe");
    });
    let observed = Policy::new(&upstream.url()).at("observed").with(|document| {
        document["policy"]["mode"] = json!("observe");
    });
    let gateway = Setup::policies([delegated, anonymous, observed]).start().await;
    let requests = [
        Request::post(pay()).to("/mcp/delegated").header("X-MCP-Human-ID", "alice"),
        Request::post(pay()).to("/mcp/anonymous"),
        Request::post(pay()).to("/mcp/observed").bearer("no such token"),
        Request::post(pay()).to("/mcp/observed").without("Authorization"),
    ];
    for request in requests {
        let refused = gateway.send(&request.clone().header(KEY, "K1")).await;
        refused.assert_refused(400, "idempotency_requires_verified_identity");
        gateway.send(&request).await.assert_first();
    }
    assert_eq!(upstream.hits(), 4);
    let verified = Request::keyed("K1", pay()).to("/mcp/observed");
    gateway.send(&verified).await.assert_first();
    assert!(gateway.send(&verified).await.replayed());
}

#[tokio::test]
async fn a_server_without_a_uid_serves_unkeyed_calls_alone() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).policy(|policy| {
        policy.with(|document| {
            document["server"].as_object_mut().expect("a server").remove("uid");
        })
    });
    let gateway = setup.start().await;
    gateway.call("K1", pay()).await.assert_refused(503, "idempotency_unavailable");
    assert_eq!(upstream.hits(), 0);
    gateway.send(&Request::post(pay())).await.assert_first();
}

#[tokio::test]
async fn refusals_come_in_the_order_of_the_contract() {
    let upstream = Upstream::start().await;
    let keyed = Policy::new(&upstream.url());
    let unowned = Policy::new(&upstream.url()).with(|document| {
        document["server"] = json!({
            "name": "unowned", "namespace": "test", "path": "/unowned", "upstream": upstream.url(),
        });
        document["auth"] = json!({"mode": "header"});
        document["grants"] = json!([grant("g", "alice")]);
    });
    let gateway = Setup::policies([keyed, unowned]).start().await;
    let stranger = Request::keyed("not a key", pay()).bearer("no such token");
    assert_eq!(gateway.send(&stranger).await.status, 401);
    let forbidden = Request::keyed("not a key", call("unlisted", json!({})));
    assert_eq!(gateway.send(&forbidden).await.status, 403);
    let delegated =
        |key: &str| Request::keyed(key, pay()).to("/unowned").header("X-MCP-Human-ID", "alice");
    gateway.send(&delegated("not a key")).await.assert_refused(400, "idempotency_key_invalid");
    let unverified = gateway.send(&delegated("K1")).await;
    unverified.assert_refused(400, "idempotency_requires_verified_identity");
    assert_eq!(upstream.hits(), 0);
}
