//! A caller who leaves (CONTRACT section 4).

use crate::support::{Gate, Gateway, Reply, Request, Upstream, json_reply, pay, result_for};

fn ok() -> Vec<u8> {
    json_reply(200, &result_for(pay().as_bytes(), "done"))
}

#[tokio::test]
async fn a_keyed_call_runs_to_its_end_though_its_caller_has_left() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for (number, by_reset) in [false, true].into_iter().enumerate() {
        let request = Request::keyed(&format!("K{number}"), pay());
        let gate = Gate::new();
        upstream.script(Reply::silent().wait(&gate).send(ok()));
        let connection = gateway.begin(&request).await;
        upstream.hit(number + 1).await;
        match by_reset {
            true => connection.reset(),
            false => drop(connection),
        }
        let early = gateway.send(&request).await;
        early.assert_refused(409, "idempotency_in_flight");
        assert!(early.header("Retry-After").is_some());
        gate.open();
        let late = gateway.settled(&request).await;
        assert!(late.replayed(), "{} {}", late.status, late.text());
        assert_eq!(late.body, result_for(pay().as_bytes(), "done").into_bytes());
        assert_eq!(upstream.hits(), number + 1);
        assert!(!upstream.is_abandoned(number + 1), "the upstream's connection stays open");
    }
}

#[tokio::test]
async fn a_caller_who_leaves_in_mid_reply_does_not_cut_what_is_stored() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let body = result_for(pay().as_bytes(), "done");
    let (start, end) = body.split_at(20);
    let (reply, live) = Reply::live();
    upstream.script(reply);
    live.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n");
    live.send(format!("Content-Length: {}\r\n\r\n{start}", body.len()));
    let request = Request::keyed("K1", pay());
    let connection = gateway.begin(&request).await;
    upstream.hit(1).await;
    connection.reset();
    live.send(end);
    let retry = gateway.settled(&request).await;
    assert!(retry.replayed(), "{} {}", retry.status, retry.text());
    assert_eq!(retry.text(), body);
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn a_failure_after_the_caller_has_left_is_kept_as_unknown() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let gate = Gate::new();
    upstream.script(Reply::silent().wait(&gate).reset());
    let request = Request::keyed("K1", pay());
    drop(gateway.begin(&request).await);
    upstream.hit(1).await;
    gate.open();
    let retry = gateway.settled(&request).await;
    retry.assert_refused(409, "idempotency_outcome_unknown");
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn callers_who_leave_at_once_never_lose_a_claim() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for number in 0..30 {
        let request = Request::keyed(&format!("K{number}"), pay());
        gateway.begin(&request).await.reset();
        let retry = gateway.settled(&request).await;
        assert_eq!(retry.status, 200, "{}", retry.text());
    }
    // Whether or not the first request was read before its caller left, each key ran once.
    assert_eq!(upstream.hits(), 30);
}

#[tokio::test]
async fn an_unkeyed_call_is_cancelled_when_its_caller_leaves() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let gate = Gate::new();
    upstream.script(Reply::silent().wait(&gate).send(ok()));
    let waiting = gateway.begin(&Request::post(pay())).await;
    upstream.hit(1).await;
    drop(waiting);
    upstream.abandoned(1).await;

    upstream.script(Reply::silent().wait(&gate).send(ok()));
    let waiting = gateway.begin(&Request::post(pay())).await;
    upstream.hit(2).await;
    waiting.reset();
    upstream.abandoned(2).await;
}

#[tokio::test]
async fn a_quiet_unkeyed_stream_is_cancelled_when_its_caller_leaves() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let streams =
        [Request::post(pay()), Request::new("GET", "/mcp").header("Accept", "text/event-stream")];
    for (number, request) in streams.into_iter().enumerate() {
        let (reply, live) = Reply::stream();
        upstream.script(reply);
        live.chunk(": hello\n\n");
        let mut connection = gateway.begin(&request).await;
        connection.head().await.expect("a head");
        connection.body_until(b": hello\n\n").await;
        drop(connection);
        upstream.abandoned(number + 1).await;
        drop(live);
    }
}
