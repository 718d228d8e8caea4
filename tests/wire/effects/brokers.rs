//! Brokers: their own retries are switched off on every call (EFFECTS section 5), and tools whose
//! vendor does not dedupe can be denied (section 2).

use super::{World, declare, pay_with, unkeyed, with_members};
use crate::support::{Policy, Request};
use serde_json::{Value, json};

fn broker(policy: Policy, retries_off: &Value) -> Policy {
    policy.with(|document| {
        document["server"]["broker"] = json!(true);
        document["server"]["retries_off"] = retries_off.clone();
    })
}

#[tokio::test]
async fn a_header_switches_them_off_whatever_the_client_says() {
    let switch = json!({"header": {"name": "X-Broker-Retries", "value": "0"}});
    let world = World::with(|policy| broker(policy, &switch)).await;
    world.pay("K1").await.assert_first();
    let with_own = unkeyed().header("X-Broker-Retries", "5");
    world.gateway.send(&with_own).await.assert_first();
    for hit in 1..=2 {
        assert_eq!(world.upstream.hit(hit).await.header("X-Broker-Retries"), Some("0"));
    }
}

#[tokio::test]
async fn a_member_of_the_query_switches_them_off() {
    let switch = json!({"query": {"name": "max retries", "value": "0"}});
    let world = World::with(|policy| broker(policy, &switch)).await;
    world.pay("K1").await.assert_first();
    world.gateway.send(&unkeyed().to("/mcp?a=b")).await.assert_first();
    let lines = [world.upstream.hit(1).await.line, world.upstream.hit(2).await.line];
    let wanted = |query: &str| format!("POST /mcp?{query} HTTP/1.1");
    assert!(
        lines[0] == wanted("max%20retries=0") || lines[0] == wanted("max+retries=0"),
        "{lines:?}"
    );
    assert!(lines[1].ends_with("&a=b HTTP/1.1"), "{lines:?}");
    let switched_back = unkeyed().to("/mcp?max+retries=5&a=b&m%61x%20retries=7");
    world.gateway.send(&switched_back).await.assert_first();
    assert_eq!(world.upstream.hit(3).await.line, lines[1], "a client's own is left out");
}

#[tokio::test]
async fn a_member_of_the_body_switches_them_off() {
    let switch = json!({"body": {"pointer": "/params/arguments/retries", "value": 0}});
    let world = World::with(|policy| broker(policy, &switch)).await;
    world.gateway.call("K1", pay_with(r#"{"n":1.10}"#)).await.assert_first();
    let wanted = pay_with(r#"{"n":1.10,"retries":0}"#);
    assert_eq!(world.upstream.hit(1).await.text(), wanted);
    let refused = world.gateway.call("K2", pay_with(r#"{"retries":3}"#)).await;
    refused.assert_rpc_error(400, -32602);
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    world.gateway.send(&Request::post(list)).await;
    assert_eq!(world.upstream.hit(2).await.text(), list, "only calls are switched");
}

#[tokio::test]
async fn a_write_without_a_binding_is_denied_where_the_policy_says_so() {
    let deny = |policy: Policy, effect: &Value| {
        let policy = declare(policy, effect.clone());
        policy.with(|document| {
            document["policy"]["deny_unsupported_writes"] = json!(["production"]);
        })
    };
    let unsupported = json!({"side_effect": "write", "environment": "production"});
    let bound = with_members(unsupported.clone(), &json!({"idempotency": {"header": "X-Once"}}));
    let sandbox = json!({"side_effect": "write", "environment": "sandbox"});
    let world = World::with(|policy| deny(policy, &unsupported)).await;
    for request in [unkeyed(), Request::keyed("K1", crate::support::pay())] {
        let refused = world.gateway.send(&request).await;
        refused.assert_refused(403, "tool_effect_not_idempotent");
    }
    assert_eq!(world.upstream.hits(), 0);
    for effect in [bound, sandbox] {
        let world = World::with(|policy| deny(policy, &effect)).await;
        world.pay("K1").await.assert_first();
    }
}
