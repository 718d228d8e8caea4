//! Where several rows of the settle table fit one reply (CONTRACT section 11): failure beats all,
//! then the status, then what cannot be kept.

use crate::support::{
    Gateway, Reply, Request, Response, Upstream, http, json_reply, pay, result_for,
};

const REPLY_BYTES: usize = 32 * 1024;
const JSON: (&str, &str) = ("Content-Type", "application/json");
const STREAM: (&str, &str) = ("Content-Type", "text/event-stream");
const CODED: (&str, &str) = ("Content-Encoding", "gzip");

struct Case {
    upstream: Upstream,
    gateway: Gateway,
    used: usize,
}

impl Case {
    async fn start() -> Self {
        let upstream = Upstream::start().await;
        let gateway = Gateway::start(&upstream).await;
        Self { upstream, gateway, used: 0 }
    }

    /// What the retry of a call finds whose first reply was this one.
    async fn retry_after(&mut self, reply: Reply) -> Response {
        self.used += 1;
        let request = Request::keyed(&format!("K{}", self.used), pay());
        self.upstream.script(reply);
        let _ = self.gateway.exchange(&request).await;
        self.gateway.settled(&request).await
    }
}

/// A reply that announces more bytes than come.
fn cut(status: u16, headers: &[(&str, &str)]) -> Reply {
    let whole = http(status, headers, [b'x'; 500]);
    Reply::raw(&whole[..whole.len() - 100]).close()
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_unknown_whatever_its_status_and_kind() {
    let mut case = Case::start().await;
    let mut large = http(200, &[JSON], vec![b'x'; 3 * REPLY_BYTES]);
    large.truncate(2 * REPLY_BYTES);
    let replies = [
        cut(400, &[JSON]),
        cut(404, &[]),
        cut(429, &[STREAM]),
        cut(200, &[CODED]),
        cut(200, &[STREAM]),
        cut(500, &[]),
        Reply::raw(large).close(),
    ];
    for reply in replies {
        case.retry_after(reply).await.assert_refused(409, "idempotency_outcome_unknown");
    }
    assert_eq!(case.upstream.hits(), case.used);
}

#[tokio::test]
async fn a_4xx_releases_whatever_its_body_is() {
    let mut case = Case::start().await;
    let large = vec![b'x'; REPLY_BYTES + 1];
    let replies = [
        http(400, &[STREAM], "data: x\n\n"),
        http(404, &[CODED], [0x1f, 0x8b]),
        http(422, &[JSON], &large),
        http(400, &[JSON], "{ not json"),
        http(409, &[JSON], r#"{"jsonrpc":"2.0","id":99,"result":{}}"#),
        http(403, &[JSON], result_for(pay().as_bytes(), "a result under a 4xx")),
    ];
    for reply in replies {
        case.retry_after(Reply::raw(reply)).await.assert_first();
    }
    assert_eq!(case.upstream.hits(), 2 * case.used);
}

#[tokio::test]
async fn a_5xx_or_3xx_is_unknown_whatever_its_body_is() {
    let mut case = Case::start().await;
    let replies = [
        http(500, &[STREAM], format!("data: {}\n\n", result_for(pay().as_bytes(), "x"))),
        http(503, &[CODED], [0x1f, 0x8b]),
        http(500, &[JSON], vec![b'x'; REPLY_BYTES + 1]),
        http(500, &[JSON], result_for(pay().as_bytes(), "a result under a 5xx")),
        http(307, &[JSON, ("Location", "/elsewhere")], result_for(pay().as_bytes(), "x")),
    ];
    for reply in replies {
        let retry = case.retry_after(Reply::raw(reply)).await;
        retry.assert_refused(409, "idempotency_outcome_unknown");
    }
    assert_eq!(case.upstream.hits(), case.used);
}

#[tokio::test]
async fn what_cannot_be_kept_is_not_examined() {
    let mut case = Case::start().await;
    let padding = " ".repeat(REPLY_BYTES);
    let replies = [
        http(200, &[JSON], format!(r#"{{"jsonrpc":"2.0","id":99,"result":{{}}}}{padding}"#)),
        http(200, &[JSON], format!("{{ not json {padding}")),
        http(200, &[JSON, CODED], r#"{"jsonrpc":"2.0","id":99,"result":{}}"#),
        http(200, &[STREAM], "data: {\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n\n"),
        http(200, &[STREAM, CODED], "coded"),
    ];
    for reply in replies {
        let retry = case.retry_after(Reply::raw(reply)).await;
        retry.assert_refused(409, "idempotency_response_not_replayable");
    }
    assert_eq!(case.upstream.hits(), case.used);
}

#[tokio::test]
async fn a_null_id_answers_this_call_in_an_error_alone() {
    let mut case = Case::start().await;
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"unreadable"}}"#;
    assert!(case.retry_after(Reply::json(error)).await.replayed());
    let result = r#"{"jsonrpc":"2.0","id":null,"result":{}}"#;
    let retry = case.retry_after(Reply::json(result)).await;
    retry.assert_refused(409, "idempotency_outcome_unknown");
}

#[tokio::test]
async fn json_that_is_no_utf_8_is_not_complete() {
    let mut case = Case::start().await;
    let mut body = result_for(pay().as_bytes(), "?").into_bytes();
    let mark = body.iter().position(|byte| *byte == b'?').expect("the mark");
    body[mark] = 0xff;
    case.upstream.script(Reply::raw(http(200, &[JSON], &body)));
    let first = case.gateway.call("K1", pay()).await;
    assert_eq!((first.status, &first.body), (200, &body), "the caller gets it as it came");
    case.used = 1;
    let retry = case.gateway.call("K1", pay()).await;
    retry.assert_refused(409, "idempotency_outcome_unknown");
    // The same bytes under another media type are any bytes.
    let retry = case.retry_after(Reply::raw(http(200, &[("Content-Type", "text/plain")], &body)));
    let retry = retry.await;
    assert!(retry.replayed());
    assert_eq!(retry.body, body);
}

#[tokio::test]
async fn a_status_that_says_accepted_is_a_2xx() {
    let mut case = Case::start().await;
    let reply = Reply::raw(json_reply(202, &result_for(pay().as_bytes(), "queued")));
    let retry = case.retry_after(reply).await;
    assert_eq!((retry.status, retry.replayed()), (202, true));
}
