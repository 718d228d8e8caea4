//! The tables of CONTRACT section 4: what a keyed call finds, and how a first execution settles.

use crate::support::{
    Conn, Gate, Gateway, KEY, Reply, Request, Response, Setup, Upstream, call, eventually, http,
    json_reply, pay, result_for, within,
};
use serde_json::json;

/// What the upstream has done with the call by the time it is repeated.
struct Case {
    gateway: Gateway,
    upstream: Upstream,
}

impl Case {
    async fn start() -> Self {
        let upstream = Upstream::start().await;
        Self { gateway: Gateway::start(&upstream).await, upstream }
    }

    /// The first call under `key`, answered by `reply`, and its immediate retry.
    async fn twice(&self, key: &str, reply: Reply) -> (Response, Response) {
        self.upstream.script(reply);
        let first = self.gateway.call(key, pay()).await;
        (first, self.gateway.call(key, pay()).await)
    }
}

fn ok_for_pay(text: &str) -> String {
    result_for(pay().as_bytes(), text)
}

#[tokio::test]
async fn a_completed_call_is_replayed() {
    let case = Case::start().await;
    let first = case.gateway.call("K1", pay()).await;
    first.assert_first();
    for _ in 0..3 {
        case.gateway.call("K1", pay()).await.assert_replays(&first);
    }
    assert_eq!(case.upstream.hits(), 1);
    let outcomes = case.gateway.metrics().await.outcomes();
    assert_eq!(outcomes, [("first".to_owned(), 1), ("replay".to_owned(), 3)].into());
}

#[tokio::test]
async fn another_call_under_a_used_key_is_a_conflict_whatever_the_state() {
    let case = Case::start().await;
    let other = call("pay", json!({"to": "acct-1", "amount": 99}));
    let conflicts = async |key: &str| {
        let refused = case.gateway.call(key, other.clone()).await;
        refused.assert_refused(409, "idempotency_key_conflict");
        assert_eq!(refused.header("Retry-After"), None);
    };
    case.gateway.call("completed", pay()).await.assert_first();
    conflicts("completed").await;
    case.twice("unknown", Reply::silent().close()).await;
    conflicts("unknown").await;
    let coded = [("Content-Type", "application/json"), ("Content-Encoding", "br")];
    case.twice("unkept", Reply::raw(http(200, &coded, "coded"))).await;
    conflicts("unkept").await;
    let gate = Gate::new();
    case.upstream.script(Reply::silent().wait(&gate).close());
    let _waiting = case.gateway.begin(&Request::keyed("in-flight", pay())).await;
    case.upstream.hit(4).await;
    conflicts("in-flight").await;
    assert_eq!(case.upstream.hits(), 4);
}

#[tokio::test]
async fn a_duplicate_in_flight_is_told_to_come_back() {
    let case = Case::start().await;
    let gate = Gate::new();
    let body = ok_for_pay("done");
    case.upstream.script(Reply::silent().wait(&gate).send(json_reply(200, &body)));
    let mut waiting = case.gateway.begin(&Request::keyed("K1", pay())).await;
    case.upstream.hit(1).await;
    for _ in 0..20 {
        let refused = case.gateway.call("K1", pay()).await;
        refused.assert_refused(409, "idempotency_in_flight");
        assert_eq!(refused.header("Retry-After"), Some("1"));
    }
    gate.open();
    let first = waiting.response().await.expect("the reply");
    assert_eq!(first.text(), body);
    case.gateway.call("K1", pay()).await.assert_replays(&first);
    assert_eq!(case.upstream.hits(), 1);
    assert_eq!(case.gateway.metrics().await.outcomes()["in_flight"], 20);
}

