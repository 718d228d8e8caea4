//! Event streams, kept as tombstones or recorded (CONTRACT section 4).

use crate::support::{
    Gateway, Live, Piece, Reply, Request, Setup, Upstream, http, pay, result_for,
};
use serde_json::json;

async fn tombstoning() -> (Upstream, Gateway) {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    (upstream, gateway)
}

async fn recording() -> (Upstream, Gateway) {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).policy(|p| p.idempotency("streams", json!("record")));
    (upstream, setup.start().await)
}

fn result() -> String {
    result_for(pay().as_bytes(), "done")
}

fn streamed(body: impl AsRef<[u8]>) -> Reply {
    Reply::raw(http(200, &[("Content-Type", "text/event-stream")], body))
}

/// Begins a call whose reply is a stream under the test's control, up to its first event.
async fn begun(
    upstream: &Upstream,
    gateway: &Gateway,
    request: &Request,
) -> (crate::support::Conn, Live) {
    let (reply, live) = Reply::stream();
    upstream.script(reply);
    live.chunk(": hello\n\n");
    let mut connection = gateway.begin(request).await;
    let head = connection.head().await.expect("a head");
    assert_eq!(head.status, 200);
    assert_eq!(head.header("Content-Type"), Some("text/event-stream"));
    assert_eq!(connection.body_until(b": hello\n\n").await, b": hello\n\n");
    (connection, live)
}

#[tokio::test]
async fn events_pass_one_by_one_as_they_come() {
    for (upstream, gateway) in [tombstoning().await, recording().await] {
        for request in [Request::keyed("K1", pay()), Request::post(pay())] {
            let (mut connection, live) = begun(&upstream, &gateway, &request).await;
            for number in 0..3 {
                let event = format!("data: {number}\n\n");
                live.chunk(&event);
                assert_eq!(connection.body_until(event.as_bytes()).await, event.as_bytes());
            }
            // Not even a whole event is waited for.
            live.chunk("da");
            assert_eq!(connection.body_until(b"da").await, b"da");
            live.chunk("ta: x\n\n");
            live.finish();
            assert_eq!(connection.rest().await, (b"ta: x\n\n".to_vec(), Piece::End));
        }
    }
}

#[tokio::test]
async fn by_default_a_stream_leaves_a_tombstone_when_it_ends() {
    let (upstream, gateway) = tombstoning().await;
    let request = Request::keyed("K1", pay());
    let (mut connection, live) = begun(&upstream, &gateway, &request).await;
    let running = gateway.send(&request).await;
    running.assert_refused(409, "idempotency_in_flight");
    live.chunk(format!("data: {}\n\n", result()));
    connection.body_until(result().as_bytes()).await;
    gateway.send(&request).await.assert_refused(409, "idempotency_in_flight");
    live.finish();
    assert_eq!(connection.rest().await.1, Piece::End);
    let retry = gateway.send(&request).await;
    retry.assert_refused(409, "idempotency_response_not_replayable");
    assert_eq!(upstream.hits(), 1);
    assert_eq!(gateway.metrics().await.outcomes()["not_replayable"], 1);
}

#[tokio::test]
async fn a_broken_stream_is_unknown_in_both_modes() {
    for (upstream, gateway) in [tombstoning().await, recording().await] {
        let request = Request::keyed("K1", pay());
        let (mut connection, live) = begun(&upstream, &gateway, &request).await;
        live.chunk(format!("data: {}\n\n", result()));
        connection.body_until(result().as_bytes()).await;
        live.reset();
        assert_eq!(connection.rest().await.1, Piece::Cut);
        let retry = gateway.settled(&request).await;
        retry.assert_refused(409, "idempotency_outcome_unknown");
        assert_eq!(upstream.hits(), 1);
    }
}

