//! What of a reply is kept, and how faithfully (CONTRACT sections 4 and 7).

use crate::support::{Gateway, Reply, Request, Response, Setup, Upstream, http, pay, result_for};
use serde_json::json;

const REPLY_BYTES: usize = 32 * 1024;

fn ok_body() -> String {
    result_for(pay().as_bytes(), "done")
}

async fn pair() -> (Upstream, Gateway) {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    (upstream, gateway)
}

async fn twice(
    upstream: &Upstream,
    gateway: &Gateway,
    key: &str,
    reply: Reply,
) -> (Response, Response) {
    upstream.script(reply);
    let first = gateway.call(key, pay()).await;
    let retry = gateway.settled(&Request::keyed(key, pay())).await;
    (first, retry)
}

#[tokio::test]
async fn bodies_are_bytes_and_media_types_are_kept_as_they_came() {
    let (upstream, gateway) = pair().await;
    let spaced = format!("  {}\r\n\n", ok_body().replace(':', " :\t"));
    let json = ok_body();
    let replies: [(u16, Option<&str>, &[u8]); 11] = [
        (200, Some("application/octet-stream"), &[0, 0xff, 0xfe, b'\n', 0]),
        (200, Some("application/json; charset=utf-8"), json.as_bytes()),
        (200, Some("Application/JSON"), json.as_bytes()),
        (200, None, b"no type at all"),
        (200, Some("text/html"), b"<h1>Sign in</h1>"),
        (201, Some("application/json"), json.as_bytes()),
        (299, Some("text/plain"), b"odd"),
        (200, Some("application/json"), spaced.as_bytes()),
        (202, None, b""),
        (200, None, b""),
        (200, Some("text/plain"), b""),
    ];
    for (number, (status, media_type, body)) in replies.into_iter().enumerate() {
        let headers: Vec<_> = media_type.map(|value| ("Content-Type", value)).into_iter().collect();
        let reply = Reply::raw(http(status, &headers, body));
        let (first, retry) = twice(&upstream, &gateway, &format!("K{number}"), reply).await;
        assert_eq!((first.status, first.body.as_slice()), (status, body));
        assert_eq!(first.header("Content-Type"), media_type);
        retry.assert_replays(&first);
        assert_eq!(upstream.hits(), number + 1);
    }
}

#[tokio::test]
async fn a_reply_without_a_body_is_replayed_without_one() {
    let (upstream, gateway) = pair().await;
    let heads =
        ["HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n"];
    for (number, head) in heads.into_iter().enumerate() {
        let reply = Reply::raw(head);
        let (first, retry) = twice(&upstream, &gateway, &format!("K{number}"), reply).await;
        assert_eq!((first.status, first.body.len()), (204 + number as u16, 0));
        retry.assert_replays(&first);
        assert_eq!(retry.header("Content-Type"), None);
        assert_eq!(upstream.hits(), number + 1);
    }
    // A 204 never has a body, whatever its header says.
    let reply = Reply::raw("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n");
    let (first, retry) = twice(&upstream, &gateway, "K9", reply).await;
    assert_eq!((first.status, first.body.len()), (204, 0));
    retry.assert_replays(&first);
    assert_eq!(upstream.hits(), 3);
}

#[tokio::test]
async fn interim_replies_are_skipped_and_never_stored() {
    let (upstream, gateway) = pair().await;
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
    let reply = Reply::raw("HTTP/1.1 100 Continue\r\n\r\n").send(hints).send(hints);
    let reply = reply.send(http(200, &[("Content-Type", "application/json")], ok_body()));
    let (first, retry) = twice(&upstream, &gateway, "K1", reply).await;
    first.assert_first();
    assert_eq!(first.text(), ok_body());
    retry.assert_replays(&first);
    assert!(retry.interim.is_empty());
}

