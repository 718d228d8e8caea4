//! JSON-RPC ids (CONTRACT sections 3, 6 and 11).

use crate::support::{Gate, Gateway, Reply, Request, Upstream, call, call_with_id, json_reply};
use crate::support::{result_for, within};
use serde_json::{Value, json};

fn pay_as(id: &str) -> String {
    call_with_id(id, "pay", json!({"to": "acct-1", "amount": 10}))
}

/// Answers with the very text of the id that came.
async fn echoing() -> Upstream {
    Upstream::with(|_, request| {
        let text = request.text();
        let id = text.split(r#""id":"#).nth(1).and_then(|rest| rest.split(',').next());
        let id = id.expect("an id");
        Reply::raw(json_reply(200, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)))
    })
    .await
}

#[tokio::test]
async fn the_id_belongs_to_the_call_with_its_type() {
    let upstream = echoing().await;
    let gateway = Gateway::start(&upstream).await;
    gateway.call("K1", pay_as("1")).await.assert_first();
    for other in [r#""1""#, "2", "1.0", "10e-1"] {
        let refused = gateway.call("K1", pay_as(other)).await;
        refused.assert_refused(409, "idempotency_key_conflict");
        let id: Value = serde_json::from_str(other).expect("an id");
        assert_eq!(refused.json()["id"], id, "a refusal carries the request's own id");
    }
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn an_id_is_kept_verbatim_and_never_coerced() {
    let upstream = echoing().await;
    let gateway = Gateway::start(&upstream).await;
    let ids = ["9007199254740993", "1.5", "1.0", "-7", "1e2", r#""""#, r#""\u0041é""#];
    for (number, id) in ids.into_iter().enumerate() {
        let key = format!("K{number}");
        let first = gateway.call(&key, pay_as(id)).await;
        first.assert_first();
        assert!(first.text().contains(&format!(r#""id":{id},"#)), "{}", first.text());
        assert_eq!(upstream.last().text(), pay_as(id));
        gateway.call(&key, pay_as(id)).await.assert_replays(&first);
        assert_eq!(upstream.hits(), number + 1);
    }
}

#[tokio::test]
async fn a_call_whose_id_is_neither_string_nor_number_is_refused() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for id in ["null", r#"{"a":1}"#, "[1]", "true", "false"] {
        for request in [Request::keyed("K1", pay_as(id)), Request::post(pay_as(id))] {
            gateway.send(&request).await.assert_rpc_error(400, -32600);
        }
    }
    assert_eq!(upstream.hits(), 0);
    gateway.call("K1", pay_as("1")).await.assert_first();
}

#[tokio::test]
async fn no_number_as_an_id_can_end_the_program() {
    let upstream = echoing().await;
    let gateway = Gateway::start(&upstream).await;
    for id in ["1e999999999", "-1E-999999999", "18446744073709551616", "0.000000000000000000001"] {
        let answer = gateway.call(&format!("K{id}"), pay_as(id)).await;
        answer.assert_first();
        assert!(answer.text().contains(id));
    }
}

#[tokio::test]
async fn a_reply_answers_the_id_by_its_json_value() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for (key, sent, answered) in [
        ("K1", "1", "1.0"),
        ("K2", "1.0", "1"),
        ("K3", "100", "1e2"),
        ("K4", r#""\u0041""#, r#""A""#),
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{answered},"result":{{}}}}"#);
        upstream.script(Reply::json(&body));
        let first = gateway.call(key, pay_as(sent)).await;
        first.assert_first();
        assert_eq!(first.text(), body);
        gateway.call(key, pay_as(sent)).await.assert_replays(&first);
    }
    for (key, sent, answered) in
        [("K5", "1", r#""1""#), ("K6", "9007199254740993", "9007199254740992")]
    {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{answered},"result":{{}}}}"#);
        upstream.script(Reply::json(&body));
        gateway.call(key, pay_as(sent)).await;
        let retry = gateway.call(key, pay_as(sent)).await;
        retry.assert_refused(409, "idempotency_outcome_unknown");
    }
}

#[tokio::test]
async fn calls_that_share_an_id_are_separate_calls() {
    let gate = Gate::new();
    let held = gate.clone();
    let upstream = Upstream::with(move |_, request| {
        let request_body: Value = serde_json::from_slice(&request.body).expect("a call");
        let own = request_body["params"]["arguments"]["q"].to_string();
        Reply::silent().wait(&held).send(json_reply(200, &result_for(&request.body, &own)))
    })
    .await;
    let gateway = Gateway::start(&upstream).await;
    let body = |q: &str| call("pay", json!({"q": q}));
    let requests = [
        ("A", Request::keyed("KA", body("A")).header("Mcp-Session-Id", "one")),
        ("B", Request::keyed("KB", body("B")).header("Mcp-Session-Id", "one")),
        ("C", Request::post(body("C")).header("Mcp-Session-Id", "one")),
    ];
    let mut connections = Vec::new();
    for (own, request) in &requests {
        connections.push((own, gateway.begin(request).await));
    }
    upstream.hit(3).await;
    gate.open();
    for (own, mut connection) in connections {
        let answer = within("an answer", connection.response()).await.expect("an answer");
        assert_eq!(answer.json()["result"]["content"][0]["text"], json!(format!("\"{own}\"")));
    }
    assert_eq!(upstream.hits(), 3);
}