#[tokio::test]
async fn a_recorded_stream_is_replayed_byte_for_byte_whatever_its_framing() {
    let (upstream, gateway) = recording().await;
    let answer = result();
    let (head, tail) = answer.split_at(answer.find(r#""result""#).expect("a result"));
    let (middle, tail) = tail.split_at(tail.find('{').expect("an object"));
    let streams = [
        format!("data: {answer}\n\n"),
        format!("event: message\ndata:{answer}\n\n"),
        format!("data: {answer}\r\n\r\n"),
        format!("data: {answer}\r\r"),
        format!("data: {head}\ndata: {middle}\ndata: {tail}\n\n"),
        format!(": a comment\nretry: 1000\nid: 7\ndata: {answer}\n\n"),
        format!("\u{feff}data: {answer}\n\n"),
        format!("id: 1\ndata: \n\nid: 2\ndata: {answer}\n\n"),
        format!(
            "data: {}\n\ndata: {answer}\n\n: trailing comment\n\n",
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#
        ),
    ];
    for (number, stream) in streams.iter().enumerate() {
        upstream.script(streamed(stream));
        let key = format!("K{number}");
        let first = gateway.call(&key, pay()).await;
        first.assert_first();
        assert_eq!(first.text(), *stream);
        gateway.call(&key, pay()).await.assert_replays(&first);
        let json_only = Request::keyed(&key, pay()).set("Accept", "application/json");
        gateway.send(&json_only).await.assert_replays(&first);
        assert_eq!(upstream.hits(), number + 1, "{stream:?}");
    }
}

#[tokio::test]
async fn a_recorded_stream_may_come_in_pieces_that_split_anything() {
    let (upstream, gateway) = recording().await;
    let stream = format!(": c\r\n\r\ndata: {}\r\n\r\n", result());
    let (reply, live) = Reply::stream();
    upstream.script(reply);
    let request = Request::keyed("K1", pay());
    let mut connection = gateway.begin(&request).await;
    for byte in stream.as_bytes() {
        live.chunk([*byte]);
    }
    live.finish();
    let first = connection.response().await.expect("the stream");
    assert_eq!(first.text(), stream);
    gateway.send(&request).await.assert_replays(&first);
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn a_stream_without_the_answer_to_this_call_is_unknown() {
    let (upstream, gateway) = recording().await;
    let streams = [
        String::new(),
        ": nothing but a comment\n\n".to_owned(),
        format!("data: {}\n\n", r#"{"jsonrpc":"2.0","id":2,"result":{}}"#),
        format!("data: {}\n\n", r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#),
        format!("data: {}\n\n", &result()[..30]),
        format!("date: {}\n\n", result()),
    ];
    for (number, stream) in streams.iter().enumerate() {
        upstream.script(streamed(stream));
        let key = format!("K{number}");
        let first = gateway.call(&key, pay()).await;
        assert_eq!(first.text(), *stream);
        let retry = gateway.call(&key, pay()).await;
        retry.assert_refused(409, "idempotency_outcome_unknown");
        assert_eq!(upstream.hits(), number + 1, "{stream:?}");
    }
}

#[tokio::test]
async fn a_last_event_without_its_blank_line_is_never_executed_again() {
    let (upstream, gateway) = recording().await;
    for (number, end) in ["", "\n"].into_iter().enumerate() {
        let stream = format!("data: {}{end}", result());
        upstream.script(streamed(&stream));
        let key = format!("K{number}");
        let first = gateway.call(&key, pay()).await;
        assert_eq!(first.text(), stream);
        let retry = gateway.call(&key, pay()).await;
        match retry.replayed() {
            true => retry.assert_replays(&first),
            false => retry.assert_refused(409, "idempotency_outcome_unknown"),
        }
        assert_eq!(upstream.hits(), number + 1);
    }
}

#[tokio::test]
async fn a_stream_in_which_the_server_asks_something_is_not_kept() {
    let (upstream, gateway) = recording().await;
    let question = r#"{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{}}"#;
    let stream = format!("data: {question}\n\ndata: {}\n\n", result());
    upstream.script(streamed(&stream));
    let first = gateway.call("K1", pay()).await;
    assert_eq!(first.text(), stream);
    let retry = gateway.call("K1", pay()).await;
    retry.assert_refused(409, "idempotency_response_not_replayable");
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn a_stream_is_recorded_up_to_the_cap() {
    let upstream = Upstream::start().await;
    let stream = format!("data: {}\n\n", result());
    for (cap, kept) in [(stream.len(), true), (stream.len() - 1, false)] {
        let setup = Setup::new(&upstream)
            .policy(|p| p.idempotency("streams", json!("record")))
            .set("limits", "reply_bytes", &cap.to_string());
        let gateway = setup.start().await;
        upstream.script(streamed(&stream));
        let first = gateway.call("K1", pay()).await;
        assert_eq!(first.text(), stream);
        let retry = gateway.call("K1", pay()).await;
        match kept {
            true => retry.assert_replays(&first),
            false => retry.assert_refused(409, "idempotency_response_not_replayable"),
        }
    }
    assert_eq!(upstream.hits(), 2);
}

#[tokio::test]
async fn a_stream_that_stays_open_after_the_answer_stays_in_flight() {
    let (upstream, gateway) = recording().await;
    let request = Request::keyed("K1", pay());
    let (mut connection, live) = begun(&upstream, &gateway, &request).await;
    live.chunk(format!("data: {}\n\n", result()));
    connection.body_until(result().as_bytes()).await;
    gateway.send(&request).await.assert_refused(409, "idempotency_in_flight");
    live.finish();
    connection.rest().await;
    assert!(gateway.send(&request).await.replayed());
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn in_record_mode_a_plain_reply_is_kept_as_ever() {
    let (upstream, gateway) = recording().await;
    let first = gateway.call("K1", pay()).await;
    gateway.call("K1", pay()).await.assert_replays(&first);
    upstream.script(Reply::raw(http(
        200,
        &[("Content-Type", "text/event-stream"), ("Content-Encoding", "gzip")],
        "coded",
    )));
    gateway.call("K2", pay()).await;
    let retry = gateway.call("K2", pay()).await;
    retry.assert_refused(409, "idempotency_response_not_replayable");
}

#[tokio::test]
async fn a_stream_is_read_to_its_end_though_its_caller_has_left() {
    let (upstream, gateway) = recording().await;
    let request = Request::keyed("K1", pay());
    let (connection, live) = begun(&upstream, &gateway, &request).await;
    drop(connection);
    gateway.send(&request).await.assert_refused(409, "idempotency_in_flight");
    live.chunk(format!("data: {}\n\n", result()));
    live.finish();
    let retry = gateway.settled(&request).await;
    assert!(retry.replayed(), "{} {}", retry.status, retry.text());
    assert_eq!(retry.text(), format!(": hello\n\ndata: {}\n\n", result()));
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn a_caller_that_takes_nothing_counts_as_gone_and_the_reply_is_read_on() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new(&upstream).set("upstream", "idle_timeout", "\"1s\"").start().await;
    // More than all buffers between the two can hold.
    let large = vec![b'x'; 64 * 1024 * 1024];
    upstream.script(Reply::raw(http(200, &[("Content-Type", "text/plain")], &large)));
    let request = Request::keyed("K1", pay());
    let stalled = gateway.begin(&request).await;
    upstream.hit(1).await;
    let retry = gateway.settled(&request).await;
    retry.assert_refused(409, "idempotency_response_not_replayable");
    upstream.answered(1).await;
    assert_eq!(upstream.hits(), 1);
    drop(stalled);
}
