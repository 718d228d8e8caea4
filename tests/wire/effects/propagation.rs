//! The key on its way to the vendor (EFFECTS section 2).

use super::{ALICE, BOB, World, by_header, pay_with, vendor_key};
use crate::support::{Request, TOKEN_B, pay};
use serde_json::json;

fn by_pointer(pointer: &str) -> serde_json::Value {
    json!({"side_effect": "write", "idempotency": {"body_pointer": pointer}})
}

#[tokio::test]
async fn the_vendor_gets_a_derived_key_that_differs_by_caller() {
    let world = World::start(by_header(&json!({}))).await;
    world.pay("K1").await.assert_first();
    let bobs = Request::keyed("K1", pay()).bearer(TOKEN_B);
    world.gateway.send(&bobs).await.assert_first();
    let sent = [world.upstream.hit(1).await, world.upstream.hit(2).await];
    let keys = [vendor_key(ALICE, "K1"), vendor_key(BOB, "K1")];
    assert_ne!(keys[0], keys[1]);
    for (sent, key) in sent.iter().zip(&keys) {
        assert_eq!(sent.header("Idempotency-Key"), Some(key.as_str()));
        assert_eq!(sent.text(), pay(), "the body stays as it is");
    }
}

#[tokio::test]
async fn another_header_than_the_clients_own_may_carry_it() {
    let world = World::start(json!({
        "side_effect": "write", "idempotency": {"header": "X-Request-Token"},
    }))
    .await;
    world.pay("K1").await.assert_first();
    let sent = world.upstream.hit(1).await;
    assert_eq!(sent.header("X-Request-Token"), Some(vendor_key(ALICE, "K1").as_str()));
    assert_eq!(sent.header("Idempotency-Key"), None);
    let own = Request::keyed("K2", pay()).header("X-Request-Token", "mine");
    world.gateway.send(&own).await.assert_refused(400, "idempotency_key_invalid");
    assert_eq!(world.upstream.hits(), 1);
}

#[tokio::test]
async fn without_a_binding_no_key_leaves() {
    let world = World::start(json!({"side_effect": "write"})).await;
    world.pay("K1").await.assert_first();
    let sent = world.upstream.hit(1).await;
    assert_eq!((sent.header("Idempotency-Key"), sent.text()), (None, pay()));
}

#[tokio::test]
async fn a_key_in_the_body_leaves_every_other_byte_as_it_is() {
    let world = World::start(by_pointer("/params/arguments/meta/client_token")).await;
    let key = vendor_key(ALICE, "K1");
    let sent = r#"{"big":18446744073709551617,"price":1.10,"t":"\u00e9","list":[1.0, 2]}"#;
    world.gateway.call("K1", pay_with(sent)).await.assert_first();
    let wanted = format!(
        r#"{{"big":18446744073709551617,"price":1.10,"t":"\u00e9","list":[1.0, 2],"meta":{{"client_token":"{key}"}}}}"#
    );
    assert_eq!(world.upstream.hit(1).await.text(), pay_with(&wanted));
}

#[tokio::test]
async fn what_stands_in_the_way_of_the_key_is_refused_before_the_claim() {
    let world = World::start(by_pointer("/params/arguments/meta/client_token")).await;
    for (arguments, number) in [
        (r#"{"meta":[]}"#, 1),
        (r#"{"meta":"text"}"#, 2),
        (r#"{"meta":7}"#, 3),
        (r#"{"meta":null}"#, 4),
        (r#"{"meta":{"client_token":"another"}}"#, 5),
        (r#"{"meta":{"client_token":null}}"#, 6),
        ("[]", 7),
    ] {
        let refused = world.gateway.call(&format!("K{number}"), pay_with(arguments)).await;
        refused.assert_refused(400, "idempotency_key_invalid");
    }
    assert_eq!(world.upstream.hits(), 0);
    assert!(super::receipts(&world.gateway, "").await.is_empty(), "nothing was claimed");
}

#[tokio::test]
async fn the_same_key_in_its_place_already_is_sent_as_it_stands() {
    let world = World::start(by_pointer("/params/arguments/client_token")).await;
    let arguments = format!(r#"{{"client_token":"{}","n":1}}"#, vendor_key(ALICE, "K1"));
    world.gateway.call("K1", pay_with(&arguments)).await.assert_first();
    assert_eq!(world.upstream.hit(1).await.text(), pay_with(&arguments));
}

#[tokio::test]
async fn a_call_without_a_key_is_forwarded_untouched() {
    let world = World::start(by_pointer("/params/arguments/client_token")).await;
    world.gateway.send(&super::unkeyed()).await.assert_first();
    assert_eq!(world.upstream.hit(1).await.text(), pay());
    assert!(super::receipts(&world.gateway, "").await.is_empty());
}
