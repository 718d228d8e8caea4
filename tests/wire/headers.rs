//! What passes through untouched (CONTRACT sections 3, 7 and 9).

use crate::support::{
    Gateway, Piece, Reply, Request, Response, Setup, Upstream, http, json_reply, pay, result_for,
};
use serde_json::json;
use std::collections::BTreeSet;

async fn pair() -> (Upstream, Gateway) {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    (upstream, gateway)
}

#[tokio::test]
async fn a_request_passes_with_its_headers_and_its_bytes() {
    let (upstream, gateway) = pair().await;
    let headers = [
        ("Mcp-Session-Id", "transport-1"),
        ("MCP-Protocol-Version", "2025-11-25"),
        ("Last-Event-ID", "event-7"),
        ("User-Agent", "agent/1.0 (odd; (nested))"),
        ("Accept-Language", "de, en;q=0.5"),
        ("Accept-Encoding", "gzip, br"),
        ("Cookie", "a=1; b=2"),
        ("X-Unknown", "  kept\tas it is  "),
        ("X-Empty", ""),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ];
    let body =
        "{ \"jsonrpc\":\"2.0\" ,\r\n\"id\" : 1.0, \"method\":\"tools\\/list\", \"x\":[ 1E+2 ]}\n";
    let mut request = Request::post(body).header("X-Multi", "one").header("X-Multi", "two, three");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    gateway.send(&request).await;
    let received = upstream.last();
    assert_eq!(received.body, body.as_bytes());
    for (name, value) in headers.into_iter().filter(|(name, _)| *name != "traceparent") {
        assert_eq!(received.header(name), Some(value.trim()), "{name}");
    }
    let trace = received.header("traceparent").expect("the trace goes on");
    assert!(trace.contains("0af7651916cd43dd8448eb211c80319c"), "{trace}");
    assert_eq!(received.lines("X-Multi"), ["one", "two, three"]);
    assert_eq!(received.header("Content-Type"), Some("application/json"));
    assert_eq!(received.header("Accept"), Some("application/json, text/event-stream"));
    assert_eq!(received.lines("Host").len(), 1);
}

#[tokio::test]
async fn a_keyed_call_passes_with_its_very_bytes_too() {
    let (upstream, gateway) = pair().await;
    let body = "{\"params\" :{\"arguments\":{\"\\u0061\": 1.50},\"name\":\"p\\u0061y\"},\r\n \"method\":\"tools\\/call\",\"id\":1,\"jsonrpc\":\"2.0\" }";
    let request = Request::keyed("K1", body).header("Mcp-Session-Id", "transport-1");
    gateway.send(&request).await.assert_first();
    assert_eq!(upstream.last().text(), body);
    assert_eq!(upstream.last().header("Mcp-Session-Id"), Some("transport-1"));
}

