//! A server that is down, slow, full, read-only, or whose replies are lost.

use std::sync::Arc;

use super::proxy::Proxy;
use super::{leased, numbered, shared, tag};
use crate::support::{
    Gate, Gateway, RedisServer, Reply, Request, Upstream, eventually, json_reply, pay, result_for,
};

/// What only a begin sends: the limits.
const BEGIN: &str = "tombstone_ttl=";

/// Waits until keyed calls are served again, by one of their own.
pub async fn recovers(gateway: &Gateway, key: usize) {
    eventually("keyed calls to be served again", || async {
        (gateway.send(&numbered(key)).await.status == 200).then_some(())
    })
    .await;
}

pub async fn refuses_keyed_calls_alone(gateway: &Gateway, upstream: &Upstream, key: usize) {
    gateway.send(&numbered(key)).await.assert_refused(503, "idempotency_unavailable");
    assert_eq!(upstream.hits_with(&tag(key)), 0, "it fails closed");
    gateway.send(&Request::post(pay())).await.assert_first();
}

#[tokio::test]
async fn a_begin_whose_reply_was_lost_is_asked_again_and_runs_once() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let proxy = Proxy::start(&server).await;
    let gateway = shared(&upstream, &server).set("store", "url", &proxy.url()).start().await;
    recovers(&gateway, 0).await;
    proxy.lose_the_reply_to(BEGIN);
    let first = gateway.send(&numbered(1)).await;
    proxy.lost().await;
    first.assert_first();
    gateway.send(&numbered(1)).await.assert_replays(&first);
    assert_eq!(upstream.hits_with(&tag(1)), 1);
}

#[tokio::test]
async fn a_settle_whose_reply_was_lost_is_sent_again() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let proxy = Proxy::start(&server).await;
    let gateway = shared(&upstream, &server).set("store", "url", &proxy.url()).start().await;
    recovers(&gateway, 0).await;
    proxy.lose_the_reply_to("run 2");
    let first = gateway.send(&numbered(1)).await;
    proxy.lost().await;
    first.assert_first();
    gateway.send(&numbered(1)).await.assert_replays(&first);
    // A release that is asked for twice frees its slot once.
    upstream.script(Reply::raw(json_reply(404, &result_for(pay().as_bytes(), "none"))));
    gateway.send(&numbered(2)).await;
    gateway.send(&numbered(2)).await.assert_first();
    assert_eq!(upstream.hits_with(&tag(1)), 1);
}

#[tokio::test]
async fn a_begin_that_was_given_up_leaves_no_lasting_block() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let proxy = Proxy::start(&server).await;
    // A lease that the test does not wait out.
    let setup = leased(&upstream, &server, "10m").set("store", "url", &proxy.url());
    let gateway = setup.start().await;
    recovers(&gateway, 0).await;
    proxy.lose_the_reply_and_shut(BEGIN);
    refuses_keyed_calls_alone(&gateway, &upstream, 1).await;
    proxy.open();
    let answer = gateway.settled_or_served(1).await;
    answer.assert_first();
    assert_eq!(upstream.hits_with(&tag(1)), 1);
}

#[tokio::test]
async fn a_server_that_dies_and_comes_back_has_kept_what_it_appended() {
    let upstream = Upstream::start().await;
    let persistent = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""];
    let server = Arc::new(RedisServer::with(&persistent));
    let gateway = leased(&upstream, &server, "20s").start().await;
    let kept = gateway.send(&numbered(1)).await;
    kept.assert_first();
    let gate = Gate::new();
    let late = json_reply(200, &result_for(pay().as_bytes(), "late"));
    upstream.script(Reply::silent().wait(&gate).send(late));
    let mut running = gateway.begin(&numbered(2)).await;
    upstream.hit(2).await;
    server.kill();
    refuses_keyed_calls_alone(&gateway, &upstream, 3).await;
    gate.open();
    // Its settle cannot land, and the reply is given all the same.
    let late = running.response().await.expect("an answer");
    late.assert_first();
    server.restart();
    recovers(&gateway, 3).await;
    gateway.send(&numbered(1)).await.assert_replays(&kept);
    gateway.settled(&numbered(2)).await.assert_replays(&late);
    assert_eq!((upstream.hits_with(&tag(1)), upstream.hits_with(&tag(2))), (1, 1));
}

