//! Connections that die: no fragment is stored, nothing is sent twice (CONTRACT section 4).

use crate::support::{
    Gate, Gateway, Piece, Reply, Request, Setup, Upstream, call, json_reply, pay, result_for,
};
use serde_json::json;

fn ok() -> Vec<u8> {
    json_reply(200, &result_for(pay().as_bytes(), "done"))
}

/// The first call must not look like a success, and its outcome must stay unknown.
async fn assert_unknown(gateway: &Gateway, upstream: &Upstream, key: &str, hits: usize) {
    match gateway.exchange(&Request::keyed(key, pay())).await {
        Ok(answer) => answer.assert_refused(502, "upstream_disconnected"),
        // Where the head had already gone out, the connection is cut rather than ended in order.
        Err(cut) => assert!(cut.partial.is_some(), "no answer at all"),
    }
    for _ in 0..2 {
        let retry = gateway.settled(&Request::keyed(key, pay())).await;
        retry.assert_refused(409, "idempotency_outcome_unknown");
    }
    assert_eq!(upstream.hits(), hits, "under {key}");
}

#[tokio::test]
async fn a_reply_that_is_cut_off_is_never_stored() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let sized = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n";
    let chunked =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let plain = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 500\r\n\r\n";
    let whole = result_for(pay().as_bytes(), "x");
    let part = &whole[..40];
    let chunk = format!("{:x}\r\n{part}\r\n", part.len());
    let replies = [
        // What came looks like a whole reply, or could be one: more was announced.
        Reply::raw(sized).send(&whole).close(),
        Reply::raw(plain).send("paid").close(),
        Reply::raw(plain).send("paid").reset(),
        Reply::raw(sized).send(part).reset(),
        Reply::raw(sized).send(part).close(),
        Reply::raw(chunked).send(&chunk).close(),
        Reply::raw(chunked).send(&chunk).reset(),
        Reply::raw(chunked).send("ffff\r\n{").close(),
        Reply::raw(sized).reset(),
        Reply::raw(chunked).close(),
    ];
    for (number, reply) in replies.into_iter().enumerate() {
        upstream.script(reply);
        assert_unknown(&gateway, &upstream, &format!("K{number}"), number + 1).await;
    }
}

#[tokio::test]
async fn a_body_whose_end_only_its_json_can_show_is_unknown_when_that_is_cut() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
    let whole = result_for(pay().as_bytes(), "x");
    upstream.script(Reply::raw(head).send(&whole[..40]).close());
    let _ = gateway.exchange(&Request::keyed("K1", pay())).await;
    let retry = gateway.settled(&Request::keyed("K1", pay())).await;
    retry.assert_refused(409, "idempotency_outcome_unknown");

    upstream.script(Reply::raw(head).send(&whole).close());
    let first = gateway.call("K2", pay()).await;
    first.assert_first();
    gateway.call("K2", pay()).await.assert_replays(&first);
    assert_eq!(upstream.hits(), 2);
}

#[tokio::test]
async fn an_upstream_that_closes_without_an_answer_leaves_an_unknown_outcome() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let replies = [
        Reply::silent().close(),
        Reply::silent().reset(),
        Reply::silent().without_reading_the_body().reset(),
        Reply::raw("HTTP/1.1 200 O").close(),
        Reply::raw("HTTP/1.1 200 OK\r\nContent-Type: applic").reset(),
        Reply::raw("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n").close(),
        Reply::raw("this is no HTTP at all\r\n\r\n").close(),
    ];
    for (number, reply) in replies.into_iter().enumerate() {
        upstream.script(reply);
        assert_unknown(&gateway, &upstream, &format!("K{number}"), number + 1).await;
    }
}

#[tokio::test]
async fn a_whole_reply_before_a_reset_is_complete() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let gate = Gate::new();
    upstream.script(Reply::raw(ok()).wait(&gate).reset());
    let first = gateway.call("K1", pay()).await;
    gate.open();
    first.assert_first();
    gateway.call("K1", pay()).await.assert_replays(&first);
    assert_eq!(upstream.hits(), 1);
}

