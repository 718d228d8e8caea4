//! Wall clocks of servers that are set, or do not agree. Times are seconds from the real time.

use std::sync::Arc;

use super::cluster::{Cluster, NODE};
use super::faults::recovers;
use super::leases::{finds, gated};
use super::loss::{FORGETFUL, in_step};
use super::proxy::Proxy;
use super::{leased, numbered, patient, shared, tag};
use crate::support::{Gate, Gateway, Policy, RedisServer, Response, Setup, Upstream, eventually};

const HOUR: i64 = 3600;

/// Room for this many records.
const ROOM: usize = 4;

fn clocked() -> Arc<RedisServer> {
    Arc::new(RedisServer::with_a_clock(&FORGETFUL))
}

fn crowded(setup: Setup) -> Setup {
    setup.set("limits", "scope_entries", &ROOM.to_string())
}

async fn first(gateway: &Gateway, key: usize) -> Response {
    let answer = gateway.send(&numbered(key)).await;
    answer.assert_first();
    answer
}

/// Keys 1 to 3 were completed by the clock of before, in this order: what is completed now is newer
/// than they are, and they leave first.
async fn completions_keep_their_order(gateway: &Gateway, upstream: &Upstream, old: &[Response]) {
    let mut kept = old.to_vec();
    for key in 4..=6 {
        kept.push(first(gateway, key).await);
    }
    for key in 3..=6 {
        gateway.send(&numbered(key)).await.assert_replays(&kept[key - 1]);
        assert_eq!(upstream.hits_with(&tag(key)), 1, "key {key}");
    }
    // One that was evicted runs again, and takes the place of the next oldest.
    first(gateway, 1).await;
    for key in 4..=6 {
        gateway.send(&numbered(key)).await.assert_replays(&kept[key - 1]);
    }
    first(gateway, 3).await;
}

#[tokio::test]
async fn a_clock_that_is_set_back_keeps_the_order_of_completions() {
    let (upstream, server) = (Upstream::start().await, clocked());
    let gateway = crowded(shared(&upstream, &server)).start().await;
    let mut old = Vec::new();
    for key in 1..=3 {
        old.push(first(&gateway, key).await);
    }
    server.set_clock(-HOUR);
    for (key, kept) in (1..).zip(&old) {
        gateway.send(&numbered(key)).await.assert_replays(kept);
    }
    completions_keep_their_order(&gateway, &upstream, &old).await;
}

#[tokio::test]
async fn a_failover_to_a_server_whose_clock_is_behind_keeps_the_order_of_completions() {
    let upstream = Upstream::start().await;
    let replica = RedisServer::with_a_clock(&FORGETFUL);
    replica.set_clock(-HOUR);
    let (primary, replica) = in_step(RedisServer::with(&FORGETFUL), replica);
    let proxy = Proxy::start(&primary).await;
    let setup = crowded(super::waiting(&upstream, &primary, "3s"));
    let setup = setup.set("store", "wait_replicas", "0").set("store", "url", &proxy.url());
    let gateway = setup.start().await;
    let mut old = Vec::new();
    for key in 1..=3 {
        old.push(first(&gateway, key).await);
    }
    let stamp = |server: &RedisServer| {
        server.command::<Option<String>>("HGET onceward:quota:{uid-payments} stamp")
    };
    eventually("the replica to have it all", || async {
        (stamp(&primary) == stamp(&replica)).then_some(())
    })
    .await;
    primary.kill();
    replica.command::<redis::Value>("REPLICAOF NO ONE");
    proxy.lead_to(&replica);
    eventually("the new primary to be used", || async {
        gateway.send(&numbered(1)).await.replayed().then_some(())
    })
    .await;
    completions_keep_their_order(&gateway, &upstream, &old).await;
}