#[tokio::test]
async fn a_server_that_takes_no_writes_fails_keyed_calls_alone() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let gateway = shared(&upstream, &server).start().await;
    let kept = gateway.send(&numbered(1)).await;
    for (spoil, mend) in [
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    ] {
        let key = upstream.hits() + 100;
        server.command::<redis::Value>(spoil);
        refuses_keyed_calls_alone(&gateway, &upstream, key).await;
        server.command::<redis::Value>(mend);
        recovers(&gateway, key).await;
        gateway.send(&numbered(1)).await.assert_replays(&kept);
    }
}

#[tokio::test]
async fn a_reply_that_the_server_has_no_memory_for_is_not_kept_and_never_run_again() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let gateway = shared(&upstream, &server).start().await;
    let gate = Gate::new();
    let late = json_reply(200, &result_for(pay().as_bytes(), "late"));
    upstream.script(Reply::silent().wait(&gate).send(late));
    let mut running = gateway.begin(&numbered(1)).await;
    upstream.hit(1).await;
    server.command::<redis::Value>("CONFIG SET maxmemory 1");
    gate.open();
    running.response().await.expect("an answer").assert_first();
    server.command::<redis::Value>("CONFIG SET maxmemory 0");
    let retried = gateway.settled(&numbered(1)).await;
    retried.assert_refused(409, "idempotency_response_not_replayable");
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn a_server_that_may_evict_claims_gets_none() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    server.command::<redis::Value>("CONFIG SET maxmemory 100mb");
    server.command::<redis::Value>("CONFIG SET maxmemory-policy allkeys-lru");
    let gateway = shared(&upstream, &server).start().await;
    refuses_keyed_calls_alone(&gateway, &upstream, 1).await;
    eventually("the reason", || async {
        let why = gateway.status().await["store"]["error"].to_string();
        why.contains("`maxmemory-policy` to `noeviction`").then_some(())
    })
    .await;
    assert_eq!(gateway.admin("/readyz").await.status, 503);
    server.command::<redis::Value>("CONFIG SET maxmemory-policy noeviction");
    recovers(&gateway, 1).await;
    eventually("readiness", || async {
        (gateway.admin("/readyz").await.status == 200).then_some(())
    })
    .await;
    // And where it is changed under a running gateway.
    server.command::<redis::Value>("CONFIG SET maxmemory-policy volatile-ttl");
    eventually("the change to be noticed", || async {
        (gateway.admin("/readyz").await.status == 503).then_some(())
    })
    .await;
    refuses_keyed_calls_alone(&gateway, &upstream, 2).await;
}

#[tokio::test]
async fn a_paused_server_is_given_up_and_leaves_no_lasting_block() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let gateway = leased(&upstream, &server, "10m").start().await;
    recovers(&gateway, 0).await;
    // Longer than a begin asks.
    server.command::<redis::Value>("CLIENT PAUSE 3000 ALL");
    refuses_keyed_calls_alone(&gateway, &upstream, 1).await;
    let answer = gateway.settled_or_served(1).await;
    answer.assert_first();
    assert_eq!(upstream.hits_with(&tag(1)), 1);
}

#[tokio::test]
async fn a_server_that_forgot_the_scripts_is_told_them_again() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let gateway = shared(&upstream, &server).start().await;
    let gate = Gate::new();
    let late = json_reply(200, &result_for(pay().as_bytes(), "late"));
    upstream.script(Reply::silent().wait(&gate).send(late));
    let mut running = gateway.begin(&numbered(1)).await;
    upstream.hit(1).await;
    server.command::<redis::Value>("SCRIPT FLUSH");
    gate.open();
    let first = running.response().await.expect("an answer");
    gateway.send(&numbered(1)).await.assert_replays(&first);
    server.command::<redis::Value>("SCRIPT FLUSH");
    gateway.send(&numbered(2)).await.assert_first();
}

#[tokio::test]
async fn bodies_come_back_byte_for_byte() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let gateway = shared(&upstream, &server).start().await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let head = [("Content-Type", "application/octet-stream")];
    upstream.script(Reply::raw(crate::support::http(200, &head, &every_byte)));
    let first = gateway.send(&numbered(1)).await;
    assert_eq!((first.status, &first.body), (200, &every_byte));
    gateway.send(&numbered(1)).await.assert_replays(&first);
}

impl Gateway {
    /// Asks until the store serves the key again, whatever it finds.
    pub async fn settled_or_served(&self, key: usize) -> crate::support::Response {
        eventually("the key to be free", || async {
            let answer = self.send(&numbered(key)).await;
            let waits = ["idempotency_in_flight", "idempotency_unavailable"];
            (!waits.contains(&answer.reason().as_str())).then_some(answer)
        })
        .await
    }
}
