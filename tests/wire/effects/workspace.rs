//! Scope `workspace`: its callers share slots, its account and its receipts (EFFECTS sections 4, 6).

use super::vendor::{
    KEY_1A, KEY_1B, KEY_2, Shop, base_of, charge, connector, of, serve, setup, workspace_server,
    workspaces,
};
use std::sync::Arc;

use crate::support::{Gateway, KEY, RedisServer, Reply, Request, Upstream, eventually, json_reply};
use serde_json::{Value, json};

const KEY_ONE: &str = "idt_5c1f2a9b0e4d7c6a3b8f1d2e5a4c7b90";

fn keyed(secret: &str, amount: &str) -> Request {
    of(secret, charge(amount)).header(KEY, KEY_ONE)
}

fn charged(shop: &Shop) {
    shop.vendor.script(Reply::raw(json_reply(201, r#"{"id":"ch_1"}"#)));
}

#[tokio::test]
async fn callers_of_one_workspace_share_a_slot_and_others_do_not() {
    let shop = Shop::of_workspaces().await;
    charged(&shop);
    let first = shop.gateway.send(&keyed(KEY_1A, "1")).await;
    first.assert_first();
    shop.gateway.send(&keyed(KEY_1B, "1")).await.assert_replays(&first);
    let other = shop.gateway.send(&keyed(KEY_1B, "2")).await;
    other.assert_refused(409, "idempotency_key_conflict");
    charged(&shop);
    shop.gateway.send(&keyed(KEY_2, "1")).await.assert_first();
    assert_eq!(shop.vendor.hits(), 2);
    // The session authorizes; it is no part of the slot.
    let unknown = keyed(KEY_1A, "1").header("X-MCP-Agent-Session", "nobody's");
    shop.gateway.send(&unknown).await.assert_refused(401, "session_not_found");
}

#[tokio::test]
async fn the_vendor_gets_the_effective_key_itself_and_the_connections_secret() {
    let shop = Shop::of_workspaces().await;
    charged(&shop);
    shop.gateway.send(&keyed(KEY_1A, "1")).await.assert_first();
    assert_eq!(shop.vendor.last().header(KEY), Some(KEY_ONE));
    charged(&shop);
    let minted = shop.gateway.send(&of(KEY_1A, charge("1"))).await;
    let key = minted.header(KEY).expect("the effective key").to_owned();
    assert_eq!(shop.vendor.last().header(KEY), Some(key.as_str()));
    assert_eq!(minted.json()["result"]["_meta"]["dev.onceward/idempotency-key"], key);
    let malformed = of(KEY_1A, charge("1")).header(KEY, "K1");
    shop.gateway.send(&malformed).await.assert_refused(400, "idempotency_key_invalid");
}

#[tokio::test]
async fn only_a_workspaces_own_keys_select_it() {
    let shop = Shop::of_workspaces().await;
    for secret in ["ws1", "", "token-of-A"] {
        let refused = shop.gateway.send(&of(secret, charge("1"))).await;
        assert_eq!(refused.status, 401, "{}", refused.text());
    }
    assert_eq!(shop.vendor.hits(), 0);
}

#[tokio::test]
async fn a_moved_destination_is_a_conflict_to_reconcile_even_for_a_replay() {
    let shop = Shop::of_workspaces().await;
    charged(&shop);
    shop.gateway.send(&keyed(KEY_1A, "1")).await.assert_first();
    let moved = Upstream::start().await;
    let before = shop.gateway.status().await["policy"]["revision"].clone();
    shop.gateway.rewrite_policy(1, &connector("shop", &base_of(&moved)).0.to_string());
    eventually("the policy to be taken over", || async {
        (shop.gateway.status().await["policy"]["revision"] != before).then_some(())
    })
    .await;
    let refused = shop.gateway.send(&keyed(KEY_1A, "1")).await;
    refused.assert_refused(409, "idempotency_key_conflict");
    assert_eq!(refused.json()["error"]["data"]["advice"], "reconcile");
    let other = shop.gateway.send(&keyed(KEY_1A, "2")).await;
    assert_eq!(
        other.json()["error"]["data"]["advice"],
        "new_key",
        "other arguments are another call"
    );
    assert_eq!(moved.hits(), 0);
}

/// What a workspace's key sees at a path of the MCP listener.
async fn read(gateway: &Gateway, secret: &str, path: &str) -> (u16, Value) {
    let answer = gateway.send(&Request::new("GET", path).bearer(secret)).await;
    (answer.status, answer.json())
}

#[tokio::test]
async fn a_workspace_reads_its_own_receipts_and_no_others() {
    let shop = Shop::of_workspaces().await;
    charged(&shop);
    shop.gateway.send(&keyed(KEY_1A, "1")).await.assert_first();
    let (status, page) = read(&shop.gateway, KEY_1B, "/receipts").await;
    assert_eq!(status, 200, "{page}");
    let own = page["receipts"][0].clone();
    for (name, value) in [
        ("workspace", json!("ws_1")),
        ("key", json!(KEY_ONE)),
        ("human", json!("alice")),
        ("tool", json!("shop.charge")),
        ("attempt_count", json!(1)),
    ] {
        assert_eq!(own[name], value, "{name}");
    }
    let route: Value = serde_json::from_str(own["route"].as_str().expect("a route")).expect("JSON");
    assert_eq!((&route["connector"], &route["connection"]), (&json!("shop"), &json!("conn_9")));
    let one = format!("/receipts/{}", own["id"].as_str().expect("an id"));
    assert_eq!(read(&shop.gateway, KEY_1A, &one).await, (200, own));
    let (status, page) = read(&shop.gateway, KEY_2, "/receipts").await;
    assert_eq!((status, &page["receipts"]), (200, &json!([])));
    assert_eq!(
        read(&shop.gateway, KEY_2, "/receipts?workspace=ws_1").await.1["receipts"],
        json!([])
    );
    assert_eq!(
        read(&shop.gateway, KEY_2, &one).await.0,
        404,
        "another workspace's looks like none"
    );
    assert_eq!(read(&shop.gateway, "nobody", "/receipts").await.0, 401);
    assert_eq!(read(&shop.gateway, KEY_1A, "/receipts?limit=x").await.0, 400);
    let posted = of(KEY_1A, "{}").to("/receipts");
    assert!([404, 405].contains(&shop.gateway.send(&posted).await.status));
}

#[tokio::test]
async fn two_connections_of_one_connector_are_called_by_their_names() {
    let vendor = Upstream::start().await;
    let [one, _] = workspaces();
    let one = one.with(|document| {
        let mut second = document["connections"][0].clone();
        second["id"] = json!("conn_10");
        document["connections"].as_array_mut().expect("a list").push(second);
    });
    let gateway = serve([workspace_server(), connector("shop", &base_of(&vendor)), one]).await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let listed = gateway.send(&of(KEY_1A, list)).await.json()["result"]["tools"].clone();
    let names: Vec<_> =
        listed.as_array().expect("tools").iter().map(|tool| tool["name"].clone()).collect();
    for name in ["conn_9.shop.charge", "conn_10.shop.charge"] {
        assert!(names.contains(&json!(name)), "{names:?}");
        let body = charge("1").replace("shop.charge", name);
        vendor.script(Reply::raw(json_reply(201, "{}")));
        gateway.send(&of(KEY_1A, body).header(KEY, KEY_ONE)).await.assert_first();
    }
    gateway.send(&keyed(KEY_1A, "1")).await.assert_rpc_error(400, -32602);
    assert_eq!(vendor.hits(), 2, "each connection has slots of its own");
}

/// In memory they end with the process.
#[tokio::test]
async fn receipts_in_redis_are_read_by_a_gateway_that_made_none() {
    let (vendor, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let start = async || {
        let [one, _] = workspaces();
        let documents = [workspace_server(), connector("shop", &base_of(&vendor)), one];
        setup(documents).redis(&server).start().await
    };
    let first = start().await;
    vendor.script(Reply::raw(json_reply(201, "{}")));
    eventually("the store", || async {
        let answer = first.send(&keyed(KEY_1A, "1")).await;
        (answer.reason() != "idempotency_unavailable").then_some(())
    })
    .await;
    let other = start().await;
    let page = eventually("the store", || async {
        let (status, page) = read(&other, KEY_1B, "/receipts").await;
        (status == 200).then_some(page)
    })
    .await;
    assert_eq!(page["receipts"][0]["key"], KEY_ONE);
}