/// What docs/GUARANTEES.md says of a clock that is set back: nothing ends before it has caught up,
/// and everything else goes on.
#[tokio::test]
async fn while_a_clock_catches_up_nothing_ends_and_calls_go_on() {
    let (upstream, server) = (Upstream::start().await, clocked());
    let setup = || {
        let setup = shared(&upstream, &server).set("store", "lease", "\"20s\"");
        setup.set("limits", "ttl", "\"30s\"").set("limits", "tombstone_ttl", "\"30s\"")
    };
    let (owner, other, dying) =
        (setup().start().await, setup().start().await, setup().start().await);
    let (gate, never) = (Gate::new(), Gate::new());
    upstream.script(gated(&gate));
    let mut running = owner.begin(&numbered(1)).await;
    upstream.hit(1).await;
    upstream.script(gated(&never));
    let _lost = dying.begin(&numbered(2)).await;
    upstream.hit(2).await;
    dying.signal("KILL");
    let kept = first(&other, 3).await;
    server.set_clock(-HOUR);
    // Ten minutes go by on it, longer than leases and records last.
    server.set_clock(-HOUR + 600);
    for gateway in [&owner, &other] {
        gateway.send(&numbered(1)).await.assert_refused(409, "idempotency_in_flight");
        gateway.send(&numbered(2)).await.assert_refused(409, "idempotency_in_flight");
        gateway.send(&numbered(3)).await.assert_replays(&kept);
    }
    let new = first(&other, 4).await;
    gate.open();
    let late = running.response().await.expect("an answer");
    late.assert_first();
    other.send(&numbered(1)).await.assert_replays(&late);
    owner.send(&numbered(4)).await.assert_replays(&new);
    eventually("the log to tell it", || async {
        other.stderr().contains("the clock of redis is behind").then_some(())
    })
    .await;
    assert_eq!(upstream.hits(), 4);
    // It has caught up, and what is over ends: the dead owner's lease, then all records.
    server.set_clock(25);
    finds(&other, &numbered(2), "idempotency_outcome_unknown").await;
    server.set_clock(120);
    for key in 1..=4 {
        first(&other, key).await;
        assert_eq!(upstream.hits_with(&tag(key)), 2, "key {key}");
    }
    eventually("the log to tell that too", || async {
        other.stderr().contains("the clock of redis has caught up").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_begin_is_taken_by_a_clock_that_was_set_on_or_back() {
    let (upstream, server) = (Upstream::start().await, clocked());
    let proxy = Proxy::start(&server).await;
    let setup = leased(&upstream, &server, "10m").set("store", "url", &proxy.url());
    let gateway = setup.start().await;
    recovers(&gateway, 0).await;
    for (key, seconds) in [(1, HOUR), (2, -HOUR), (3, 2 * HOUR)] {
        server.set_clock(seconds);
        first(&gateway, key).await;
    }
    // A claim that nobody heard of is given back though its not-after is two hours away.
    server.set_clock(0);
    proxy.lose_the_reply_and_shut("tombstone_ttl=");
    gateway.send(&numbered(4)).await.assert_refused(503, "idempotency_unavailable");
    proxy.open();
    gateway.settled_or_served(4).await.assert_first();
    for key in 1..=4 {
        assert_eq!(upstream.hits_with(&tag(key)), 1, "key {key}");
    }
}

/// Servers of the policy whose records are on nodes of their own.
#[tokio::test]
async fn nodes_whose_clocks_disagree_cost_no_begin_an_attempt() {
    let upstream = Upstream::start().await;
    let nodes = [0, HOUR, 2 * HOUR].map(|seconds| {
        let node = RedisServer::with_a_clock(&NODE);
        node.set_clock(seconds);
        node
    });
    let cluster = Cluster::of(nodes, 0).await;
    let names: Vec<_> = (0..8).map(|number| format!("server-{number}")).collect();
    let policies = names.iter().map(|name| Policy::new(&upstream.url()).at(name));
    let setup = patient(Setup::policies(policies), &cluster.nodes[0]);
    let gateway = setup.set("store", "url", &cluster.url()).start().await;
    let call = |number: usize| numbered(number).to(&format!("/mcp/{}", names[number % 8]));
    for number in 0..8 {
        gateway.send(&call(number)).await.assert_first();
    }
    cluster.nodes.iter().for_each(|node| node.command("CONFIG RESETSTAT"));
    for number in 8..108 {
        gateway.send(&call(number)).await.assert_first();
    }
    let count = |command| cluster.nodes.iter().map(|node| node.calls(command)).sum::<u32>();
    let (calls, looks) = (count("evalsha"), count("info"));
    // A look counts every domain; one that is under way may have asked one node only.
    let others = calls - 200;
    assert!(others <= 8 * (looks / 3 + 1), "200 for 100 calls, {others} beside {looks} looks");
}
