//! A cluster that replaces a master by itself, while calls are made.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::cluster::{Cluster, NODE};
use super::leases::gated;
use super::{numbered, tag, waiting};
use crate::support::{Gate, Gateway, RedisServer, Request, Upstream, eventually, pay};

/// Milliseconds after which a silent node counts as gone: its replica asks to take its place.
const GONE_AFTER: [&str; 2] = ["--cluster-node-timeout", "2000"];

const CALLERS: usize = 3;

/// Between two calls without a key.
const PAUSE: Duration = Duration::from_millis(20);

/// Keys of calls that run while the master dies, and of a caller's first call.
const RUNNING: [usize; 3] = [1, 2, 3];
const FIRST_KEY: usize = 1000;

/// What callers have seen.
#[derive(Default)]
struct Seen {
    served: AtomicUsize,
    refused: AtomicUsize,
    enough: AtomicBool,
}

/// Calls with one key after the other, each repeated until it is known how it ended, and gives the
/// keys.
async fn calls(gateway: &Gateway, from: usize, seen: &Seen) -> Vec<usize> {
    let mut keys = Vec::new();
    while !seen.enough.load(Ordering::SeqCst) {
        let key = from + keys.len();
        keys.push(key);
        eventually("a call's end", || async {
            let answer = gateway.send(&numbered(key)).await;
            match (answer.status, answer.reason().as_str()) {
                (200, _) => seen.served.fetch_add(1, Ordering::SeqCst),
                // Its reply had not got to the replica.
                (409, "idempotency_outcome_unknown") => 0,
                (503, "idempotency_unavailable") => {
                    seen.refused.fetch_add(1, Ordering::SeqCst);
                    return None;
                }
                (409, "idempotency_in_flight") => return None,
                _ => panic!("key {key}: {}", answer.text()),
            };
            Some(())
        })
        .await;
    }
    keys
}

/// Calls without a key, none of which is held up.
async fn unkeyed(gateway: &Gateway, seen: &Seen) {
    while !seen.enough.load(Ordering::SeqCst) {
        gateway.send(&Request::post(pay())).await.assert_first();
        tokio::time::sleep(PAUSE).await;
    }
}

async fn more(counter: &AtomicUsize, what: &str) {
    let before = counter.load(Ordering::SeqCst);
    eventually(what, || async { (counter.load(Ordering::SeqCst) >= before + 10).then_some(()) })
        .await;
}

/// Kills the domain's master while calls are made, until they are served again. With one replica
/// waited for, that takes the old master too: as the new one's replica.
async fn fails_over(cluster: &Cluster, gateway: &Gateway, upstream: &Upstream, seen: &Seen) {
    more(&seen.served, "calls to be served").await;
    let master = cluster.owner();
    cluster.nodes[master].kill();
    more(&seen.refused, "calls to be refused").await;
    let taken =
        |node: &RedisServer| node.command::<String>("INFO replication").contains("role:master");
    eventually("a replica to be promoted", || async {
        cluster.nodes[3..].iter().any(|node| taken(node)).then_some(())
    })
    .await;
    // What was claimed before is known there.
    for key in RUNNING {
        eventually("a claim to be found", || async {
            let answer = gateway.send(&numbered(key)).await;
            (answer.reason() == "idempotency_in_flight").then_some(())
        })
        .await;
        assert_eq!(upstream.hits_with(&tag(key)), 1, "key {key}");
    }
    cluster.nodes[master].restart();
    more(&seen.served, "calls to be served again").await;
    seen.enough.store(true, Ordering::SeqCst);
}

#[tokio::test]
async fn a_master_that_dies_under_load_is_replaced_and_no_claim_is_lost() {
    let upstream = Upstream::start().await;
    let settings = [&NODE[..], &GONE_AFTER].concat();
    let cluster = Cluster::of((0..6).map(|_| RedisServer::with(&settings)), 1).await;
    let setup = waiting(&upstream, &cluster.nodes[0], "1s").set("store", "url", &cluster.url());
    // Should the replica have less than was seen, the rest of it may be claimed anew after this.
    let setup = setup.set("limits", "ttl", "\"8s\"").set("limits", "tombstone_ttl", "\"8s\"");
    let gateway = setup.start().await;
    let gate = Gate::new();
    let mut running = Vec::new();
    for key in RUNNING {
        upstream.script(gated(&gate));
        let connection = eventually("a claim", || async {
            let hits = upstream.hits();
            let mut connection = gateway.begin(&numbered(key)).await;
            tokio::select! {
                _ = upstream.hit(hits + 1) => Some(connection),
                _ = connection.response() => None,
            }
        })
        .await;
        running.push(connection);
    }
    let seen = Seen::default();
    let callers = (0..CALLERS).map(|caller| calls(&gateway, (caller + 1) * FIRST_KEY, &seen));
    let callers = futures_util::future::join_all(callers);
    let driver = fails_over(&cluster, &gateway, &upstream, &seen);
    let (keys, (), ()) = tokio::join!(callers, driver, unkeyed(&gateway, &seen));
    gate.open();
    for (key, mut connection) in RUNNING.into_iter().zip(running) {
        let late = connection.response().await.expect("an answer");
        late.assert_first();
        gateway.settled_or_served(key).await.assert_replays(&late);
    }
    for key in keys.into_iter().flatten().chain(RUNNING) {
        assert_eq!(upstream.hits_with(&tag(key)), 1, "key {key}");
    }
}
