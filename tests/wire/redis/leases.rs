//! Owners that are slow, stopped or dead.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::{leased, numbered, tag};
use crate::support::{
    Gate, Gateway, RedisServer, Reply, Request, Upstream, eventually, json_reply, pay, result_for,
};

/// An answer that comes once the gate is open.
pub fn gated(gate: &Gate) -> Reply {
    Reply::silent().wait(gate).send(json_reply(200, &result_for(pay().as_bytes(), "late")))
}

pub async fn finds(gateway: &Gateway, request: &Request, reason: &str) {
    eventually(reason, || async {
        let answer = gateway.send(request).await;
        (answer.reason() == reason).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_lease_shorter_than_the_call_is_renewed_and_never_taken() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let owner = leased(&upstream, &server, "1500ms").start().await;
    let other = leased(&upstream, &server, "1500ms").start().await;
    let (request, gate) = (numbered(1), Gate::new());
    upstream.script(gated(&gate));
    let mut waiting = owner.begin(&request).await;
    upstream.hit(1).await;
    let asked_for = tokio::time::Instant::now();
    while asked_for.elapsed() < Duration::from_millis(4000) {
        other.send(&request).await.assert_refused(409, "idempotency_in_flight");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    gate.open();
    let first = waiting.response().await.expect("an answer");
    first.assert_first();
    other.send(&request).await.assert_replays(&first);
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn a_stopped_owner_that_wakes_late_completes_its_own_tombstone() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let owner = leased(&upstream, &server, "600ms").start().await;
    let other = leased(&upstream, &server, "600ms").start().await;
    let (request, gate) = (numbered(1), Gate::new());
    upstream.script(gated(&gate));
    let mut waiting = owner.begin(&request).await;
    upstream.hit(1).await;
    owner.signal("STOP");
    finds(&other, &request, "idempotency_outcome_unknown").await;
    gate.open();
    owner.signal("CONT");
    let first = waiting.response().await.expect("an answer");
    first.assert_first();
    eventually("the late reply to be kept", || async {
        let answer = other.send(&request).await;
        answer.replayed().then(|| answer.assert_replays(&first))
    })
    .await;
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn a_slot_that_was_taken_again_is_untouched_by_its_old_owner() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let setup = || {
        let setup = leased(&upstream, &server, "600ms").set("limits", "ttl", "\"300ms\"");
        setup.set("limits", "tombstone_ttl", "\"300ms\"")
    };
    let (owner, other) = (setup().start().await, setup().start().await);
    let (request, gate) = (numbered(1), Gate::new());
    upstream.script(gated(&gate));
    let mut waiting = owner.begin(&request).await;
    upstream.hit(1).await;
    owner.signal("STOP");
    // The lease ends, the tombstone expires, and the key is free again: as documented.
    let second = Gate::new();
    upstream.script(gated(&second));
    let mut taken = Box::pin(eventually("the key to be free and its call to end", || async {
        let answer = other.send(&request).await;
        (answer.status == 200).then_some(answer)
    }));
    tokio::select! {
        _ = upstream.hit(2) => {}
        _ = &mut taken => panic!("the second run cannot have ended"),
    }
    gate.open();
    owner.signal("CONT");
    waiting.response().await.expect("an answer").assert_first();
    other.send(&request).await.assert_refused(409, "idempotency_in_flight");
    second.open();
    taken.await.assert_first();
    assert_eq!(upstream.hits(), 2);
}

#[tokio::test]
async fn a_dead_gateways_calls_end_as_unknown_and_hold_no_cap() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let setup = || {
        leased(&upstream, &server, "600ms").set("limits", "scope_in_flight", "2").set(
            "limits",
            "scope_tombstones",
            "3",
        )
    };
    let (dying, other) = (setup().start().await, setup().start().await);
    let gate = Gate::new();
    let mut held = Vec::new();
    for key in 1..=2 {
        upstream.script(gated(&gate));
        held.push(dying.begin(&numbered(key)).await);
        upstream.hit(key).await;
    }
    other.send(&numbered(3)).await.assert_refused(429, "idempotency_capacity");
    dying.signal("KILL");
    finds(&other, &numbered(1), "idempotency_outcome_unknown").await;
    finds(&other, &numbered(2), "idempotency_outcome_unknown").await;
    // The cap of calls in flight is free again; of three tombstones two are taken.
    other.send(&numbered(3)).await.assert_first();
    upstream.script(Reply::silent().close());
    other.send(&numbered(4)).await;
    other.send(&numbered(5)).await.assert_refused(429, "idempotency_capacity");
    assert_eq!(upstream.hits(), 4);
}

/// How many gateways are killed, unless the environment says it, and how many calls each has.
const KILLS: usize = 25;
const CALLS: usize = 8;

fn kills() -> usize {
    let said = std::env::var("ONCEWARD_KILLS").ok();
    said.map_or(KILLS, |kills| kills.parse().expect("ONCEWARD_KILLS is a number"))
}

#[tokio::test]
async fn whatever_the_moment_of_a_crash_nothing_runs_twice() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let setup = || leased(&upstream, &server, "600ms");
    let survivor = setup().start().await;
    let mut ends = [0; 2];
    for round in 0..kills() {
        let dying = setup().start().await;
        let keys: Vec<_> = (0..CALLS).map(|n| round * CALLS + n).collect();
        let (asked, kill) = (keys.clone(), Duration::from_micros((round as u64 * 7919) % 12_000));
        let storm = join_all(asked.iter().map(|key| {
            let request = numbered(*key);
            let dying = &dying;
            async move { dying.try_exchange(&request).await.is_some() }
        }));
        let killer = async {
            tokio::time::sleep(kill).await;
            dying.signal("KILL");
        };
        tokio::join!(storm, killer);
        for answer in join_all(keys.iter().map(|key| survivor.retried(*key))).await {
            ends[usize::from(answer.status == 200)] += 1;
        }
        for key in keys {
            let hits = upstream.hits_with(&tag(key));
            assert!(hits <= 1, "key {key} ran {hits} times");
        }
    }
    println!("of {} calls {} ended as unknown, {} with a reply", kills() * CALLS, ends[0], ends[1]);
    assert!(ends[1] > 0, "no call got through");
}

impl Gateway {
    /// Retries until there is a final answer: a reply, or that nobody knows.
    async fn retried(&self, key: usize) -> crate::support::Response {
        let answer = self.settled(&numbered(key)).await;
        let known = answer.status == 200 || answer.reason() == "idempotency_outcome_unknown";
        assert!(known, "key {key}: {}", answer.text());
        answer
    }
}
