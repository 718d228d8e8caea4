//! Several gateways, one truth.

use std::sync::Arc;

use futures_util::future::join_all;

use super::{numbered, shared, tag};
use crate::support::{RedisServer, Upstream, eventually};

/// How many keys, sent to every gateway at once.
const KEYS: usize = 400;

async fn every_key_runs_once(gateways: usize) {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let started = (0..gateways).map(|_| shared(&upstream, &server).start());
    let gateways = join_all(started).await;
    let all: Vec<usize> = (0..KEYS).collect();
    for some in all.chunks(40) {
        let storm = some.iter().flat_map(|key| {
            let request = numbered(*key);
            gateways.iter().map(move |gateway| {
                let request = request.clone();
                async move { gateway.settled(&request).await }
            })
        });
        let answers = join_all(storm).await;
        for (of_key, key) in answers.chunks(gateways.len()).zip(some) {
            let firsts = of_key.iter().filter(|answer| !answer.replayed()).count();
            assert!(of_key.iter().all(|answer| answer.status == 200), "key {key}");
            // The first one's answer may itself have been awaited by asking again.
            assert!(firsts <= 1, "key {key} was answered as the first {firsts} times");
            assert!(of_key.iter().all(|answer| answer.body == of_key[0].body), "key {key}");
        }
    }
    for key in 0..KEYS {
        assert_eq!(upstream.hits_with(&tag(key)), 1, "key {key}");
        gateways[key % gateways.len()]
            .send(&numbered(key))
            .await
            .assert_replays(&gateways[(key + 1) % gateways.len()].send(&numbered(key)).await);
    }
    assert_eq!(upstream.hits(), KEYS);
}

#[tokio::test]
async fn two_gateways_run_every_key_once() {
    every_key_runs_once(2).await;
}

#[tokio::test]
async fn three_gateways_run_every_key_once() {
    every_key_runs_once(3).await;
}

#[tokio::test]
async fn a_gateway_that_counts_otherwise_is_not_ready_and_says_why() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let one = shared(&upstream, &server).start().await;
    one.send(&numbered(1)).await.assert_first();
    let other = shared(&upstream, &server).set("limits", "entries", "100001").start().await;
    other.send(&numbered(2)).await.assert_refused(503, "idempotency_unavailable");
    assert_eq!(upstream.hits(), 1);
    eventually("the other one's readiness to end", || async {
        (other.admin("/readyz").await.status == 503).then_some(())
    })
    .await;
    let why = other.status().await["store"]["error"].to_string();
    assert!(why.contains("`entries` is 100001 here and 100000 in redis"), "{why}");
    one.send(&numbered(2)).await.assert_first();
}
