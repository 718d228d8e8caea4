//! `on_unknown: redispatch`: an unknown outcome is asked for again with the same vendor key
//! (EFFECTS section 5).

use super::{World, by_header, receipts, results_of};
use crate::support::{Gate, Policy, Reply, Request, Upstream, call, eventually, http, pay};
use serde_json::{Value, json};

async fn world() -> World {
    World::start(by_header(&json!({"on_unknown": "redispatch"}))).await
}

/// The call whose outcome is unknown.
async fn lose(world: &World, key: &str) {
    world.upstream.script(Reply::silent().reset());
    world.pay(key).await.assert_refused(502, "upstream_disconnected");
}

async fn vendor_keys(world: &World, hits: std::ops::RangeInclusive<usize>) -> Vec<String> {
    let mut keys = Vec::new();
    for hit in hits {
        let sent = world.upstream.hit(hit).await;
        keys.push(sent.header("Idempotency-Key").expect("a key").to_owned());
    }
    keys
}

#[tokio::test]
async fn the_same_call_is_sent_again_with_the_same_vendor_key() {
    let world = world().await;
    lose(&world, "K1").await;
    let first = world.pay("K1").await;
    first.assert_first();
    world.pay("K1").await.assert_replays(&first);
    let keys = vendor_keys(&world, 1..=2).await;
    assert_eq!(keys[0], keys[1]);
    assert_eq!(world.upstream.hits(), 2);
    world.assert_counted("completed", &[json!("disconnected"), json!({"replied": 200})]).await;
}

#[tokio::test]
async fn a_rejection_leaves_it_unknown_and_it_may_be_asked_for_again() {
    let world = world().await;
    lose(&world, "K1").await;
    for status in [409, 401, 429] {
        world.upstream.script(Reply::raw(http(status, &[], "")));
        assert_eq!(world.pay("K1").await.status, status);
    }
    let receipt = world.receipt().await;
    assert_eq!((&receipt["outcome"], &receipt["attempt_count"]), (&json!("unknown"), &json!(4)));
    let statuses: Vec<Value> = [409, 401, 429].map(|status| json!({ "replied": status })).into();
    assert_eq!(results_of(&receipt)[1..], statuses);
    // Released, this would be a new receipt.
    world.pay("K1").await.assert_first();
    assert_eq!(receipts(&world.gateway, "").await.len(), 1);
}

#[tokio::test]
async fn of_many_at_once_one_is_sent() {
    let world = world().await;
    lose(&world, "K1").await;
    let gate = Gate::new();
    world.upstream.script(Reply::silent().wait(&gate).reset());
    let mut waiting = world.gateway.begin(&Request::keyed("K1", pay())).await;
    world.upstream.hit(2).await;
    for _ in 0..8 {
        world.pay("K1").await.assert_refused(409, "idempotency_in_flight");
    }
    gate.open();
    waiting.response().await.expect("an answer").assert_refused(502, "upstream_disconnected");
    assert_eq!(world.upstream.hits(), 2);
}

#[tokio::test]
async fn another_call_under_the_key_is_a_conflict_and_another_tool_is_never_sent_again() {
    let world = world().await;
    lose(&world, "K1").await;
    let other = super::pay_with(r#"{"amount":11}"#);
    world.gateway.call("K1", other).await.assert_refused(409, "idempotency_key_conflict");
    let refund = call("refund", json!({}));
    world.upstream.script(Reply::silent().reset());
    world.gateway.call("K2", refund.clone()).await.assert_refused(502, "upstream_disconnected");
    world.gateway.call("K2", refund).await.assert_refused(409, "idempotency_outcome_unknown");
    assert_eq!(world.upstream.hits(), 2);
}

#[tokio::test]
async fn another_destination_is_a_conflict_to_reconcile() {
    let world = world().await;
    lose(&world, "K1").await;
    let moved = Upstream::start().await;
    let effect = by_header(&json!({"on_unknown": "redispatch"}));
    let policy = super::declare(Policy::new(&moved.url()), effect);
    let before = world.gateway.status().await["policy"]["revision"].clone();
    world.gateway.rewrite_policy(0, &policy.0.to_string());
    eventually("the policy to be taken over", || async {
        (world.gateway.status().await["policy"]["revision"] != before).then_some(())
    })
    .await;
    let refused = world.pay("K1").await;
    refused.assert_refused(409, "idempotency_key_conflict");
    assert_eq!(refused.json()["error"]["data"]["advice"], "reconcile");
    assert_eq!(moved.hits(), 0);
}
