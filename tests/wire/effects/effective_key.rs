//! `keys: always`: every call has a key, and its caller is told which (EFFECTS section 3).

use super::{World, unkeyed};
use crate::support::{KEY, Policy, Reply, Request, Response, call, http, json_reply, pay};
use serde_json::{Value, json};

const MEMBER: &str = "dev.onceward/idempotency-key";

async fn world() -> World {
    World::with(|policy| policy.idempotency("keys", json!("always"))).await
}

fn told(response: &Response) -> String {
    let key = response.header(KEY).expect("the effective key").to_owned();
    let digits = key.strip_prefix("idt_").expect("an idt key");
    assert!(digits.len() == 32 && digits.bytes().all(|byte| b"0123456789abcdef".contains(&byte)));
    key
}

#[tokio::test]
async fn a_call_without_a_key_is_given_one_and_can_be_retried_under_it() {
    let world = world().await;
    let first = world.gateway.send(&unkeyed()).await;
    first.assert_first();
    let key = told(&first);
    assert_eq!(first.json()["result"]["_meta"], json!({ MEMBER: key }));
    let again = world.pay(&key).await;
    again.assert_replays(&first);
    assert_eq!(told(&again), key);
    assert_eq!(world.upstream.hits(), 1);
    // The key is the client's business: without a binding it does not leave.
    assert_eq!(world.upstream.hit(1).await.header(KEY), None);
    let another = told(&world.gateway.send(&unkeyed()).await);
    assert_ne!(another, key, "each call is given its own");
}

#[tokio::test]
async fn a_refusal_tells_the_key_too() {
    let world = world().await;
    let key = told(&world.gateway.send(&unkeyed()).await);
    let conflict = world.gateway.call(&key, call("pay", json!({"amount": 1}))).await;
    conflict.assert_refused(409, "idempotency_key_conflict");
    assert_eq!(told(&conflict), key);
    assert!(!conflict.text().contains(&key), "a body never holds a raw key");
}

#[tokio::test]
async fn a_malformed_key_is_an_error_and_nothing_is_sent() {
    let world = world().await;
    for key in ["K1", "idt_0123", "idt_0123456789ABCDEF0123456789abcdef", ""] {
        let refused = world.gateway.call(key, pay()).await;
        refused.assert_refused(400, "idempotency_key_invalid");
        assert_eq!(refused.header(KEY), None);
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn an_unverified_caller_is_refused_and_never_forwarded_unkeyed() {
    let world = World::with(|policy| {
        let observed = policy.with(|document| document["policy"]["mode"] = json!("observe"));
        observed.idempotency("keys", json!("always"))
    })
    .await;
    let nobody = unkeyed().without("Authorization");
    let refused = world.gateway.send(&nobody).await;
    refused.assert_refused(400, "idempotency_requires_verified_identity");
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn a_reply_that_cannot_carry_it_has_the_header_only() {
    let world = world().await;
    let stream = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n";
    let coded = [("Content-Type", "application/json"), ("Content-Encoding", "br")];
    let large = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"t":"{}"}}}}"#, "x".repeat(40_000));
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#;
    let text = r#"{"jsonrpc":"2.0","id":1,"result":"text"}"#;
    for (reply, body) in [
        (http(200, &[("Content-Type", "text/event-stream")], stream), stream),
        (http(200, &coded, "coded"), "coded"),
        (json_reply(200, &large), large.as_str()),
        (json_reply(200, error), error),
        (json_reply(200, text), text),
        (json_reply(400, "{}"), "{}"),
    ] {
        world.upstream.script(Reply::raw(reply));
        let answer = world.gateway.send(&unkeyed()).await;
        told(&answer);
        assert_eq!(answer.text(), body);
    }
}

#[tokio::test]
async fn what_else_is_in_the_meta_stays_and_an_upstream_cannot_forge_the_key() {
    let world = world().await;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"n":1.10,"_meta":{{"a":1,"{MEMBER}":"idt_forged"}}}}}}"#
    );
    world.upstream.script(Reply::raw(json_reply(200, &body)));
    let answer = world.gateway.send(&unkeyed()).await;
    let key = told(&answer);
    assert_eq!(answer.text(), body.replace("idt_forged", &key));
}

#[tokio::test]
async fn what_is_stored_and_counted_is_the_upstreams_own() {
    // 32 KiB exactly, without the key that goes out with it.
    let fill = 32 * 1024 - r#"{"jsonrpc":"2.0","id":1,"result":{"t":""}}"#.len();
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"t":"{}"}}}}"#, "x".repeat(fill));
    let world = world().await;
    world.upstream.script(Reply::raw(json_reply(200, &body)));
    let first = world.gateway.send(&unkeyed()).await;
    assert!(first.body.len() > 32 * 1024);
    world.pay(&told(&first)).await.assert_replays(&first);
}

#[tokio::test]
async fn other_requests_and_other_servers_get_nothing_added() {
    let world = world().await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let listed = world.gateway.send(&Request::post(list)).await;
    assert_eq!((listed.status, listed.header(KEY)), (200, None));
    assert!(!listed.text().contains(MEMBER));
    let optional = World::with(|policy: Policy| policy).await;
    let first = optional.pay("K1").await;
    assert_eq!((first.header(KEY), first.json()["result"].get("_meta")), (None, None::<&Value>));
}
