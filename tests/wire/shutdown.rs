//! The end of the process (CONTRACT section 10).

use crate::support::{
    Gate, Gateway, Piece, Reply, Request, Setup, Upstream, eventually, http, json_reply, pay,
    result_for,
};

#[tokio::test]
async fn running_calls_finish_and_nothing_new_is_accepted() {
    let upstream = Upstream::start().await;
    let mut gateway = Gateway::start(&upstream).await;
    let gate = Gate::new();
    let body = result_for(pay().as_bytes(), "done");
    for _ in 0..2 {
        upstream.script(Reply::silent().wait(&gate).send(json_reply(200, &body)));
    }
    let mut keyed = gateway.begin(&Request::keyed("K1", pay())).await;
    let mut unkeyed = gateway.begin(&Request::post(pay())).await;
    upstream.hit(2).await;
    gateway.sigterm();
    let address = gateway.mcp;
    eventually("new connections to be refused", || async {
        tokio::net::TcpStream::connect(address).await.is_err().then_some(())
    })
    .await;
    gate.open();
    for connection in [&mut keyed, &mut unkeyed] {
        let answer = connection.response().await.expect("the reply");
        answer.assert_first();
        assert_eq!(answer.text(), body);
    }
    let status = gateway.wait().await;
    assert_eq!(status.code(), Some(0), "{}", gateway.stderr());
    gateway.audit(2).await;
    assert_eq!(gateway.stdout().lines().count(), 2, "both exchanges are audited");
}

#[tokio::test]
async fn an_idle_gateway_ends_at_once_though_connections_are_open() {
    let upstream = Upstream::start().await;
    let mut gateway = Setup::new(&upstream).set("listen", "drain", "\"1h\"").start().await;
    let mut idle = gateway.connect().await;
    let mut kept = gateway.begin(&Request::post(pay())).await;
    kept.response().await.expect("an answer").assert_first();
    gateway.sigterm();
    assert_eq!(gateway.wait().await.code(), Some(0), "{}", gateway.stderr());
    assert!(idle.until_closed().await.is_empty());
}