#[tokio::test]
async fn of_many_at_once_exactly_one_is_executed() {
    let case = Case::start().await;
    let gate = Gate::new();
    case.upstream.script(Reply::silent().wait(&gate).send(json_reply(200, &ok_for_pay("x"))));
    let mut waiting: Vec<Conn> = Vec::new();
    for _ in 0..32 {
        waiting.push(case.gateway.begin(&Request::keyed("K1", pay())).await);
    }
    case.upstream.hit(1).await;
    // All but the one that executes are answered while it is held.
    within("31 refusals", async {
        while case.gateway.metrics().await.outcomes().get("in_flight") != Some(&31) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    gate.open();
    let mut executed = 0;
    for mut connection in waiting {
        let answer = connection.response().await.expect("an answer");
        match answer.status {
            200 => executed += 1,
            _ => answer.assert_refused(409, "idempotency_in_flight"),
        }
    }
    assert_eq!((executed, case.upstream.hits()), (1, 1));
}

#[tokio::test]
async fn a_tool_that_ran_and_answered_with_an_error_is_completed() {
    let case = Case::start().await;
    let bodies = [
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no id"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#,
    ];
    for (number, body) in bodies.into_iter().enumerate() {
        let (first, retry) = case.twice(&format!("K{number}"), Reply::json(body)).await;
        first.assert_first();
        assert_eq!(first.text(), body);
        retry.assert_replays(&first);
        assert_eq!(case.upstream.hits(), number + 1);
    }
}

#[tokio::test]
async fn every_4xx_releases_the_key_and_reaches_the_caller() {
    let case = Case::start().await;
    let refusals: [(u16, &[(&str, &str)]); 8] = [
        (400, &[]),
        (401, &[("WWW-Authenticate", "Bearer realm=\"up\"")]),
        (404, &[]),
        (408, &[]),
        (409, &[]),
        (417, &[]),
        (429, &[("Retry-After", "2")]),
        (499, &[]),
    ];
    for (number, (status, headers)) in refusals.into_iter().enumerate() {
        let key = format!("K{number}");
        let body = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"refused"}}"#;
        let mut all = headers.to_vec();
        all.push(("Content-Type", "application/json"));
        let (first, retry) = case.twice(&key, Reply::raw(http(status, &all, body))).await;
        assert_eq!((first.status, first.text().as_str()), (status, body));
        for (name, value) in headers {
            assert_eq!(first.header(name), Some(*value));
        }
        retry.assert_first();
        assert_eq!(case.upstream.hits(), 2 * (number + 1));
        case.gateway.call(&key, pay()).await.assert_replays(&retry);
    }
}

#[tokio::test]
async fn a_dead_transport_session_can_be_replaced_under_the_same_key() {
    let case = Case::start().await;
    case.upstream.script(Reply::raw(http(404, &[], "")));
    let request = Request::keyed("K1", pay());
    let dead = case.gateway.send(&request.clone().header("Mcp-Session-Id", "dead")).await;
    assert_eq!(dead.status, 404);
    case.gateway.send(&request.header("Mcp-Session-Id", "fresh")).await.assert_first();
    assert_eq!(case.upstream.hits(), 2);
}

#[tokio::test]
async fn a_5xx_or_3xx_is_passed_on_and_its_outcome_is_unknown() {
    let case = Case::start().await;
    let statuses = [300, 301, 302, 303, 304, 307, 308, 500, 501, 502, 503, 504, 599];
    for (number, status) in statuses.into_iter().enumerate() {
        let key = format!("K{number}");
        let location = format!("{}/elsewhere", case.upstream.url());
        let headers = [("Location", location.as_str()), ("Retry-After", "7")];
        let body = if status == 304 { "" } else { "upstream says no" };
        let (first, retry) =
            case.twice(&key, Reply::raw(http(status, &headers, body)).close()).await;
        assert_eq!((first.status, first.text().as_str()), (status, body));
        assert_eq!(first.header("Location"), Some(location.as_str()));
        assert_eq!(first.header("Retry-After"), Some("7"));
        for refused in [retry, case.gateway.call(&key, pay()).await] {
            refused.assert_refused(409, "idempotency_outcome_unknown");
            assert_eq!(refused.header("Retry-After"), None);
            assert_eq!(refused.json()["error"]["data"]["advice"], json!("reconcile"));
        }
        assert_eq!(case.upstream.hits(), number + 1, "after {status}");
    }
}