#[tokio::test]
async fn hop_by_hop_headers_stay_on_their_hop() {
    let (upstream, gateway) = pair().await;
    let headers = [
        ("Content-Type", "application/json"),
        ("Connection", "X-Hop"),
        ("X-Hop", "1"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Authenticate", "Basic"),
    ];
    for request in [Request::post(pay()), Request::keyed("K1", pay())] {
        upstream.script(Reply::raw(http(200, &headers, result_for(pay().as_bytes(), "x"))));
        let request = request
            .header("Connection", "keep-alive, X-Mine")
            .header("X-Mine", "1")
            .header("Keep-Alive", "timeout=9")
            .header("Proxy-Connection", "keep-alive")
            .header("Proxy-Authorization", "Basic eA==")
            .header("TE", "trailers");
        let answer = gateway.send(&request).await;
        answer.assert_first();
        let received = upstream.last();
        for name in ["X-Mine", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "TE"] {
            assert_eq!(received.lines(name), Vec::<&str>::new(), "{name} went upstream");
        }
        for name in ["X-Hop", "Keep-Alive", "Proxy-Authenticate"] {
            assert_eq!(answer.lines(name), Vec::<&str>::new(), "{name} came down");
        }
    }
}

/// Header names that HTTP itself adds on a hop.
const OF_THE_HOP: [&str; 4] = ["date", "connection", "transfer-encoding", "content-length"];

fn names(response: &Response) -> BTreeSet<&str> {
    let names = response.headers.iter().map(|(name, _)| name.as_str());
    names.filter(|name| !OF_THE_HOP.contains(name)).collect()
}

#[tokio::test]
async fn a_reply_passes_with_its_headers_and_no_others() {
    let (upstream, gateway) = pair().await;
    let headers = [
        ("Content-Type", "application/json"),
        ("Mcp-Session-Id", "transport-2"),
        ("Cache-Control", "no-cache, no-transform"),
        ("X-Accel-Buffering", "no"),
        ("Set-Cookie", "a=1; expires=Mon, 01 Jan 2029 00:00:00 GMT"),
        ("Set-Cookie", "b=2"),
        ("X-RateLimit-Remaining", "7"),
        ("Server", "upstream/1"),
    ];
    upstream.script(Reply::raw(http(200, &headers, result_for(pay().as_bytes(), "x"))));
    let answer = gateway.send(&Request::post(pay())).await;
    for (name, value) in headers {
        assert!(answer.lines(name).contains(&value), "{name} in {answer:?}");
    }
    let sent: BTreeSet<String> = headers.iter().map(|(name, _)| name.to_lowercase()).collect();
    assert_eq!(names(&answer), sent.iter().map(String::as_str).collect());
}

#[tokio::test]
async fn a_coded_reply_to_an_unkeyed_request_passes_as_it_is() {
    let (upstream, gateway) = pair().await;
    let headers = [("Content-Type", "application/json"), ("Content-Encoding", "gzip")];
    upstream.script(Reply::raw(http(200, &headers, [0x1f, 0x8b, 0xff])));
    let answer = gateway.send(&Request::post(pay()).header("Accept-Encoding", "gzip")).await;
    assert_eq!(answer.header("Content-Encoding"), Some("gzip"));
    assert_eq!(answer.body, [0x1f, 0x8b, 0xff]);
}

#[tokio::test]
async fn refusals_of_the_upstream_pass_unmodified() {
    let (upstream, gateway) = pair().await;
    let body = " {\"jsonrpc\": \"2.0\", \"error\": {\"code\": -32000, \"message\": \"No session\"}, \"id\": null}\n";
    let requests = [
        Request::post(pay()),
        Request::keyed("K1", pay()),
        Request::new("GET", "/mcp").header("Accept", "text/event-stream"),
        Request::new("DELETE", "/mcp").header("Mcp-Session-Id", "dead"),
    ];
    for status in [400, 404, 405] {
        for request in &requests {
            upstream.script(Reply::raw(json_reply(status, body)));
            let answer = gateway.send(request).await;
            assert_eq!((answer.status, answer.text().as_str()), (status, body));
            assert_eq!(answer.header("Content-Type"), Some("application/json"));
        }
    }
}

#[tokio::test]
async fn a_transport_session_can_be_deleted() {
    let (upstream, gateway) = pair().await;
    upstream.script(Reply::raw("HTTP/1.1 204 No Content\r\n\r\n"));
    let request = Request::new("DELETE", "/mcp").header("Mcp-Session-Id", "transport-1");
    assert_eq!(gateway.send(&request).await.status, 204);
    assert_eq!(upstream.last().line, "DELETE /mcp HTTP/1.1");
    assert_eq!(upstream.last().header("Mcp-Session-Id"), Some("transport-1"));
}

#[tokio::test]
async fn a_listening_stream_passes_event_by_event() {
    let (upstream, gateway) = pair().await;
    let (reply, live) = Reply::live();
    upstream.script(reply);
    live.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Accel-Buffering: no\r\n");
    live.send("Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n");
    let request = Request::new("GET", "/mcp")
        .header("Accept", "text/event-stream")
        .header("Last-Event-ID", "event-6")
        .header("Mcp-Session-Id", "transport-1");
    let mut connection = gateway.begin(&request).await;
    // The head comes before the first event does.
    let head = connection.head().await.expect("a head");
    assert_eq!(head.header("X-Accel-Buffering"), Some("no"));
    assert_eq!(head.header("Cache-Control"), Some("no-cache"));
    assert_eq!(upstream.last().header("Last-Event-ID"), Some("event-6"));
    for event in [": ping\n\n", "id: event-7\r\ndata: x\r\n\r\n", "retry: 5\n", "\n"] {
        live.chunk(event);
        assert_eq!(connection.body_until(event.as_bytes()).await, event.as_bytes());
    }
    live.finish();
    assert_eq!(connection.rest().await, (Vec::new(), Piece::End));
}

#[tokio::test]
async fn the_gateways_own_credential_stays_with_it() {
    let (upstream, gateway) = pair().await;
    let request = Request::post(pay())
        .header("X-MCP-Human-ID", "mallory")
        .header("X-MCP-Agent-ID", "forged")
        .header("X-MCP-Team-ID", "forged")
        .header("x-mcp-human-id", "mallory-again")
        .header("X_MCP_Human_ID", "mallory");
    gateway.send(&request).await.assert_first();
    let received = upstream.last();
    assert_eq!(received.lines("Authorization"), Vec::<&str>::new());
    assert_eq!(received.lines("X-MCP-Human-ID"), ["alice"]);
    assert_eq!(received.lines("X-MCP-Agent-ID"), ["agent-a"]);
    assert_eq!(received.lines("X-MCP-Team-ID"), ["team-a"]);
    assert_eq!(received.lines("X_MCP_Human_ID"), Vec::<&str>::new());
}

#[tokio::test]
async fn a_credential_that_is_not_the_gateways_passes() {
    let upstream = Upstream::start().await;
    let modes = [
        json!({"mode": "static", "human_id": "alice"}),
        json!({"mode": "header"}),
        json!({"mode": "none"}),
    ];
    for mode in modes {
        let setup = Setup::new(&upstream)
            .policy(|policy| policy.with(|document| document["auth"] = mode.clone()));
        let gateway = setup.start().await;
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let request = Request::post(body).bearer("for-upstream").header("X-MCP-Human-ID", "alice");
        gateway.send(&request).await.assert_first();
        assert_eq!(upstream.last().header("Authorization"), Some("Bearer for-upstream"), "{mode}");
    }
}

#[tokio::test]
async fn one_client_connection_serves_many_requests() {
    let (upstream, gateway) = pair().await;
    let mut connection = gateway.connect().await;
    for number in 1..=3 {
        connection.send(Request::post(pay()).bytes()).await;
        connection.response().await.expect("an answer").assert_first();
        connection.send(Request::keyed("K1", pay()).bytes()).await;
        assert_eq!(connection.response().await.expect("an answer").status, 200);
        assert_eq!(upstream.hits(), number + 1);
    }
}

#[tokio::test]
async fn a_listening_stream_may_be_quiet_for_longer_than_a_call() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).set("upstream", "idle_timeout", "\"100ms\"");
    let gateway = setup.start().await;
    let (listened, live) = Reply::stream();
    let (called, _quiet) = Reply::stream();
    upstream.script(listened);
    let listen = Request::new("GET", "/mcp").header("Accept", "text/event-stream");
    let mut listening = gateway.begin(&listen).await;
    assert_eq!(listening.head().await.expect("a head").status, 200);
    upstream.script(called);
    let mut calling = gateway.begin(&Request::post(pay())).await;
    assert_eq!(calling.head().await.expect("a head").status, 200);
    // The call's stream, as quiet and begun later, has run into the time-out.
    assert_eq!(calling.rest().await, (Vec::new(), Piece::Cut));
    live.chunk("data: late\n\n");
    live.finish();
    assert_eq!(listening.rest().await, (b"data: late\n\n".to_vec(), Piece::End));
}