#[tokio::test]
async fn what_outlasts_the_drain_time_is_cut() {
    let upstream = Upstream::start().await;
    let mut gateway = Setup::new(&upstream).set("listen", "drain", "\"200ms\"").start().await;
    let gate = Gate::new();
    upstream.script(Reply::silent().wait(&gate));
    let mut keyed = gateway.begin(&Request::keyed("K1", pay())).await;
    upstream.hit(1).await;
    gateway.sigterm();
    assert_eq!(gateway.wait().await.code(), Some(0), "{}", gateway.stderr());
    if let Ok(answer) = keyed.response().await {
        assert!(answer.status >= 500, "{}", answer.text());
    }
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn a_call_whose_caller_has_left_is_finished_before_the_end() {
    let upstream = Upstream::start().await;
    let mut gateway = Setup::new(&upstream).set("listen", "drain", "\"1h\"").start().await;
    let gate = Gate::new();
    let body = result_for(pay().as_bytes(), "done");
    upstream.script(Reply::silent().wait(&gate).send(json_reply(200, &body)));
    let keyed = gateway.begin(&Request::keyed("K1", pay())).await;
    upstream.hit(1).await;
    drop(keyed);
    gateway.sigterm();
    let address = gateway.mcp;
    eventually("new connections to be refused", || async {
        tokio::net::TcpStream::connect(address).await.is_err().then_some(())
    })
    .await;
    gate.open();
    assert_eq!(gateway.wait().await.code(), Some(0), "{}", gateway.stderr());
    assert!(!upstream.is_abandoned(1));
    assert!(gateway.stdout().contains("\"first\""), "{}", gateway.stdout());
}

#[tokio::test]
async fn a_stream_is_drained_like_any_reply() {
    let upstream = Upstream::start().await;
    let mut gateway = Setup::new(&upstream).set("listen", "drain", "\"1h\"").start().await;
    let (reply, live) = Reply::stream();
    upstream.script(reply);
    live.chunk("data: 1\n\n");
    let mut connection = gateway.begin(&Request::keyed("K1", pay())).await;
    connection.head().await.expect("a head");
    connection.body_until(b"data: 1\n\n").await;
    gateway.sigterm();
    let address = gateway.mcp;
    eventually("new connections to be refused", || async {
        tokio::net::TcpStream::connect(address).await.is_err().then_some(())
    })
    .await;
    live.chunk("data: 2\n\n");
    live.finish();
    assert_eq!(connection.rest().await, (b"data: 2\n\n".to_vec(), Piece::End));
    assert_eq!(gateway.wait().await.code(), Some(0), "{}", gateway.stderr());
}

#[tokio::test]
async fn an_answer_is_written_whole_before_the_end() {
    /// More than the sockets on the way hold while the client reads nothing.
    const REPLY_BYTES: usize = 32 * 1024 * 1024;
    let upstream = Upstream::start().await;
    let mut gateway = Setup::new(&upstream).set("listen", "drain", "\"1h\"").start().await;
    upstream.script(Reply::raw(http(200, &[], vec![b'x'; REPLY_BYTES])));
    let mut connection = gateway.begin(&Request::keyed("K1", pay())).await;
    connection.head().await.expect("a head");
    gateway.sigterm();
    let mut seen = 0;
    // Once the call has settled nothing but its answer keeps the process.
    while let Some(status) = gateway.try_admin("/v1/status").await
        && status.json()["store"]["in_flight"] != 0
    {
        let Piece::Data(bytes) = connection.piece().await else { panic!("cut at {seen}") };
        seen += bytes.len();
    }
    let (rest, end) = connection.rest().await;
    assert_eq!((seen + rest.len(), end), (REPLY_BYTES, Piece::End));
    assert_eq!(gateway.wait().await.code(), Some(0), "{}", gateway.stderr());
}

#[tokio::test]
async fn a_stream_that_is_only_listened_to_ends_in_order() {
    let upstream = Upstream::start().await;
    let mut gateway = Setup::new(&upstream).set("listen", "drain", "\"1h\"").start().await;
    let (reply, live) = Reply::stream();
    upstream.script(reply);
    live.chunk("data: 1\n\n");
    let listen = Request::new("GET", "/mcp").header("Accept", "text/event-stream");
    let mut connection = gateway.begin(&listen).await;
    connection.head().await.expect("a head");
    connection.body_until(b"data: 1\n\n").await;
    gateway.sigterm();
    assert_eq!(connection.rest().await, (Vec::new(), Piece::End));
    assert_eq!(gateway.wait().await.code(), Some(0), "{}", gateway.stderr());
}

#[tokio::test]
async fn a_new_request_on_an_open_connection_is_told_to_come_again() {
    let upstream = Upstream::start().await;
    let mut gateway = Setup::new(&upstream).set("listen", "drain", "\"1h\"").start().await;
    let gate = Gate::new();
    upstream.script(Reply::silent().wait(&gate).close());
    let _running = gateway.begin(&Request::post(pay())).await;
    upstream.hit(1).await;
    let mut kept = gateway.begin(&Request::keyed("K1", pay())).await;
    kept.response().await.expect("an answer").assert_first();
    gateway.sigterm();
    let address = gateway.mcp;
    eventually("new connections to be refused", || async {
        tokio::net::TcpStream::connect(address).await.is_err().then_some(())
    })
    .await;
    kept.send(Request::keyed("K1", pay()).bytes()).await;
    let refused = kept.response().await.expect("an answer");
    refused.assert_refused(503, "shutting_down");
    assert_eq!(refused.json()["error"]["data"]["advice"], "retry_same_key");
    assert_eq!(refused.header("Connection"), Some("close"));
    gate.open();
    assert_eq!(gateway.wait().await.code(), Some(0), "{}", gateway.stderr());
    assert_eq!(upstream.hits(), 2);
}
