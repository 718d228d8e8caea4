//! Message framing and `Expect` (CONTRACT section 3, inspect).

use crate::support::{Gateway, KEY, Piece, Reply, Request, Setup, Upstream, http, pay};

const REQUEST_BYTES: usize = 1024 * 1024;

/// A keyed call's head without its length, to be completed by the test.
fn head(key: &str, framing: &str) -> Vec<u8> {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token-of-A\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         {KEY}: {key}\r\n{framing}\r\n"
    )
    .into_bytes()
}

fn chunked(body: &str, pieces: usize) -> Vec<u8> {
    let size = body.len().div_ceil(pieces);
    let mut bytes = Vec::new();
    for piece in body.as_bytes().chunks(size) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

#[tokio::test]
async fn a_chunked_body_is_read_like_any_other() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let mut connection = gateway.connect().await;
    connection.send(head("K1", "Transfer-Encoding: chunked\r\n")).await;
    connection.send(chunked(&pay(), 3)).await;
    let first = connection.response().await.expect("an answer");
    first.assert_first();
    assert_eq!(upstream.last().text(), pay());
    gateway.call("K1", pay()).await.assert_replays(&first);
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn two_framings_never_smuggle_a_request() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let mut connection = gateway.connect().await;
    connection.send(head("K1", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n")).await;
    connection.send(chunked(&pay(), 1)).await;
    connection.finish_writing().await;
    if let Ok(answer) = connection.response().await {
        assert!(matches!(answer.status, 200 | 400), "{}", answer.text());
        if answer.status == 200 {
            assert_eq!(upstream.last().text(), pay());
        }
    }
    connection.until_closed().await;
    assert!(upstream.hits() <= 1);
}

#[tokio::test]
async fn two_lengths_are_refused() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let length = pay().len();
    let framings = [
        format!("Content-Length: {length}\r\nContent-Length: 4\r\n"),
        format!("Content-Length: 4\r\nContent-Length: {length}\r\n"),
        format!("Content-Length: {length}, 4\r\n"),
        format!("Content-Length: +{length}\r\n"),
        "Content-Length: -1\r\n".to_owned(),
        "Content-Length: 0x10\r\n".to_owned(),
    ];
    for framing in framings {
        let mut connection = gateway.connect().await;
        connection.send([head("K1", &framing), pay().into_bytes()].concat()).await;
        match connection.response().await {
            Ok(answer) => assert_eq!(answer.status, 400, "{framing:?} {}", answer.text()),
            Err(cut) => assert!(cut.partial.is_none()),
        }
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn a_body_that_ends_too_early_claims_nothing() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for (framing, body) in [
        ("Content-Length: 500\r\n", pay().into_bytes()),
        ("Transfer-Encoding: chunked\r\n", chunked(&pay(), 2)[..40].to_vec()),
    ] {
        let mut connection = gateway.connect().await;
        connection.send([head("K1", framing), body].concat()).await;
        connection.finish_writing().await;
        if let Ok(answer) = connection.response().await {
            assert_eq!(answer.status, 400, "{}", answer.text());
        }
    }
    assert_eq!(upstream.hits(), 0);
    gateway.call("K1", pay()).await.assert_first();
}

/// A `pay` call of exactly this many bytes.
fn sized_call(size: usize) -> String {
    let body = |fill: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"pay","arguments":{{"fill":"{fill}"}}}}}}"#
        )
    };
    body(&"x".repeat(size - body("").len()))
}

#[tokio::test]
async fn a_request_body_is_taken_up_to_and_including_the_limit() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    gateway.call("K1", sized_call(REQUEST_BYTES)).await.assert_first();
    assert_eq!(gateway.call("K2", sized_call(REQUEST_BYTES + 1)).await.status, 413);
    let unkeyed = gateway.send(&Request::post(sized_call(REQUEST_BYTES + 1))).await;
    assert_eq!(unkeyed.status, 413);
    assert_eq!(upstream.hits(), 1);
    assert_eq!(gateway.metrics().await.outcomes(), [("first".to_owned(), 1)].into());
}

#[tokio::test]
async fn the_limit_holds_without_a_length_and_is_configurable() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).set("limits", "request_bytes", "4096");
    let gateway = setup.start().await;
    for (key, size, status) in [("K1", 4096, 200), ("K2", 4097, 413)] {
        let mut connection = gateway.connect().await;
        connection.send(head(key, "Transfer-Encoding: chunked\r\n")).await;
        connection.send(chunked(&sized_call(size), 5)).await;
        assert_eq!(connection.response().await.expect("an answer").status, status);
    }
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn what_follows_a_body_over_the_limit_never_becomes_a_request() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).set("limits", "request_bytes", "4096");
    let gateway = setup.start().await;
    let second = Request::keyed("K2", pay()).bytes();
    let length = 4096 + second.len();
    let mut connection = gateway.connect().await;
    connection.send(head("K1", &format!("Content-Length: {length}\r\n"))).await;
    connection.send(vec![b' '; 4096]).await;
    connection.send(&second).await;
    // A refusal may close the connection while bytes are still under way.
    if let Ok(answer) = connection.response().await {
        assert_eq!(answer.status, 413);
        let rest = connection.until_closed().await;
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
    assert_eq!(upstream.hits(), 0);
    gateway.call("K2", pay()).await.assert_first();
}

