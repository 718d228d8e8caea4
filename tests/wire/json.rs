//! Strict JSON and what counts as the same call (CONTRACT sections 3 and 11, hashes).

use crate::support::{Gateway, Request, Upstream, call, call_with_id, pay};
use serde_json::{Value, json};

/// A `pay` call whose arguments are this JSON text.
fn pay_with(arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"pay","arguments":{arguments}}}}}"#
    )
}

/// Sends `first` and then `second` under one key and gives what the second found.
async fn second_finds(gateway: &Gateway, key: &str, first: &str, second: &str) -> String {
    let answer = gateway.call(key, first).await;
    answer.assert_first();
    let retry = gateway.call(key, second).await;
    if retry.replayed() {
        retry.assert_replays(&answer);
        return "replay".to_owned();
    }
    assert_eq!(retry.status, 409, "{}", retry.text());
    retry.reason()
}

async fn assert_unreadable(gateway: &Gateway, upstream: &Upstream, body: &[u8]) {
    for request in [Request::keyed("K-unreadable", body), Request::post(body)] {
        let refused = gateway.send(&request).await;
        refused.assert_rpc_error(400, -32700);
        assert_eq!(refused.json()["id"], Value::Null);
    }
    assert_eq!(upstream.hits(), 0, "{} was sent on", String::from_utf8_lossy(body));
}

