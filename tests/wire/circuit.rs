//! The circuit breaker and backpressure: what they refuse was never sent (CONTRACT sections 3, 4).

use crate::support::{
    Gate, Gateway, Reply, Request, Response, Setup, Upstream, eventually, json_reply, pay,
    result_for,
};
use serde_json::json;

#[track_caller]
fn assert_unsent(response: &Response, reason: &str) {
    response.assert_refused(503, reason);
    let seconds = response.header("Retry-After").expect("a Retry-After");
    assert!(seconds.parse::<u32>().is_ok_and(|seconds| seconds >= 1), "{seconds}");
    assert_eq!(response.json()["error"]["data"]["advice"], json!("retry_same_key"));
}

/// Lets calls fail until the circuit opens; gives how many it took.
async fn open_circuit(upstream: &Upstream, gateway: &Gateway) {
    let hits = upstream.hits();
    for number in 0..3 {
        upstream.script(Reply::silent().close());
        let failed = gateway.call(&format!("failed-{number}"), pay()).await;
        failed.assert_refused(502, "upstream_disconnected");
    }
    assert_eq!(upstream.hits(), hits + 3);
}

async fn fragile(upstream: &Upstream, open: &str) -> Gateway {
    let setup = Setup::new(upstream).set("upstream", "circuit_failures", "3").set(
        "upstream",
        "circuit_open",
        open,
    );
    setup.start().await
}

#[tokio::test]
async fn an_open_circuit_refuses_what_would_be_sent_and_lets_replays_pass() {
    let upstream = Upstream::start().await;
    let gateway = fragile(&upstream, "\"1h\"").await;
    let kept = gateway.call("kept", pay()).await;
    kept.assert_first();
    open_circuit(&upstream, &gateway).await;
    for _ in 0..2 {
        assert_unsent(&gateway.call("K1", pay()).await, "upstream_circuit_open");
        let unkeyed = gateway.send(&Request::post(pay())).await;
        assert_unsent(&unkeyed, "upstream_circuit_open");
    }
    gateway.call("kept", pay()).await.assert_replays(&kept);
    let unknown = gateway.call("failed-0", pay()).await;
    unknown.assert_refused(409, "idempotency_outcome_unknown");
    let other = crate::support::call("pay", json!({"amount": 99}));
    gateway.call("kept", other).await.assert_refused(409, "idempotency_key_conflict");
    assert_eq!(upstream.hits(), 4);
}

#[tokio::test]
async fn a_call_that_the_circuit_refused_runs_under_its_key_once_the_circuit_closes() {
    let upstream = Upstream::start().await;
    let gateway = fragile(&upstream, "\"400ms\"").await;
    open_circuit(&upstream, &gateway).await;
    let first = eventually("the circuit to close", || async {
        let answer = gateway.call("K1", pay()).await;
        match answer.status {
            200 => Some(answer),
            _ => {
                assert_unsent(&answer, "upstream_circuit_open");
                None
            }
        }
    })
    .await;
    first.assert_first();
    assert_eq!(upstream.hits(), 4);
    gateway.call("K2", pay()).await.assert_first();
}

#[tokio::test]
async fn an_upstream_that_answers_with_4xx_is_no_broken_one() {
    let upstream = Upstream::start().await;
    let gateway = fragile(&upstream, "\"1h\"").await;
    for _ in 0..6 {
        upstream.script(Reply::raw(json_reply(400, "{}")));
        assert_eq!(gateway.call("K1", pay()).await.status, 400);
    }
    gateway.call("K1", pay()).await.assert_first();
}

#[tokio::test]
async fn one_broken_upstream_does_not_close_the_way_to_another() {
    let (broken, sound) = (Upstream::start().await, Upstream::start().await);
    let policies = [
        crate::support::Policy::new(&broken.url()),
        crate::support::Policy::new(&sound.url()).at("sound"),
    ];
    let gateway = Setup::policies(policies).set("upstream", "circuit_failures", "3").start().await;
    open_circuit(&broken, &gateway).await;
    assert_unsent(&gateway.call("K1", pay()).await, "upstream_circuit_open");
    gateway.send(&Request::keyed("K1", pay()).to("/mcp/sound")).await.assert_first();
}

#[tokio::test]
async fn a_busy_upstream_refuses_and_releases() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).set("upstream", "max_in_flight", "1");
    let gateway = setup.start().await;
    let kept = gateway.call("kept", pay()).await;
    let gate = Gate::new();
    let reply = json_reply(200, &result_for(pay().as_bytes(), "x"));
    upstream.script(Reply::silent().wait(&gate).send(reply));
    let mut waiting = gateway.begin(&Request::keyed("held", pay())).await;
    upstream.hit(2).await;
    assert_unsent(&gateway.call("K1", pay()).await, "upstream_busy");
    assert_unsent(&gateway.send(&Request::post(pay())).await, "upstream_busy");
    gateway.call("kept", pay()).await.assert_replays(&kept);
    gateway.call("held", pay()).await.assert_refused(409, "idempotency_in_flight");
    assert_eq!(upstream.hits(), 2);
    gate.open();
    waiting.response().await.expect("a reply").assert_first();
    let later = eventually("the upstream to have room", || async {
        let answer = gateway.call("K1", pay()).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    later.assert_first();
    assert_eq!(upstream.hits(), 3);
}
