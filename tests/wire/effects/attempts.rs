//! Attempts: each is reserved, and there is one second one, where that is safe (EFFECTS section 5).

use super::{World, by_header, declare, receipts, results_of};
use crate::support::{Policy, Reply, Setup, Upstream, http, json_reply, pay, result_for};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const UNSENT: &str = "unsent";

fn replied(status: u16) -> Value {
    json!({ "replied": status })
}

fn busy() -> Reply {
    Reply::raw(json_reply(503, r#"{"error":"busy"}"#))
}

fn paid() -> Reply {
    Reply::raw(json_reply(201, &result_for(pay().as_bytes(), "paid")))
}

/// Calls `pay` at an upstream that cannot be reached, and gives the receipt.
async fn unreached(upstream: &str, effect: Option<Value>) -> Value {
    let policy = Policy::new(upstream);
    let policy = match effect {
        Some(effect) => declare(policy, effect),
        None => policy,
    };
    let gateway = Setup::policies([policy]).start().await;
    gateway.call("K1", pay()).await.assert_refused(502, "upstream_unreachable");
    let listed = receipts(&gateway, "").await;
    assert_eq!(listed.len(), 1);
    listed[0].clone()
}

async fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    format!("http://{address}/mcp")
}

#[tokio::test]
async fn what_was_provably_not_sent_is_tried_once_more_and_then_released() {
    let closed = closed_port().await;
    let unknown_name = "http://nowhere.invalid/mcp".to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let no_tls = format!("https://{}/mcp", listener.local_addr().expect("an address"));
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    for upstream in [closed.clone(), unknown_name, no_tls] {
        let unsupported = json!({"side_effect": "write"});
        for effect in [by_header(&json!({})), unsupported] {
            let receipt = unreached(&upstream, Some(effect)).await;
            assert_eq!(receipt["attempt_count"], 2, "{upstream}: {receipt}");
            assert_eq!(results_of(&receipt), [UNSENT, UNSENT], "{upstream}");
            assert_eq!(receipt["outcome"], "released", "{upstream}");
        }
    }
    let undeclared = unreached(&closed, None).await;
    assert_eq!(
        (&undeclared["attempt_count"], results_of(&undeclared)),
        (&json!(1), vec![json!(UNSENT)])
    );
}

#[tokio::test]
async fn a_failure_after_sending_is_one_attempt_and_unknown_whatever_the_spec_says() {
    let effect = by_header(&json!({"retryable": [500, 503], "accepted": ["200-299"]}));
    let cut = "HTTP/1.1 503 Busy\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{";
    let half = json_reply(503, r#"{"error":"#);
    let broken = [
        (Reply::silent().reset(), json!("disconnected")),
        (Reply::silent().close(), json!("disconnected")),
        (Reply::raw(cut).close(), json!("disconnected")),
        (Reply::raw(half), replied(503)),
    ];
    for (reply, result) in broken {
        let world = World::start(effect.clone()).await;
        world.upstream.script(reply);
        world.pay("K1").await;
        world.assert_counted("unknown", &[result]).await;
        world.pay("K1").await.assert_refused(409, "idempotency_outcome_unknown");
        assert_eq!(world.upstream.hits(), 1);
    }
}

#[tokio::test]
async fn a_time_out_is_one_attempt_and_unknown() {
    let upstream = Upstream::start().await;
    let (reply, _held) = Reply::live();
    upstream.script(reply);
    let effect = by_header(&json!({"retryable": [503]}));
    let setup = Setup::new(&upstream).set("upstream", "response_timeout", "\"200ms\"");
    let gateway = setup.policy(|policy| declare(policy, effect.clone())).start().await;
    let world = World { upstream, gateway };
    world.pay("K1").await.assert_refused(504, "upstream_timeout");
    world.assert_counted("unknown", &[json!("timeout")]).await;
}

#[tokio::test]
async fn a_retryable_status_is_tried_once_more_with_the_same_key() {
    let world = World::start(by_header(&json!({"retryable": [503]}))).await;
    world.upstream.script(busy());
    world.upstream.script(paid());
    let first = world.pay("K1").await;
    assert_eq!((first.status, first.text().contains("paid")), (201, true));
    world.assert_counted("completed", &[replied(503), replied(201)]).await;
    let keys = [1, 2].map(|hit| world.upstream.hit(hit));
    let [one, two] =
        keys.map(|hit| async { hit.await.header("Idempotency-Key").map(str::to_owned) });
    let (one, two) = (one.await, two.await);
    assert!(one.is_some() && one == two, "{one:?} {two:?}");
    world.pay("K1").await.assert_replays(&first);
    assert_eq!(world.upstream.hits(), 2);
}

#[tokio::test]
async fn a_retryable_status_twice_is_unknown_and_there_is_no_third() {
    let world = World::start(by_header(&json!({"retryable": [503]}))).await;
    world.upstream.script(busy());
    world.upstream.script(busy());
    assert_eq!(world.pay("K1").await.status, 503);
    world.assert_counted("unknown", &[replied(503), replied(503)]).await;
    world.pay("K1").await.assert_refused(409, "idempotency_outcome_unknown");
    assert_eq!(world.upstream.hits(), 2);
}

#[tokio::test]
async fn without_a_binding_a_retryable_status_is_not_tried_again() {
    let world = World::start(json!({"side_effect": "write", "retryable": [503]})).await;
    world.upstream.script(busy());
    assert_eq!(world.pay("K1").await.status, 503);
    world.assert_counted("unknown", &[replied(503)]).await;
}

#[tokio::test]
async fn a_rejection_says_nothing_about_an_attempt_that_told_nothing() {
    let world = World::start(by_header(&json!({"retryable": [503]}))).await;
    world.upstream.script(busy());
    world.upstream.script(Reply::raw(json_reply(400, "{}")));
    assert_eq!(world.pay("K1").await.status, 400);
    world.assert_counted("unknown", &[replied(503), replied(400)]).await;
}

#[tokio::test]
async fn a_retryable_rejection_and_then_another_release() {
    let world = World::start(by_header(&json!({"retryable": [429]}))).await;
    world.upstream.script(Reply::raw(http(429, &[], "slow down")));
    world.upstream.script(Reply::raw(http(429, &[], "slow down")));
    assert_eq!(world.pay("K1").await.status, 429);
    world.assert_counted("released", &[replied(429), replied(429)]).await;
    world.pay("K1").await.assert_first();
    assert_eq!(world.upstream.hits(), 3);
}

#[tokio::test]
async fn declared_statuses_take_the_place_of_the_contracts() {
    let effect = by_header(&json!({
        "accepted": [200, "409-410"], "definitely_rejected": ["500-503"], "retryable": [],
    }));
    for (status, outcome) in [
        (409, "completed"),
        (410, "completed"),
        (503, "released"),
        (400, "unknown"),
        (204, "unknown"),
    ] {
        let world = World::start(effect.clone()).await;
        world.upstream.script(Reply::raw(http(status, &[], "")));
        assert_eq!(world.pay("K1").await.status, status);
        world.assert_counted(outcome, &[replied(status)]).await;
    }
}

#[tokio::test]
async fn what_the_circuit_refuses_was_no_attempt() {
    let upstream = Upstream::start().await;
    upstream.script(Reply::raw(http(500, &[], "")));
    let setup = Setup::new(&upstream).set("upstream", "circuit_failures", "1");
    let gateway = setup.policy(|policy| declare(policy, by_header(&json!({})))).start().await;
    let world = World { upstream, gateway };
    assert_eq!(world.pay("K1").await.status, 500);
    world.pay("K2").await.assert_refused(503, "upstream_circuit_open");
    let newest = receipts(&world.gateway, "limit=1").await[0].clone();
    assert_eq!((&newest["attempt_count"], &newest["outcome"]), (&json!(0), &json!("released")));
    assert_eq!(world.upstream.hits(), 1);
}
