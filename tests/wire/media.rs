//! Media types, content codings, notifications and client responses (CONTRACT section 3).

use crate::support::{Gateway, Request, Upstream, pay};

const NOTIFICATIONS: [&str; 2] = [
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
];

const CLIENT_RESPONSES: [&str; 2] = [
    r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#,
];

#[tokio::test]
async fn a_key_on_what_is_no_call_is_refused_and_claims_nothing() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for body in NOTIFICATIONS.iter().chain(&CLIENT_RESPONSES).chain([&list]) {
        let refused = gateway.call("K1", *body).await;
        refused.assert_refused(400, "idempotency_unsupported_request");
    }
    assert_eq!(upstream.hits(), 0);
    gateway.call("K1", pay()).await.assert_first();
}

#[tokio::test]
async fn notifications_and_client_responses_pass_without_a_key() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for body in NOTIFICATIONS.iter().chain(&CLIENT_RESPONSES) {
        let answer = gateway.send(&Request::post(*body)).await;
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{}", answer.text());
        assert_eq!(upstream.last().text(), *body);
    }
    assert_eq!(upstream.hits(), 4);
}

#[tokio::test]
async fn a_call_without_an_id_is_refused() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let body = r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"pay","arguments":{"amount":10}}}"#;
    for request in [Request::keyed("K1", body), Request::post(body)] {
        gateway.send(&request).await.assert_rpc_error(400, -32600);
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn the_media_type_is_compared_without_case_and_its_parameters_are_parsed() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let typed = |value: &str| Request::keyed("K1", pay()).set("Content-Type", value);
    let first = gateway.send(&typed("application/json; charset=utf-8")).await;
    first.assert_first();
    let spellings = [
        r#"Application/JSON;charset="UTF-8""#,
        "application/json",
        "application/json ; CHARSET=Utf-8",
        "application/json;charset=utf-8; profile=x",
    ];
    for spelling in spellings {
        gateway.send(&typed(spelling)).await.assert_replays(&first);
    }
    assert_eq!(upstream.hits(), 1);
}

const OTHER_TYPES: [&str; 6] = [
    "text/plain; x=application/json",
    "application/json; charset=utf-16",
    "application/json-patch+json",
    "application/jsonx",
    "application/x-www-form-urlencoded",
    "json",
];

#[tokio::test]
async fn another_media_type_is_refused_as_such_without_a_key() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for other in OTHER_TYPES {
        let request = Request::post(pay()).set("Content-Type", other);
        assert_eq!(gateway.send(&request).await.status, 415, "{other}");
    }
    let untyped = Request::post(pay()).without("Content-Type");
    assert_eq!(gateway.send(&untyped).await.status, 415);
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn a_key_on_another_media_type_is_refused_as_an_unsupported_request() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for other in OTHER_TYPES {
        let request = Request::keyed("K1", pay()).set("Content-Type", other);
        let refused = gateway.send(&request).await;
        refused.assert_refused(400, "idempotency_unsupported_request");
    }
    let untyped = Request::keyed("K1", pay()).without("Content-Type");
    gateway.send(&untyped).await.assert_refused(400, "idempotency_unsupported_request");
    assert_eq!(upstream.hits(), 0);
    gateway.call("K1", pay()).await.assert_first();
}

#[tokio::test]
async fn a_coded_request_body_is_refused_keyed_or_not() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for coding in ["gzip", "br", "x-unknown", "identity, gzip"] {
        for request in [Request::keyed("K1", pay()), Request::post(pay())] {
            let answer = gateway.send(&request.header("Content-Encoding", coding)).await;
            assert_eq!(answer.status, 415, "{coding}: {}", answer.text());
        }
    }
    assert_eq!(upstream.hits(), 0);
    let plain = Request::keyed("K1", pay()).header("Content-Encoding", "identity");
    gateway.send(&plain).await.assert_first();
}
