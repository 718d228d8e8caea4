//! Receipts: what was called, how often, and what came of it (EFFECTS section 6).

use super::vendor::{KEY_1A, Shop};
use super::{World, by_header, receipts};
use crate::support::{Reply, Request, TOKEN_B, call, http, key_hash, pay};
use serde_json::{Value, json};

#[tokio::test]
async fn a_receipt_says_who_called_what_and_what_came_of_it() {
    let world = World::start(by_header(&json!({}))).await;
    world.pay("a-raw-key").await.assert_first();
    let receipt = world.receipt().await;
    let hash = key_hash(["alice", "agent-a", "team-a", "", "uid-payments", "a-raw-key", ""]);
    assert!(receipt["key_hash"].as_str().expect("a hash").starts_with(&hash));
    for (name, value) in [
        ("human", "alice"),
        ("agent", "agent-a"),
        ("team", "team-a"),
        ("server", "payments"),
        ("namespace", "test"),
        ("tool", "pay"),
        ("binding", "header idempotency-key"),
        ("outcome", "completed"),
    ] {
        assert_eq!(receipt[name], value, "{name}");
    }
    assert_eq!(receipt["attempts"][0]["end"]["result"], json!({"replied": 200}));
    let route: Value =
        serde_json::from_str(receipt["route"].as_str().expect("a route")).expect("JSON");
    assert_eq!((&route["tool"], &route["url"]), (&json!("pay"), &json!(world.upstream.url())));
    let times = ["opened_at", "settled_at"].map(|name| receipt[name].as_str().expect("a time"));
    assert!(times[0] <= times[1], "{times:?}");
    let id = receipt["id"].as_str().expect("an id");
    let one = world.gateway.admin(&format!("/v1/receipts/{id}")).await;
    assert_eq!((one.status, one.json()), (200, receipt.clone()));
    assert!(!one.text().contains("a-raw-key"), "no raw key in scope `session`");
}

#[tokio::test]
async fn a_claim_without_an_effect_spec_has_one_too_and_nothing_else_has() {
    let world = World::with(|policy| policy).await;
    world.pay("K1").await.assert_first();
    world.pay("K1").await;
    world
        .gateway
        .call("K1", call("pay", json!({})))
        .await
        .assert_refused(409, "idempotency_key_conflict");
    world.gateway.send(&super::unkeyed()).await.assert_first();
    let receipt = world.receipt().await;
    assert_eq!((&receipt["attempt_count"], &receipt["outcome"]), (&json!(1), &json!("completed")));
    assert_eq!((receipt.get("binding"), receipt.get("route")), (None, None));
}

#[tokio::test]
async fn every_outcome_has_its_word() {
    let world = World::start(json!({"side_effect": "write"})).await;
    for (key, reply, outcome) in [
        (
            "K1",
            http(200, &[("Content-Type", "text/event-stream")], "data: 1\n\n"),
            "not_replayable",
        ),
        ("K2", http(404, &[], ""), "released"),
        ("K3", http(500, &[], ""), "unknown"),
        ("K4", http(204, &[], ""), "completed"),
    ] {
        world.upstream.script(Reply::raw(reply));
        world.pay(key).await;
        assert_eq!(receipts(&world.gateway, "limit=1").await[0]["outcome"], outcome, "{key}");
    }
}

#[tokio::test]
async fn receipts_are_found_by_what_they_say_and_paged_newest_first() {
    let world = World::with(|policy| policy).await;
    for key in ["K1", "K2", "K3"] {
        world.pay(key).await.assert_first();
    }
    world.gateway.send(&Request::keyed("K1", pay()).bearer(TOKEN_B)).await.assert_first();
    world.gateway.call("K4", call("refund", json!({}))).await.assert_first();
    for (query, count) in [
        ("principal=alice", 4),
        ("principal=team-b", 1),
        ("tool=refund", 1),
        ("server=payments", 5),
        ("server=other", 0),
        ("outcome=completed", 5),
        ("outcome=unknown", 0),
        ("principal=alice&tool=pay", 3),
    ] {
        assert_eq!(receipts(&world.gateway, query).await.len(), count, "{query}");
    }
    let (mut after, mut seen) = (String::new(), Vec::new());
    loop {
        let page = world.gateway.admin(&format!("/v1/receipts?limit=2{after}")).await.json();
        seen.extend(page["receipts"].as_array().expect("a list").clone());
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen.len(), 5);
    assert_eq!(seen[0]["tool"], "refund", "the newest is the first");
    let mut opened: Vec<_> = seen.iter().map(|one| one["opened_at"].to_string()).collect();
    opened.reverse();
    assert!(opened.is_sorted(), "{opened:?}");
    let hash = seen[4]["key_hash"].as_str().expect("a hash");
    assert_eq!(receipts(&world.gateway, &format!("key_hash={hash}")).await, [seen[4].clone()]);
}

#[tokio::test]
async fn what_there_is_not_and_what_cannot_be_asked_is_said() {
    let world = World::with(|policy| policy).await;
    let id = format!("rcpt_{}", "0".repeat(48));
    for (path, status, error) in [
        (format!("/v1/receipts/{id}"), 404, "unknown_receipt"),
        ("/v1/receipts/rcpt_1".to_owned(), 404, "unknown_receipt"),
        ("/v1/receipts?limit=0".to_owned(), 400, "bad_query"),
        ("/v1/receipts?colour=red".to_owned(), 400, "bad_query"),
        ("/v1/receipts?tool=a&tool=b".to_owned(), 400, "bad_query"),
    ] {
        let answer = world.gateway.admin(&path).await;
        assert_eq!((answer.status, &answer.json()["error"]), (status, &json!(error)), "{path}");
    }
}

#[tokio::test]
async fn none_are_kept_where_none_are_wanted() {
    let upstream = crate::support::Upstream::start().await;
    let setup = crate::support::Setup::new(&upstream).set("receipts", "entries", "0");
    let gateway = setup.start().await;
    gateway.call("K1", pay()).await.assert_first();
    assert!(receipts(&gateway, "").await.is_empty());
}

#[tokio::test]
async fn they_are_read_and_a_refusal_says_how() {
    let shop = Shop::of_workspaces().await;
    for method in ["POST", "DELETE", "OPTIONS"] {
        let request = Request::new(method, "/receipts").bearer(KEY_1A);
        let refused = shop.gateway.send(&request).await;
        assert_eq!((refused.status, refused.header("Allow")), (405, Some("GET, HEAD")), "{method}");
    }
}
