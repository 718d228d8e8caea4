//! A gateway that dies under a call, with records in Redis: its receipt never counts fewer attempts
//! than the vendor saw, and the slot ends unknown (EFFECTS sections 5 and 6).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::{by_header, declare, receipts};
use crate::support::{
    Gate, Gateway, RedisServer, Reply, Request, Setup, Upstream, call, eventually, json_reply,
    key_hash, result_for,
};
use serde_json::{Value, json};

struct Shared {
    vendor: Upstream,
    server: Arc<RedisServer>,
}

impl Shared {
    async fn start() -> Self {
        Self { vendor: Upstream::start().await, server: Arc::new(RedisServer::start()) }
    }

    async fn gateway(&self) -> Gateway {
        let effect = by_header(&json!({"retryable": [503]}));
        let setup = Setup::new(&self.vendor).redis(&self.server);
        let setup = setup.policy(|policy| declare(policy, effect.clone()));
        [
            ("limits", "entries", "100000"),
            ("limits", "principal_entries", "100000"),
            ("limits", "scope_entries", "100000"),
            ("limits", "in_flight", "1000"),
            ("limits", "principal_in_flight", "1000"),
            ("limits", "scope_in_flight", "1000"),
            ("limits", "scope_tombstones", "5000"),
            ("store", "lease", "\"600ms\""),
            ("store", "timeout", "\"300ms\""),
            ("store", "connect_timeout", "\"300ms\""),
            ("upstream", "connect_timeout", "\"200ms\""),
        ]
        .into_iter()
        .fold(setup, |setup, (table, key, value)| setup.set(table, key, value))
        .start()
        .await
    }
}

fn order(number: usize) -> Request {
    Request::keyed(&format!("key-{number}"), call("pay", json!({ "order": tag(number) })))
}

fn tag(number: usize) -> String {
    format!("order-{number}-")
}

/// The receipt of the call that the vendor knows by this tag; there is one at most.
async fn only_receipt(gateway: &Gateway) -> Value {
    let listed = receipts(gateway, "").await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    listed[0].clone()
}

#[tokio::test]
async fn between_send_and_reply_the_attempt_is_counted_and_the_outcome_unknown() {
    let shared = Shared::start().await;
    let (dying, survivor) = (shared.gateway().await, shared.gateway().await);
    let gate = Gate::new();
    shared.vendor.script(Reply::silent().wait(&gate).close());
    let _asking = dying.begin(&order(1)).await;
    shared.vendor.hit(1).await;
    dying.signal("KILL");
    survivor.settled(&order(1)).await.assert_refused(409, "idempotency_outcome_unknown");
    let receipt = only_receipt(&survivor).await;
    assert_eq!((&receipt["attempt_count"], shared.vendor.hits()), (&json!(1), 1));
    assert_eq!(receipt["attempts"][0].get("end"), None, "nobody saw it end: {receipt}");
}

#[tokio::test]
async fn in_a_second_attempt_both_are_counted() {
    let shared = Shared::start().await;
    let (dying, survivor) = (shared.gateway().await, shared.gateway().await);
    let gate = Gate::new();
    shared.vendor.script(Reply::raw(json_reply(503, "{}")));
    shared.vendor.script(Reply::silent().wait(&gate).close());
    let _asking = dying.begin(&order(1)).await;
    shared.vendor.hit(2).await;
    dying.signal("KILL");
    survivor.settled(&order(1)).await.assert_refused(409, "idempotency_outcome_unknown");
    let receipt = only_receipt(&survivor).await;
    assert_eq!((&receipt["attempt_count"], shared.vendor.hits()), (&json!(2), 2));
    assert_eq!(receipt["attempts"][0]["end"]["result"], json!({"replied": 503}));
}

#[tokio::test]
async fn between_reply_and_settle_the_outcome_is_unknown() {
    let shared = Shared::start().await;
    let (dying, survivor) = (shared.gateway().await, shared.gateway().await);
    let gate = Gate::new();
    let body = result_for(br#"{"id":1}"#, "paid");
    shared.vendor.script(Reply::silent().wait(&gate).send(json_reply(200, &body)));
    let _asking = dying.begin(&order(1)).await;
    shared.vendor.hit(1).await;
    // The claim stands; what follows of it cannot be written any more.
    let _: () = shared.server.command("CLIENT PAUSE 5000 WRITE");
    gate.open();
    shared.vendor.answered(1).await;
    dying.signal("KILL");
    let _: () = shared.server.command("CLIENT UNPAUSE");
    let answer = eventually("the lease to end", || async {
        let answer = survivor.send(&order(1)).await;
        let pending = ["idempotency_in_flight", "idempotency_unavailable"];
        (!pending.contains(&answer.reason().as_str())).then_some(answer)
    })
    .await;
    answer.assert_refused(409, "idempotency_outcome_unknown");
    let receipt = only_receipt(&survivor).await;
    assert_eq!((&receipt["attempt_count"], shared.vendor.hits()), (&json!(1), 1));
}

/// How many gateways are killed, and how many calls each has.
const KILLS: usize = 12;
const CALLS: usize = 8;

#[tokio::test]
async fn whatever_the_moment_no_receipt_counts_less_than_the_vendor_saw() {
    let shared = Shared::start().await;
    let survivor = shared.gateway().await;
    for round in 0..KILLS {
        let dying = shared.gateway().await;
        let numbers: Vec<_> = (0..CALLS).map(|call| round * CALLS + call).collect();
        let requests: Vec<_> = numbers.iter().map(|number| order(*number)).collect();
        let storm = join_all(requests.iter().map(|request| dying.try_exchange(request)));
        let killer = async {
            // The moments are spread over what eight calls take; none of them is waited for.
            tokio::time::sleep(Duration::from_micros((round as u64 * 7919) % 12_000)).await;
            dying.signal("KILL");
        };
        tokio::join!(storm, killer);
        for request in &requests {
            survivor.settled(request).await;
        }
    }
    for number in 0..KILLS * CALLS {
        let hits = shared.vendor.hits_with(&tag(number));
        assert!(hits <= 1, "order {number} was sent {hits} times");
        let key = format!("key-{number}");
        let hash = key_hash(["alice", "agent-a", "team-a", "", "uid-payments", &key, ""]);
        let counted: usize = receipts(&survivor, &format!("key_hash={hash}"))
            .await
            .iter()
            .map(|receipt| receipt["attempt_count"].as_u64().expect("a count") as usize)
            .sum();
        assert!(hits <= counted, "order {number}: {hits} sent, {counted} counted");
    }
}
