//! A server whose replies come late, in pieces, or not at all.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::faults::{recovers, refuses_keyed_calls_alone};
use super::proxy::{Proxy, Way};
use super::{leased, numbered, shared, tag};
use crate::support::{Gate, RedisServer, Reply, Upstream, eventually, json_reply, pay, result_for};

/// For a reply to come; [`leased`] waits for less.
const TOO_LONG: Duration = Duration::from_millis(400);

/// Between two bytes: pieces keep coming, and a whole reply takes too long.
const DRIP: Duration = Duration::from_millis(20);

#[tokio::test]
async fn a_server_that_answers_too_late_fails_keyed_calls_alone_and_settles_late() {
    fails_closed_and_settles_late(Way::Late(TOO_LONG)).await;
}

#[tokio::test]
async fn so_does_one_whose_replies_trickle() {
    fails_closed_and_settles_late(Way::Trickle(DRIP)).await;
}

async fn fails_closed_and_settles_late(way: Way) {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let proxy = Proxy::start(&server).await;
    // Leases that the test does not wait out: what was claimed in vain is given back.
    let setup = leased(&upstream, &server, "10m").set("store", "url", &proxy.url());
    let gateway = setup.start().await;
    recovers(&gateway, 0).await;
    let gate = Gate::new();
    let late = json_reply(200, &result_for(pay().as_bytes(), "late"));
    upstream.script(Reply::silent().wait(&gate).send(late));
    let mut running = gateway.begin(&numbered(1)).await;
    upstream.hit(2).await;
    proxy.set(way);
    refuses_keyed_calls_alone(&gateway, &upstream, 2).await;
    gate.open();
    // The reply is not held back by a settle that does not get through.
    let late = running.response().await.expect("an answer");
    late.assert_first();
    refuses_keyed_calls_alone(&gateway, &upstream, 3).await;
    proxy.set(Way::Free);
    recovers(&gateway, 2).await;
    recovers(&gateway, 3).await;
    eventually("the late settle", || async {
        let answer = gateway.send(&numbered(1)).await;
        answer.replayed().then(|| answer.assert_replays(&late))
    })
    .await;
    let ran = [1, 2, 3].map(|key| upstream.hits_with(&tag(key)));
    assert_eq!(ran, [1, 1, 1]);
}

#[tokio::test]
async fn replies_in_pieces_are_read_to_their_end() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let proxy = Proxy::start(&server).await;
    let gateway = shared(&upstream, &server).set("store", "url", &proxy.url()).start().await;
    recovers(&gateway, 0).await;
    proxy.set(Way::Trickle(Duration::ZERO));
    let long = json_reply(200, &result_for(pay().as_bytes(), &"long ".repeat(500)));
    upstream.script(Reply::raw(long));
    let first = gateway.send(&numbered(1)).await;
    first.assert_first();
    gateway.send(&numbered(1)).await.assert_replays(&first);
    assert_eq!(upstream.hits_with(&tag(1)), 1);
}

/// Keys of the storm, and how many of them at once.
const KEYS: usize = 120;
const AT_ONCE: usize = 20;

#[tokio::test]
async fn whatever_replies_are_cut_off_every_key_runs_once() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let proxy = Proxy::start(&server).await;
    let setup = || shared(&upstream, &server).set("store", "lease", "\"10m\"");
    let cut_off = setup().set("store", "url", &proxy.url()).start().await;
    let other = setup().start().await;
    recovers(&cut_off, KEYS).await;
    let (cut_off, other) = (&cut_off, &other);
    // A new connection has two replies of its own before the first to a script.
    proxy.set(Way::Cut(5));
    let keys: Vec<usize> = (0..KEYS).collect();
    for some in keys.chunks(AT_ONCE) {
        join_all(some.iter().copied().map(|key| async move {
            let (first, second) =
                tokio::join!(cut_off.settled_or_served(key), other.settled_or_served(key));
            assert_eq!((first.status, second.status), (200, 200), "key {key}");
            assert_eq!(first.body, second.body, "key {key}");
        }))
        .await;
    }
    assert!(proxy.losses() > KEYS / 5, "only {} replies were lost", proxy.losses());
    proxy.set(Way::Free);
    for key in keys {
        assert_eq!(upstream.hits_with(&tag(key)), 1, "key {key}");
    }
    cut_off.send(&numbered(1)).await.assert_replays(&other.send(&numbered(1)).await);
}
