//! The 2026-07-28 revision: its headers, and the rounds of one call (CONTRACT sections 2, 3, 11).

use crate::support::{Gateway, Reply, Request, Upstream, continuation, pay};
use serde_json::{Value, json};

const REVISION: &str = "2026-07-28";

/// A request of that revision, without the headers that name its method and what it is about.
fn modern(body: &str) -> Request {
    Request::post(body).header("MCP-Protocol-Version", REVISION)
}

fn routed(body: &str, method: &str, name: &str) -> Request {
    modern(body).header("Mcp-Method", method).header("Mcp-Name", name)
}

#[tokio::test]
async fn headers_that_agree_with_the_body_pass() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let listing = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let prompt = r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"greet"}}"#;
    let resource =
        r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///ä"}}"#;
    let requests = [
        routed(&pay(), "tools/call", "pay"),
        routed(&pay(), "tools/call", "=?base64?cGF5?="),
        modern(listing).header("Mcp-Method", "tools/list"),
        routed(prompt, "prompts/get", "greet"),
        routed(resource, "resources/read", "=?base64?ZmlsZTovLy/DpA==?="),
    ];
    for (number, request) in requests.iter().enumerate() {
        gateway.send(request).await.assert_first();
        assert_eq!(upstream.hits(), number + 1);
    }
    let received = upstream.last();
    assert_eq!(received.header("Mcp-Method"), Some("resources/read"));
    assert_eq!(received.header("Mcp-Name"), Some("=?base64?ZmlsZTovLy/DpA==?="));
    let keyed = routed(&pay(), "tools/call", "=?base64?cGF5?=").header("Idempotency-Key", "K1");
    let first = gateway.send(&keyed).await;
    first.assert_first();
    // The spelling of the header is no part of the call.
    let plain = routed(&pay(), "tools/call", "pay").header("Idempotency-Key", "K1");
    gateway.send(&plain).await.assert_replays(&first);
}

#[tokio::test]
async fn headers_that_disagree_with_the_body_are_refused_and_claim_nothing() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let resource = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}"#;
    let requests = [
        routed(&pay(), "tools/call", "read"),
        routed(&pay(), "tools/list", "pay"),
        routed(&pay(), "TOOLS/CALL", "pay"),
        routed(&pay(), "tools/call", "PAY"),
        routed(&pay(), "tools/call", "=?base64?cmVhZA==?="),
        routed(&pay(), "tools/call", "=?base64?!!?="),
        routed(&pay(), "tools/call", "pay").header("Mcp-Name", "read"),
        routed(&pay(), "tools/call", "pay").header("Mcp-Method", "tools/list"),
        modern(&pay()),
        modern(&pay()).header("Mcp-Method", "tools/call"),
        modern(&pay()).header("Mcp-Name", "pay"),
        routed(resource, "resources/read", "a:c"),
    ];
    for request in requests {
        gateway.send(&request).await.assert_rpc_error(400, -32020);
        let keyed = request.header("Idempotency-Key", "K1");
        gateway.send(&keyed).await.assert_rpc_error(400, -32020);
    }
    assert_eq!(upstream.hits(), 0);
    gateway.call("K1", pay()).await.assert_first();
}

#[tokio::test]
async fn the_body_alone_can_name_the_revision() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {
            "name": "pay", "arguments": {},
            "_meta": {"io.modelcontextprotocol/protocolVersion": REVISION},
        },
    })
    .to_string();
    let wrong = Request::post(body.clone()).header("Mcp-Method", "tools/list");
    gateway.send(&wrong).await.assert_rpc_error(400, -32020);
    assert_eq!(upstream.hits(), 0);
    gateway.send(&routed(&body, "tools/call", "pay")).await.assert_first();
}

#[tokio::test]
async fn earlier_revisions_need_none_of_these_headers() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let request = Request::post(pay()).header("MCP-Protocol-Version", version);
        gateway.send(&request).await.assert_first();
    }
    assert_eq!(upstream.hits(), 3);
}

fn input_required(state: &str) -> Reply {
    let result = json!({
        "resultType": "input_required", "requestState": state,
        "inputRequests": {"confirm": {"method": "elicitation/create", "params": {}}},
    });
    Reply::json(&json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string())
}

fn with_state(id: u32, state: &Value) -> String {
    continuation(id, &json!({"requestState": state, "inputResponses": {"confirm": "yes"}}))
}

#[tokio::test]
async fn a_continuation_is_a_slot_of_its_own_under_the_same_key() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    upstream.script(input_required("s1"));
    let opening = gateway.call("K1", pay()).await;
    opening.assert_first();
    gateway.call("K1", pay()).await.assert_replays(&opening);

    let second = with_state(2, &json!("s1"));
    let answer = gateway.call("K1", second.clone()).await;
    answer.assert_first();
    gateway.call("K1", second).await.assert_replays(&answer);
    gateway.call("K1", pay()).await.assert_replays(&opening);

    let third = with_state(3, &json!("s2"));
    gateway.call("K1", third).await.assert_first();
    assert_eq!(upstream.hits(), 3);
}

#[tokio::test]
async fn within_a_round_another_answer_is_a_conflict() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    gateway.call("K1", with_state(2, &json!({"a": 1, "b": 2}))).await.assert_first();
    let reordered = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"requestState":{"b":2,"a":1},"inputResponses":{"confirm":"yes"},"name":"pay","arguments":{"amount":10,"to":"acct-1"}}}"#;
    assert!(gateway.call("K1", reordered).await.replayed());
    let other = continuation(
        2,
        &json!({"requestState": {"a": 1, "b": 2}, "inputResponses": {"confirm": "no"}}),
    );
    gateway.call("K1", other).await.assert_refused(409, "idempotency_key_conflict");

    let unstated = |answer: &str| continuation(4, &json!({"inputResponses": {"confirm": answer}}));
    gateway.call("K1", unstated("yes")).await.assert_first();
    let refused = gateway.call("K1", unstated("no")).await;
    refused.assert_refused(409, "idempotency_key_conflict");
    // An absent state and a null one are the same round.
    let null =
        continuation(4, &json!({"requestState": null, "inputResponses": {"confirm": "yes"}}));
    gateway.call("K1", null).await.assert_refused(409, "idempotency_key_conflict");
    assert_eq!(upstream.hits(), 2);
}

#[tokio::test]
async fn a_question_back_is_stored_like_any_reply() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    upstream.script(input_required("opaque"));
    let request = routed(&pay(), "tools/call", "pay").header("Idempotency-Key", "K1");
    let first = gateway.send(&request).await;
    first.assert_first();
    assert!(first.text().contains("input_required"));
    gateway.send(&request).await.assert_replays(&first);
    assert_eq!(upstream.hits(), 1);
}