/// A gateway that has one worker, and so one pool of upstream connections.
async fn one_worker(upstream: &Upstream) -> Gateway {
    Setup::new(upstream).set("listen", "workers", "1").start().await
}

#[tokio::test]
async fn a_kept_connection_that_dies_after_the_request_is_not_tried_again() {
    let deaths: [fn() -> Reply; 4] = [
        || Reply::silent().close(),
        || Reply::silent().reset(),
        || Reply::silent().without_reading_the_body().close(),
        || Reply::silent().without_reading_the_body().reset(),
    ];
    for death in deaths {
        let upstream = Upstream::start().await;
        let gateway = one_worker(&upstream).await;
        // The pool may get its connection back a moment after the reply has left, so the pair is
        // repeated until the second call goes out on the connection of the first.
        for pair in 1.. {
            upstream.script(Reply::raw(ok()));
            gateway.call(&format!("warm-{pair}"), pay()).await.assert_first();
            upstream.script(death());
            assert_unknown(&gateway, &upstream, &format!("cold-{pair}"), 2 * pair).await;
            let (first, second) = (upstream.hit(2 * pair - 1).await, upstream.last());
            if first.connection == second.connection {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_request_that_met_a_reset_before_it_was_read_is_not_sent_again() {
    let upstream = Upstream::start().await;
    let gateway = one_worker(&upstream).await;
    for pair in 1.. {
        upstream.script(Reply::raw(ok()).reset_on_next_byte());
        gateway.call(&format!("warm-{pair}"), pay()).await.assert_first();
        let key = format!("cold-{pair}");
        let marked = call("pay", json!({"marker": key}));
        let answer = gateway.call(&key, marked.clone()).await;
        if answer.status == 200 {
            // It went out on a new connection.
            continue;
        }
        answer.assert_refused(502, "upstream_disconnected");
        let retry = gateway.call(&key, marked).await;
        retry.assert_refused(409, "idempotency_outcome_unknown");
        assert_eq!(upstream.hits_with(&key), 0, "it was sent a second time");
        return;
    }
}

#[tokio::test]
async fn a_call_that_races_the_end_of_a_kept_connection_runs_at_most_once() {
    let upstream = Upstream::start().await;
    let gateway = one_worker(&upstream).await;
    for number in 0..20 {
        upstream.script(Reply::raw(ok()).close());
        gateway.call(&format!("warm-{number}"), pay()).await.assert_first();
        let key = format!("raced-{number}");
        let marked = call("pay", json!({"marker": key}));
        let answer = gateway.call(&key, marked.clone()).await;
        let retry = gateway.call(&key, marked).await;
        match answer.status {
            200 => retry.assert_replays(&answer),
            _ if answer.reason() == "upstream_unreachable" => retry.assert_first(),
            _ => {
                answer.assert_refused(502, "upstream_disconnected");
                retry.assert_refused(409, "idempotency_outcome_unknown");
            }
        }
        assert!(upstream.hits_with(&key) <= 1, "{key} ran twice");
    }
}

#[tokio::test]
async fn bytes_after_a_reply_are_nobodys_answer() {
    let forged = json_reply(200, &result_for(pay().as_bytes(), "forged"));
    let empty = b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
    for first in [ok(), empty] {
        let upstream = Upstream::start().await;
        let gateway = one_worker(&upstream).await;
        for number in 0..5 {
            upstream.script(Reply::raw([first.clone(), forged.clone()].concat()));
            gateway.call(&format!("poisoned-{number}"), pay()).await;
            for request in [Request::keyed(&format!("next-{number}"), pay()), Request::post(pay())]
            {
                let next = gateway.send(&request).await;
                assert!(!next.text().contains("forged"), "{}", next.text());
            }
        }
    }
}

#[tokio::test]
async fn a_cut_body_ends_the_callers_connection_too() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let (reply, live) = Reply::stream();
    upstream.script(reply);
    live.chunk("data: one\n\n");
    let mut connection = gateway.begin(&Request::post(pay())).await;
    assert_eq!(connection.head().await.expect("a head").status, 200);
    connection.body_until(b"data: one\n\n").await;
    live.reset();
    let (_, end) = connection.rest().await;
    assert_eq!(end, Piece::Cut, "a broken body must not end in order");
}
