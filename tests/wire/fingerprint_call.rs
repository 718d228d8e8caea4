//! `fingerprint: call`, for clients that number every request anew (CONTRACT section 3, hashes).

use crate::support::{Gateway, Reply, Setup, Upstream, call_with_id, http};
use serde_json::json;

async fn pair() -> (Upstream, Gateway) {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).policy(|policy| {
        policy.idempotency("fingerprint", json!("call")).idempotency("streams", json!("record"))
    });
    (upstream, setup.start().await)
}

fn pay_as(id: &str) -> String {
    call_with_id(id, "pay", json!({"amount": 10}))
}

fn pay_with_meta(id: u32, meta: &serde_json::Value) -> String {
    let params = json!({"name": "pay", "arguments": {"amount": 10}, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

#[tokio::test]
async fn a_replay_carries_the_id_of_the_retry_and_changes_no_other_byte() {
    let (upstream, gateway) = pair().await;
    let body = |id: &str| {
        format!(
            "{{ \"result\" : {{\"id\": 1, \"text\":\"\\\"id\\\":1 \u{e9}\", \"n\":1.50}},\r\n\t\"id\" : {id} , \"jsonrpc\":\"2.0\" }}\n"
        )
    };
    upstream.script(Reply::json(&body("1")));
    let first = gateway.call("K1", pay_as("1")).await;
    first.assert_first();
    assert_eq!(first.text(), body("1"));
    for id in
        ["2", "\"a\"", "9007199254740993", "1.5", "\"\\u0041\"", "-0", "123456789012345678901"]
    {
        let retry = gateway.call("K1", pay_as(id)).await;
        assert!(retry.replayed(), "{} {}", retry.status, retry.text());
        assert_eq!(retry.text(), body(id));
        assert_eq!(retry.header("Content-Type"), Some("application/json"));
    }
    gateway.call("K1", pay_as("1")).await.assert_replays(&first);
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn volatile_members_of_meta_are_no_part_of_the_call() {
    let (upstream, gateway) = pair().await;
    let volatile = json!({
        "progressToken": 7, "traceparent": "00-x", "tracestate": "a=b", "baggage": "c=d",
        "io.modelcontextprotocol/protocolVersion": "2025-11-25",
        "io.modelcontextprotocol/clientInfo": {"name": "x"},
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/logLevel": "debug",
    });
    gateway.call("K1", pay_with_meta(1, &volatile)).await.assert_first();
    assert!(gateway.call("K1", pay_with_meta(2, &json!({"progressToken": "z"}))).await.replayed());
    assert!(gateway.call("K1", pay_with_meta(3, &json!({}))).await.replayed());
    assert!(gateway.call("K1", pay_as("4")).await.replayed());
    let kept = json!({"progressToken": 7, "x402/payment": {"sig": "0x1"}});
    let refused = gateway.call("K1", pay_with_meta(5, &kept)).await;
    refused.assert_refused(409, "idempotency_key_conflict");
    assert_eq!(refused.json()["id"], json!(5));
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn other_arguments_are_still_a_conflict() {
    let (upstream, gateway) = pair().await;
    gateway.call("K1", pay_as("1")).await.assert_first();
    let other = call_with_id("1", "pay", json!({"amount": 11}));
    gateway.call("K1", other).await.assert_refused(409, "idempotency_key_conflict");
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn a_recorded_stream_carries_the_retrys_id_in_its_response_event_alone() {
    let (upstream, gateway) = pair().await;
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"id":1}}"#;
    let stream = |id: &str| {
        format!(
            ": hi\r\nid: 1\r\ndata: {progress}\r\n\r\nevent: message\r\nid: 2\r\ndata: {{\"jsonrpc\":\"2.0\", \"id\" : {id},\r\ndata: \"result\":{{\"id\":1}}}}\r\n\r\n"
        )
    };
    let reply = http(200, &[("Content-Type", "text/event-stream")], stream("1"));
    upstream.script(Reply::raw(reply));
    let first = gateway.call("K1", pay_as("1")).await;
    assert_eq!(first.text(), stream("1"));
    for id in ["42", "\"another\""] {
        let retry = gateway.call("K1", pay_as(id)).await;
        assert!(retry.replayed(), "{} {}", retry.status, retry.text());
        assert_eq!(retry.text(), stream(id));
        assert_eq!(retry.header("Content-Type"), Some("text/event-stream"));
    }
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn a_reply_without_an_id_is_replayed_as_it_is() {
    let (upstream, gateway) = pair().await;
    upstream.script(Reply::raw(http(200, &[("Content-Type", "text/html")], "<p id=1>")));
    let first = gateway.call("K1", pay_as("1")).await;
    gateway.call("K1", pay_as("2")).await.assert_replays(&first);
    upstream.script(Reply::raw(http(202, &[], "")));
    let first = gateway.call("K2", pay_as("1")).await;
    gateway.call("K2", pay_as("2")).await.assert_replays(&first);
    assert_eq!(upstream.hits(), 2);
}

#[tokio::test]
async fn a_reply_must_still_answer_the_id_that_was_sent() {
    let (upstream, gateway) = pair().await;
    upstream.script(Reply::json(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#));
    gateway.call("K1", pay_as("1")).await;
    gateway.call("K1", pay_as("2")).await.assert_refused(409, "idempotency_outcome_unknown");
    assert_eq!(upstream.hits(), 1);
}