fn expecting(key: &str, length: usize) -> Vec<u8> {
    head(key, &format!("Expect: 100-continue\r\nContent-Length: {length}\r\n"))
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_gets_exactly_one_go_ahead() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let body = crate::support::result_for(pay().as_bytes(), "x");
    let ok = http(200, &[("Content-Type", "application/json")], body);
    let replies = [Reply::raw("HTTP/1.1 100 Continue\r\n\r\n").send(&ok), Reply::raw(&ok)];
    for (number, reply) in replies.into_iter().enumerate() {
        upstream.script(reply);
        let mut connection = gateway.connect().await;
        connection.send(expecting(&format!("K{number}"), pay().len())).await;
        assert_eq!(connection.one_head().await.expect("a go-ahead").0, 100);
        connection.send(pay()).await;
        let answer = connection.response().await.expect("an answer");
        answer.assert_first();
        assert!(answer.interim.is_empty(), "a second go-ahead: {answer:?}");
        assert_eq!(upstream.last().lines("Expect"), Vec::<&str>::new());
        assert_eq!(upstream.hits(), number + 1);
    }
}

#[tokio::test]
async fn a_417_from_the_upstream_is_a_4xx_like_any_other() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    upstream.script(Reply::raw(http(417, &[], "")));
    let mut connection = gateway.connect().await;
    connection.send(expecting("K1", pay().len())).await;
    assert_eq!(connection.one_head().await.expect("a go-ahead").0, 100);
    connection.send(pay()).await;
    assert_eq!(connection.response().await.expect("an answer").status, 417);
    assert_eq!(upstream.hits(), 1, "the gateway does not send it again");
    gateway.call("K1", pay()).await.assert_first();
}

#[tokio::test]
async fn an_early_refusal_comes_without_a_go_ahead() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let stranger = String::from_utf8(expecting("K1", pay().len())).expect("text");
    let cases = [
        (expecting("K1", REQUEST_BYTES + 1), 413),
        (stranger.replace("token-of-A", "no-such-token").into_bytes(), 401),
        (expecting("not a key", pay().len()), 400),
    ];
    for (request, status) in cases {
        let mut connection = gateway.connect().await;
        connection.send(request).await;
        let answer = connection.response().await.expect("a final answer");
        assert_eq!((answer.status, answer.interim.as_slice()), (status, [].as_slice()));
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn a_request_that_would_leave_http_is_refused_at_once() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let sized = format!("Content-Length: {}\r\n", pay().len());
    let upgrade = String::from_utf8(head("K1", &format!("{sized}Upgrade: WebSocket\r\n")));
    let connect = String::from_utf8(head("K1", &sized)).map(|it| it.replacen("POST", "CONNECT", 1));
    for request in [upgrade, connect] {
        let mut connection = gateway.connect().await;
        connection.send(request.expect("text") + &pay()).await;
        let answer = connection.response().await.expect("an answer");
        answer.assert_refused(400, "invalid_request");
        assert_eq!(answer.header("Connection"), Some("close"));
        connection.until_closed().await;
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn an_upgrade_that_is_not_taken_is_not_claimed_either() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let offer = Request::keyed("K1", pay())
        .header("Connection", "Upgrade, HTTP2-Settings")
        .header("Upgrade", "h2c")
        .header("HTTP2-Settings", "AAMAAABkAAQAoAAAAAIAAAAA");
    let mut connection = gateway.begin(&offer).await;
    let answer = connection.response().await.expect("an answer");
    answer.assert_first();
    assert_eq!(answer.header("Connection"), Some("close"));
    assert!(connection.until_closed().await.is_empty());
}

#[tokio::test]
async fn a_client_of_http_1_0_gets_a_stream_without_chunks() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for request in [Request::post(pay()), Request::keyed("K1", pay())] {
        let (reply, live) = Reply::stream();
        upstream.script(reply);
        live.chunk("data: 1\n\n");
        live.finish();
        let mut connection = gateway.connect().await;
        let old = String::from_utf8(request.bytes()).expect("text").replacen("1.1\r", "1.0\r", 1);
        connection.send(old).await;
        let answer = connection.head().await.expect("a head");
        assert_eq!((answer.status, answer.header("Transfer-Encoding")), (200, None));
        assert_eq!(connection.rest().await, (b"data: 1\n\n".to_vec(), Piece::End));
    }
}

#[tokio::test]
async fn a_body_that_stalls_is_given_up_and_claims_nothing() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).set("upstream", "idle_timeout", "\"200ms\"");
    let gateway = setup.start().await;
    let mut connection = gateway.connect().await;
    connection.send(head("K1", &format!("Content-Length: {}\r\n", pay().len()))).await;
    connection.send(&pay()[1..]).await;
    let refused = connection.response().await.expect("an answer");
    refused.assert_refused(408, "request_timeout");
    assert_eq!(refused.header("Connection"), Some("close"));
    assert_eq!(upstream.hits(), 0);
    gateway.call("K1", pay()).await.assert_first();
}