#[tokio::test]
async fn duplicate_members_are_refused_at_every_depth_and_after_unescaping() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let bodies = [
        pay_with(r#"{"to":"acct-1","amount":10,"amount":1000}"#),
        pay_with(r#"{"items":[{"q":1,"q":2}]}"#),
        pay_with(r#"{"am\u006funt":1,"amount":2}"#),
        pay_with(r#"{"a":{"b":{"c":[[{"é":1,"\u00e9":1}]]}}}"#),
    ];
    for body in &bodies {
        assert_unreadable(&gateway, &upstream, body.as_bytes()).await;
    }
    let clean = gateway.call("K-unreadable", pay_with(r#"{"to":"acct-1","amount":1000}"#)).await;
    clean.assert_first();
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn duplicate_members_of_the_envelope_are_refused() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let bodies = [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{"name":"pay","arguments":{"amount":10}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","name":"pay","arguments":{"amount":10}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"pay","arguments":{"amount":10}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"amount":10}},"params":{"name":"pay","arguments":{"amount":99}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","\u006dethod":"tools/call","params":{"name":"pay"}}"#,
    ];
    for body in bodies {
        assert_unreadable(&gateway, &upstream, body.as_bytes()).await;
    }
}

#[tokio::test]
async fn a_body_that_is_not_exactly_one_json_text_is_refused() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let mut invalid_utf8 = pay_with(r#"{"s":"?"}"#).into_bytes();
    let at = invalid_utf8.iter().position(|byte| *byte == b'?').expect("the mark");
    invalid_utf8[at] = 0xff;
    let marked = [b"\xef\xbb\xbf", pay().as_bytes()].concat();
    let bodies: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"  ".to_vec(),
        b"{".to_vec(),
        invalid_utf8,
        marked,
        format!("{} {}", pay(), pay()).into_bytes(),
        format!("{}x", pay()).into_bytes(),
        pay_with(r#"{"s":"\ud800"}"#).into_bytes(),
        pay_with(r#"{"s":"\udc00"}"#).into_bytes(),
        pay_with(r#"{"s":"\ud800\u0041"}"#).into_bytes(),
        pay_with(r#"{"\ud800":1}"#).into_bytes(),
        pay_with(r#"{"n":NaN}"#).into_bytes(),
        pay_with(r#"{"n":01}"#).into_bytes(),
        pay_with(r#"{"n":+1}"#).into_bytes(),
        pay_with(r#"{"n":1.}"#).into_bytes(),
        pay_with(r#"{"a":1,}"#).into_bytes(),
        pay_with(r#"{'a':1}"#).into_bytes(),
        pay_with("{\"s\":\"a\nb\"}").into_bytes(),
    ];
    for body in bodies {
        assert_unreadable(&gateway, &upstream, &body).await;
    }
}

/// A call whose deepest value lies `depth` containers deep, the message itself being the first.
fn nested(depth: usize) -> String {
    let inner = depth - 3;
    pay_with(&format!(r#"{{"n":{}{}}}"#, "[".repeat(inner), "]".repeat(inner)))
}

#[tokio::test]
async fn nesting_is_bounded_by_128() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    assert_unreadable(&gateway, &upstream, nested(129).as_bytes()).await;
    assert_unreadable(&gateway, &upstream, nested(100_000).as_bytes()).await;
    gateway.call("K-deep", nested(128)).await.assert_first();
    assert_eq!(upstream.last().text(), nested(128));
}

#[tokio::test]
async fn a_batch_is_refused_with_and_without_a_key() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for body in [format!("[{}]", pay()), "[]".to_owned(), format!("[{},{}]", pay(), pay())] {
        for request in [Request::keyed("K1", body.clone()), Request::post(body)] {
            gateway.send(&request).await.assert_rpc_error(400, -32600);
        }
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn a_call_without_readable_params_is_refused_with_its_id() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let bodies = [
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":null}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":["pay"]}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":7}}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":null}}"#,
    ];
    for body in bodies {
        for request in [Request::keyed("K1", body), Request::post(body)] {
            let refused = gateway.send(&request).await;
            refused.assert_rpc_error(400, -32602);
            assert_eq!(refused.json()["id"], json!("x"));
        }
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn errors_of_the_body_win_over_errors_of_the_key() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let cases = [
        ("{", -32700),
        ("[]", -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#, -32602),
    ];
    for (body, code) in cases {
        gateway.call("not a key", body).await.assert_rpc_error(400, code);
    }
    assert_eq!(upstream.hits(), 0);
    assert!(gateway.metrics().await.outcomes().is_empty(), "a parse error counts nothing");
}

#[tokio::test]
async fn integers_beyond_a_double_are_told_apart_and_forwarded_digit_for_digit() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let pairs = [
        ("K1", "9007199254740992", "9007199254740993"),
        ("K2", "18446744073709551616", "18446744073709551617"),
        ("K3", "123456789012345678901234567890", "123456789012345678901234567891"),
    ];
    for (hits, (key, first, second)) in pairs.into_iter().enumerate() {
        let body = |digits: &str| pay_with(&format!(r#"{{"account":{digits}}}"#));
        let found = second_finds(&gateway, key, &body(first), &body(second)).await;
        assert_eq!(found, "idempotency_key_conflict");
        assert_eq!(upstream.hits(), hits + 1);
        assert_eq!(upstream.last().text(), body(first));
    }
}

#[tokio::test]
async fn numbers_are_compared_by_their_literal_text() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let pairs = [
        ("-0", "0"),
        ("0", "-0.0"),
        ("0.1", "0.10000000000000001"),
        ("1", "1.0"),
        ("1e2", "1E2"),
        ("1e400", "1e401"),
        ("1e999999999", "1e999999998"),
    ];
    for (number, (first, second)) in pairs.into_iter().enumerate() {
        let body = |digits: &str| pay_with(&format!(r#"{{"v":{digits}}}"#));
        let key = format!("K{number}");
        let found = second_finds(&gateway, &key, &body(first), &body(second)).await;
        assert_eq!(found, "idempotency_key_conflict", "{first} and {second}");
        gateway.call(&key, body(first)).await.replayed().then_some(()).expect("a replay");
        assert_eq!(upstream.hits(), number + 1);
        assert_eq!(upstream.last().text(), body(first));
    }
}

#[tokio::test]
async fn the_upstream_receives_the_digits_that_the_client_sent() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let body = pay_with(r#"{ "rate" : 1.5777777777770001, "z": 1E+2 , "a":"\u00e9\/" }"#);
    gateway.call("K1", body.as_str()).await.assert_first();
    assert_eq!(upstream.last().text(), body);
}

#[tokio::test]
async fn escapes_are_spelling_and_normal_forms_are_content() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let escaped = pay_with(r#"{"n":"\u00e9","s":"\/"}"#);
    let raw = pay_with(r#"{"n":"é","s":"/"}"#);
    let decomposed = pay_with(r#"{"n":"e\u0301","s":"/"}"#);
    assert_eq!(second_finds(&gateway, "K1", &escaped, &raw).await, "replay");
    gateway.call("K1", decomposed).await.assert_refused(409, "idempotency_key_conflict");
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn the_order_of_members_and_white_space_are_not_content() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let pairs = [
        (
            pay_with(r#"{"b":{"y":1,"x":[{"d":1,"c":2}]},"a":0}"#),
            pay_with("{ \"a\": 0,\n\t\"b\": {\"x\": [ {\"c\":2, \"d\":1} ], \"y\":1} }"),
        ),
        (pay_with(r#"{"\ud83d\ude00":1,"\uffee":2}"#), pay_with(r#"{"\uffee":2,"😀":1}"#)),
        (
            pay_with(r#"{"a":1}"#),
            r#"{"params":{"arguments":{"a":1},"name":"pay"},"method":"tools/call","id":1,"jsonrpc":"2.0"}"#.to_owned(),
        ),
    ];
    for (number, (first, second)) in pairs.iter().enumerate() {
        let found = second_finds(&gateway, &format!("K{number}"), first, second).await;
        assert_eq!(found, "replay", "{second}");
        assert_eq!(upstream.hits(), number + 1);
    }
}

#[tokio::test]
async fn what_the_tool_can_tell_apart_is_another_call() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let without = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ping"}}"#;
    let pairs = [
        (pay_with(r#"{"ids":[1,2]}"#), pay_with(r#"{"ids":[2,1]}"#)),
        (pay_with(r#"{"x":1}"#), pay_with(r#"{"x":1,"y":null}"#)),
        (without.to_owned(), call("ping", json!({}))),
        (without.to_owned(), call("ping", Value::Null)),
        (pay_with(r#"{"j":"{\"a\":1,\"b\":2}"}"#), pay_with(r#"{"j":"{\"b\":2,\"a\":1}"}"#)),
        (pay_with(r#"{"v":1}"#), pay_with(r#"{"v":"1"}"#)),
        (pay_with(r#"{"v":true}"#), pay_with(r#"{"v":"true"}"#)),
        (pay(), call("refund", json!({"to": "acct-1", "amount": 10}))),
        (call_with_id("1", "ping", json!({})), call_with_id("2", "ping", json!({}))),
    ];
    for (number, (first, second)) in pairs.iter().enumerate() {
        let found = second_finds(&gateway, &format!("K{number}"), first, second).await;
        assert_eq!(found, "idempotency_key_conflict", "{first} and {second}");
        assert_eq!(upstream.hits(), number + 1);
    }
}