#[tokio::test]
async fn an_upstream_that_does_not_answer_in_time_leaves_an_unknown_outcome() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).set("upstream", "response_timeout", "\"200ms\"");
    let gateway = setup.start().await;
    let gate = Gate::new();
    upstream.script(Reply::silent().wait(&gate).send(json_reply(200, &ok_for_pay("late"))));
    gateway.call("K1", pay()).await.assert_refused(504, "upstream_timeout");
    gateway.call("K1", pay()).await.assert_refused(409, "idempotency_outcome_unknown");
    gate.open();
    gateway.call("K1", pay()).await.assert_refused(409, "idempotency_outcome_unknown");
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn a_body_that_stops_coming_is_unknown() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).set("upstream", "idle_timeout", "\"200ms\"");
    let gateway = setup.start().await;
    let (reply, live) = Reply::live();
    upstream.script(reply);
    live.send(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"a\"",
    );
    match gateway.exchange(&Request::keyed("K1", pay())).await {
        Ok(answer) => assert!(matches!(answer.status, 502 | 504), "{}", answer.text()),
        Err(cut) => assert!(cut.partial.is_some_and(|part| part.status == 200)),
    }
    let retry = gateway.settled(&Request::keyed("K1", pay())).await;
    retry.assert_refused(409, "idempotency_outcome_unknown");
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn a_json_reply_that_is_no_complete_answer_to_this_call_is_unknown() {
    let case = Case::start().await;
    let bodies = [
        "",
        "{",
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"te"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"1","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}} trailing"#,
        "captive portal",
    ];
    for (number, body) in bodies.into_iter().enumerate() {
        let key = format!("K{number}");
        case.upstream.script(Reply::json(body));
        case.gateway.call(&key, pay()).await;
        let retry = case.gateway.call(&key, pay()).await;
        retry.assert_refused(409, "idempotency_outcome_unknown");
        assert_eq!(case.upstream.hits(), number + 1, "after {body}");
    }
}

#[tokio::test]
async fn an_upstream_that_cannot_be_reached_releases_the_key() {
    let upstream = Upstream::start().await;
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        listener.local_addr().expect("an address")
    };
    let nowhere = format!("http://{address}/mcp");
    let setup = Setup::new(&upstream)
        .policy(|policy| policy.with(|document| document["server"]["upstream"] = json!(nowhere)));
    let gateway = setup.start().await;
    for _ in 0..2 {
        let refused = gateway.call("K1", pay()).await;
        refused.assert_refused(502, "upstream_unreachable");
        assert!(refused.header("Retry-After").is_some());
        assert_eq!(refused.json()["error"]["data"]["advice"], json!("retry_same_key"));
    }
    assert_eq!(gateway.metrics().await.outcomes(), [("first".to_owned(), 2)].into());
}

#[tokio::test]
async fn a_name_that_does_not_resolve_and_a_failing_handshake_are_unreachable() {
    let upstream = Upstream::start().await;
    let plain = upstream.url().replace("http://", "https://");
    for (number, url) in ["http://no-such-host.invalid/mcp", &plain].into_iter().enumerate() {
        let setup = Setup::new(&upstream)
            .policy(|policy| policy.with(|document| document["server"]["upstream"] = json!(url)));
        let gateway = setup.start().await;
        for _ in 0..2 {
            let key = format!("K{number}");
            gateway.call(&key, pay()).await.assert_refused(502, "upstream_unreachable");
        }
        // Which of the causes it is depends on the resolver and on who gives up first.
        let said = || async { gateway.stderr().contains("nothing was sent: ").then_some(()) };
        eventually("the log to say why", said).await;
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn a_key_never_goes_upstream_and_a_replayed_mark_never_comes_from_there() {
    let case = Case::start().await;
    let headers = [("Content-Type", "application/json"), ("Idempotency-Replayed", "true")];
    let reply = || Reply::raw(http(200, &headers, ok_for_pay("x")));
    let (first, retry) = case.twice("K1", reply()).await;
    first.assert_first();
    retry.assert_replays(&first);
    assert_eq!(case.upstream.last().lines(KEY), Vec::<&str>::new());
    case.upstream.script(reply());
    case.gateway.send(&Request::post(pay())).await.assert_first();
}

#[tokio::test]
async fn refusals_at_the_door_count_as_rejected() {
    let case = Case::start().await;
    case.gateway.call("not a key", pay()).await.assert_refused(400, "idempotency_key_invalid");
    let listing = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let refused = case.gateway.call("K1", listing).await;
    refused.assert_refused(400, "idempotency_unsupported_request");
    assert_eq!(case.gateway.metrics().await.outcomes(), [("rejected".to_owned(), 2)].into());
}

#[tokio::test]
async fn an_upstream_that_leaves_http_has_not_answered() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
    for request in [Request::post(pay()), Request::keyed("K1", pay())] {
        upstream.script(Reply::raw(switch));
        gateway.send(&request).await.assert_refused(502, "upstream_disconnected");
    }
    gateway.call("K1", pay()).await.assert_refused(409, "idempotency_outcome_unknown");
}