#[tokio::test]
async fn a_switch_of_protocols_is_no_answer() {
    let (upstream, gateway) = pair().await;
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    upstream.script(Reply::raw(switch).close());
    let first = gateway.exchange(&Request::keyed("K1", pay())).await;
    assert!(first.is_err() || first.is_ok_and(|answer| answer.status == 502));
    let retry = gateway.settled(&Request::keyed("K1", pay())).await;
    retry.assert_refused(409, "idempotency_outcome_unknown");
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn headers_of_the_first_reply_are_not_replayed() {
    let (upstream, gateway) = pair().await;
    let headers = [
        ("Content-Type", "application/json"),
        ("Set-Cookie", "s=1; expires=Mon, 01 Jan 2029 00:00:00 GMT"),
        ("Set-Cookie", "t=2"),
        ("Mcp-Session-Id", "transport-1"),
        ("X-RateLimit-Remaining", "7"),
        ("Date", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("Vary", "X-Upstream"),
        ("Access-Control-Allow-Origin", "https://a.example"),
        ("WWW-Authenticate", "Bearer"),
        ("Location", "/elsewhere"),
        ("ETag", "\"e\""),
    ];
    let reply = Reply::raw(http(200, &headers, ok_body()));
    let (first, retry) = twice(&upstream, &gateway, "K1", reply).await;
    assert_eq!(first.lines("Set-Cookie").len(), 2, "the first caller gets them as they came");
    assert_eq!(first.header("Mcp-Session-Id"), Some("transport-1"));
    assert_eq!(first.header("X-RateLimit-Remaining"), Some("7"));
    retry.assert_replays(&first);
    for (name, value) in &headers[1..] {
        let leaked = retry.lines(name).contains(value);
        assert!(!leaked, "{name} was replayed: {retry:?}");
    }
}

#[tokio::test]
async fn a_reply_is_kept_up_to_and_including_the_cap() {
    let (upstream, gateway) = pair().await;
    let frame = result_for(pay().as_bytes(), "").len();
    let sized = |size: usize| result_for(pay().as_bytes(), &"x".repeat(size - frame));
    for (number, (size, kept)) in
        [(REPLY_BYTES - 1, true), (REPLY_BYTES, true), (REPLY_BYTES + 1, false)]
            .into_iter()
            .enumerate()
    {
        let body = sized(size);
        assert_eq!(body.len(), size);
        let reply = Reply::json(&body);
        let (first, retry) = twice(&upstream, &gateway, &format!("K{number}"), reply).await;
        first.assert_first();
        assert_eq!(first.text(), body);
        match kept {
            true => retry.assert_replays(&first),
            false => retry.assert_refused(409, "idempotency_response_not_replayable"),
        }
        assert_eq!(upstream.hits(), number + 1);
    }
}

#[tokio::test]
async fn a_reply_over_the_cap_is_delivered_whole() {
    let (upstream, gateway) = pair().await;
    let large = vec![b'x'; 10 * REPLY_BYTES];
    let sized = http(200, &[("Content-Type", "text/plain")], &large);
    let mut chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for part in large.chunks(10_000) {
        chunked.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        chunked.extend_from_slice(part);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let mut closed = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n".to_vec();
    closed.extend_from_slice(&large);
    let replies = [Reply::raw(sized), Reply::raw(chunked), Reply::raw(closed).close()];
    for (number, reply) in replies.into_iter().enumerate() {
        let (first, retry) = twice(&upstream, &gateway, &format!("K{number}"), reply).await;
        first.assert_first();
        assert_eq!(first.body, large);
        retry.assert_refused(409, "idempotency_response_not_replayable");
        assert_eq!(retry.json()["error"]["data"]["advice"], json!("reconcile"));
        assert_eq!(upstream.hits(), number + 1);
    }
}

#[tokio::test]
async fn the_cap_is_configurable() {
    let upstream = Upstream::start().await;
    let size = ok_body().len();
    for (cap, kept) in [(size, true), (size - 1, false)] {
        let setup = Setup::new(&upstream).set("limits", "reply_bytes", &cap.to_string());
        let gateway = setup.start().await;
        let (first, retry) = twice(&upstream, &gateway, "K1", Reply::json(&ok_body())).await;
        match kept {
            true => retry.assert_replays(&first),
            false => retry.assert_refused(409, "idempotency_response_not_replayable"),
        }
    }
}

#[tokio::test]
async fn keyed_calls_ask_for_replies_that_can_be_kept() {
    let (upstream, gateway) = pair().await;
    for wish in ["gzip, br", "gzip", "identity"] {
        let request = Request::keyed("K1", pay()).header("Accept-Encoding", wish);
        assert_eq!(gateway.send(&request).await.status, 200);
        assert_eq!(upstream.last().header("Accept-Encoding"), Some("identity"));
    }
    assert_eq!(upstream.hits(), 1);
    let unkeyed = Request::post(pay()).header("Accept-Encoding", "gzip, br");
    gateway.send(&unkeyed).await.assert_first();
    assert_eq!(upstream.last().header("Accept-Encoding"), Some("gzip, br"));
}

#[tokio::test]
async fn identity_is_no_coding() {
    let (upstream, gateway) = pair().await;
    let headers = [("Content-Type", "application/json"), ("Content-Encoding", "identity")];
    let reply = Reply::raw(http(200, &headers, ok_body()));
    let (first, retry) = twice(&upstream, &gateway, "K1", reply).await;
    first.assert_first();
    retry.assert_replays(&first);
    assert_eq!(retry.lines("Content-Encoding"), Vec::<&str>::new());
}

#[tokio::test]
async fn a_coded_reply_is_delivered_as_it_came_and_not_kept() {
    let (upstream, gateway) = pair().await;
    let coded = [0x1f, 0x8b, 0x08, 0x00, 0xff];
    for (number, coding) in ["br", "gzip", "zstd", "x-unknown"].into_iter().enumerate() {
        let headers = [("Content-Type", "application/json"), ("Content-Encoding", coding)];
        let reply = Reply::raw(http(200, &headers, coded));
        let (first, retry) = twice(&upstream, &gateway, &format!("K{number}"), reply).await;
        first.assert_first();
        assert_eq!(first.header("Content-Encoding"), Some(coding));
        assert_eq!(first.body, coded);
        retry.assert_refused(409, "idempotency_response_not_replayable");
        assert_eq!(upstream.hits(), number + 1);
    }
}
