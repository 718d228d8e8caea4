//! Replies of every framing, whole and broken.

use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

use super::scripted::Upstream;
use super::*;

/// Sends one request to an upstream that answers it with `reply` and closes.
async fn exchange(
    reply: &'static [u8],
) -> Result<(u16, Result<Vec<u8>, (Vec<u8>, Failure)>), Failure> {
    let upstream = Upstream::replying(reply).await;
    let response = client(PATIENT).send(post(upstream.url("/mcp"))).await;
    assert_eq!(upstream.hits.of("/mcp"), 1);
    let response = response?;
    Ok((response.status, read(response.body).await))
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (status, body) = exchange(
        b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n",
    )
    .await
    .expect("a reply");
    assert_eq!((status, body), (307, Ok(vec![])));
}

#[tokio::test]
async fn truncated_bodies_are_never_a_clean_end() {
    for reply in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nfirst"[..],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nfirst",
    ] {
        let (status, body) = exchange(reply).await.expect("a head");
        assert_eq!((status, body), (200, Err((b"first".to_vec(), DISCONNECTED))));
    }
}

#[tokio::test]
async fn a_reset_ends_no_body_cleanly() {
    for reply in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\n\r\n{\"delimited\": \"by the close",
    ] {
        let go = Arc::new(Notify::new());
        let going = go.clone();
        let upstream = Upstream::start(move |_, mut connection| {
            let going = going.clone();
            async move {
                connection.request().await;
                connection.write(reply).await;
                going.notified().await;
                connection.reset();
            }
        })
        .await;
        let response = client(PATIENT).send(post(upstream.url("/mcp"))).await.expect("a head");
        go.notify_one();
        let (_, failure) = read(response.body).await.expect_err("a reset");
        assert_eq!(failure, DISCONNECTED);
    }
}

#[tokio::test]
async fn a_complete_reply_followed_by_a_reset_is_complete() {
    let upstream = Upstream::start(|_, mut connection| async move {
        connection.request().await;
        connection.write(OK).await;
        connection.reset();
    })
    .await;
    let response = client(PATIENT).send(post(upstream.url("/mcp"))).await.expect("a head");
    assert_eq!(read(response.body).await, Ok(b"ok".to_vec()));
}

#[tokio::test]
async fn whole_bodies_of_every_framing() {
    for reply in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody"[..],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nb\r\n3\r\nody\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x\r\n\r\n4\r\nbody\r\n0\r\nx: y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nbody",
        b"HTTP/1.0 200 OK\r\n\r\nbody",
        b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody",
    ] {
        assert_eq!(exchange(reply).await, Ok((200, Ok(b"body".to_vec()))));
    }
}

#[tokio::test]
async fn replies_without_a_body_do_not_hang() {
    for (status, reply) in [
        (204, &b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n"[..]),
        (304, b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n"),
        (202, b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"),
        (101, b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
    ] {
        let upstream = Upstream::start(move |_, mut connection| async move {
            connection.request().await;
            connection.write(reply).await;
            connection.closed().await;
        })
        .await;
        let response = client(PATIENT).send(post(upstream.url("/mcp"))).await.expect("a head");
        assert_eq!(response.status, status);
        assert_eq!(response.body.expected_len(), Some(0), "{status}");
        assert_eq!(read(response.body).await, Ok(vec![]), "{status}");
    }
}

#[tokio::test]
async fn the_expected_length_is_the_declared_one() {
    for (expected, reply) in [
        (Some(500), &b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n"[..]),
        (None, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
        (None, b"HTTP/1.1 200 OK\r\n\r\n"),
    ] {
        let upstream = Upstream::replying(reply).await;
        let response = client(PATIENT).send(post(upstream.url("/mcp"))).await.expect("a head");
        assert_eq!(response.body.expected_len(), expected);
    }
}

#[tokio::test]
async fn a_body_that_goes_quiet_times_out() {
    let upstream = Upstream::start(|_, mut connection| async move {
        connection.request().await;
        connection.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        connection.write(b"5\r\nfirst\r\n").await;
        connection.closed().await;
    })
    .await;
    let client = client(Timeouts { idle: SHORT, ..PATIENT });
    let response = client.send(post(upstream.url("/mcp"))).await.expect("a head");
    let (_, failure) = read(response.body).await.expect_err("quiet");
    assert_eq!(failure, TIMEOUT);
}

#[tokio::test]
async fn what_is_no_http_or_too_large_breaks_the_exchange() {
    for reply in [
        b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(),
        [b"HTTP/1.1 200 OK\r\n".to_vec(), b"a: b\r\n".repeat(MAX_HEADERS + 1), b"\r\n".to_vec()]
            .concat(),
        [b"HTTP/1.1 200 OK\r\na: ".to_vec(), vec![b'b'; 2 * MAX_HEAD_BYTES], b"\r\n\r\n".to_vec()]
            .concat(),
    ] {
        let upstream = Upstream::start(move |_, mut connection| {
            let reply = reply.clone();
            async move {
                connection.request().await;
                // The client may be gone before it took everything.
                let _ = connection.stream.write_all(&reply).await;
                connection.closed().await;
            }
        })
        .await;
        let failure = client(PATIENT).send(post(upstream.url("/mcp"))).await;
        assert_eq!(failure.err(), Some(DISCONNECTED));
        assert_eq!(upstream.hits.of("/mcp"), 1);
    }
}

#[tokio::test]
async fn repeated_reply_headers_keep_their_order() {
    let upstream = Upstream::replying(
        b"HTTP/1.1 204 No Content\r\nset-cookie: a=1; expires=Mon, 01 Jan 2029 00:00:00 GMT\r\nset-cookie: b=2\r\n\r\n",
    )
    .await;
    let response = client(PATIENT).send(post(upstream.url("/mcp"))).await.expect("a reply");
    let cookies: Vec<_> = response.headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a=1; expires=Mon, 01 Jan 2029 00:00:00 GMT", "b=2"]);
}
