//! Capabilities: a logical call whose route is pinned by its record (EFFECTS section 4).

use super::vendor::{
    KEY_1A, base_of, connector, of, serve, with_charge, workspace_server, workspaces,
};
use crate::support::{
    Gateway, KEY, Policy, Reply, Request, Response, Upstream, call, eventually, http, json_reply,
};
use serde_json::{Value, json};

const KEY_ONE: &str = "idt_5c1f2a9b0e4d7c6a3b8f1d2e5a4c7b90";
const KEY_TWO: &str = "idt_00000000000000000000000000000002";
const KEY_THREE: &str = "idt_00000000000000000000000000000003";
const ROUTE: &str = "dev.onceward/route";

/// Two vendors that can serve `cap.charge`, and a workspace that pins one of them.
struct Market {
    shop: Upstream,
    bank: Upstream,
    gateway: Gateway,
}

fn capability() -> Policy {
    Policy(json!({
        "schema_version": "v1",
        "kind": "capability",
        "name": "cap.charge",
        "input_schema": {
            "type": "object", "required": ["cents"], "properties": {"cents": {"type": "integer"}},
        },
        "routes": [
            {"connector": "shop", "tool": "shop.charge", "arguments": {"amount": "{cents}"}},
            {"connector": "bank", "tool": "bank.charge", "arguments": {"amount": "{cents}"}},
        ],
    }))
}

fn pinned(connector: &str) -> Policy {
    let [one, _] = workspaces();
    one.with(|document| {
        let mut second = document["connections"][0].clone();
        second["id"] = json!("conn_bank");
        second["connector"] = json!("bank");
        document["connections"].as_array_mut().expect("a list").push(second);
        document["pins"] = json!({ "cap.charge": connector });
    })
}

impl Market {
    async fn start(effect: &Value) -> Self {
        let (shop, bank) = (Upstream::start().await, Upstream::start().await);
        let with_effect = |connector: Policy| {
            with_charge(connector, |tool| {
                for (name, value) in effect.as_object().expect("an object") {
                    tool["effect"][name] = value.clone();
                }
            })
        };
        let server = workspace_server().with(|document| {
            document["server"]["connectors"] = json!(["shop", "bank"]);
        });
        let documents = [
            server,
            with_effect(connector("shop", &base_of(&shop))),
            with_effect(connector("bank", &base_of(&bank))),
            pinned("shop"),
            capability(),
        ];
        Self { shop, bank, gateway: serve(documents).await }
    }

    async fn charge(&self) -> Response {
        let body = call("cap.charge", json!({"cents": 250}));
        self.gateway.send(&of(KEY_1A, body).header(KEY, KEY_ONE)).await
    }

    async fn pin(&self, connector: &str) {
        self.rewrite(3, pinned(connector)).await;
    }

    async fn rewrite(&self, number: usize, document: Policy) {
        let before = self.gateway.status().await["policy"]["revision"].clone();
        self.gateway.rewrite_policy(number, &document.0.to_string());
        eventually("the policy to be taken over", || async {
            (self.gateway.status().await["policy"]["revision"] != before).then_some(())
        })
        .await;
    }
}

fn route_of(answer: &Response) -> Value {
    answer.json()["result"]["_meta"][ROUTE].clone()
}

#[tokio::test]
async fn it_leads_where_the_workspace_pins_it_with_the_tools_arguments() {
    let market = Market::start(&json!({})).await;
    market.shop.script(Reply::raw(json_reply(201, r#"{"id":"ch_1"}"#)));
    let first = market.charge().await;
    first.assert_first();
    assert_eq!(market.shop.hit(1).await.text(), r#"{"amount":250}"#);
    assert_eq!(market.bank.hits(), 0);
    let route = route_of(&first);
    assert_eq!((&route["connector"], &route["connection"]), (&json!("shop"), &json!("conn_9")));
}

#[tokio::test]
async fn a_completed_call_is_replayed_with_its_old_route_whatever_the_pin_says_now() {
    let market = Market::start(&json!({})).await;
    market.shop.script(Reply::raw(json_reply(201, r#"{"id":"ch_1"}"#)));
    let first = market.charge().await;
    market.pin("bank").await;
    let again = market.charge().await;
    again.assert_replays(&first);
    assert_eq!(route_of(&again)["connector"], "shop");
    assert_eq!((market.shop.hits(), market.bank.hits()), (1, 0));
}

#[tokio::test]
async fn an_unknown_outcome_conflicts_with_another_destination_and_is_not_sent_there() {
    for effect in [json!({}), json!({"on_unknown": "redispatch"})] {
        let market = Market::start(&effect).await;
        market.shop.script(Reply::silent().reset());
        market.charge().await.assert_refused(502, "upstream_disconnected");
        market.pin("bank").await;
        let refused = market.charge().await;
        refused.assert_refused(409, "idempotency_key_conflict");
        assert_eq!(refused.json()["error"]["data"]["advice"], "reconcile");
        assert_eq!((market.shop.hits(), market.bank.hits()), (1, 0));
    }
}

#[tokio::test]
async fn a_call_in_flight_conflicts_with_another_destination() {
    let market = Market::start(&json!({})).await;
    let gate = crate::support::Gate::new();
    market.shop.script(Reply::silent().wait(&gate).send(json_reply(201, "{}")));
    let body = call("cap.charge", json!({"cents": 250}));
    let request: Request = of(KEY_1A, body).header(KEY, KEY_ONE);
    let mut waiting = market.gateway.begin(&request).await;
    market.shop.hit(1).await;
    market.pin("bank").await;
    let refused = market.charge().await;
    assert_eq!(refused.json()["error"]["data"]["advice"], "reconcile", "{}", refused.text());
    gate.open();
    waiting.response().await.expect("an answer").assert_first();
    assert_eq!(market.bank.hits(), 0);
}

#[tokio::test]
async fn a_released_call_takes_the_new_pin() {
    let market = Market::start(&json!({})).await;
    market.shop.script(Reply::raw(http(422, &[], "no")));
    assert_eq!(market.charge().await.json()["result"]["isError"], true);
    market.pin("bank").await;
    market.bank.script(Reply::raw(json_reply(201, r#"{"id":"b_1"}"#)));
    let first = market.charge().await;
    first.assert_first();
    assert_eq!(route_of(&first)["connector"], "bank");
    assert_eq!((market.shop.hits(), market.bank.hits()), (1, 1));
}

#[tokio::test]
async fn a_record_answers_where_todays_route_would_refuse_the_arguments() {
    let market = Market::start(&json!({})).await;
    market.shop.script(Reply::raw(json_reply(201, r#"{"id":"ch_1"}"#)));
    let first = market.charge().await;
    let other = of(KEY_1A, call("cap.charge", json!({"cents": 300}))).header(KEY, KEY_TWO);
    market.shop.script(Reply::silent().reset());
    market.gateway.send(&other).await.assert_refused(502, "upstream_disconnected");
    let narrow = with_charge(connector("bank", &base_of(&market.bank)), |tool| {
        tool["input_schema"]["properties"]["amount"]["maximum"] = json!(5);
    });
    market.rewrite(2, narrow).await;
    market.pin("bank").await;
    market.charge().await.assert_replays(&first);
    let refused = market.gateway.send(&other).await;
    refused.assert_refused(409, "idempotency_key_conflict");
    assert_eq!(refused.json()["error"]["data"]["advice"], "reconcile");
    // Without a record the route's refusal stands, and the key is free for what it takes.
    let third = |cents: i64| {
        let body = call("cap.charge", json!({ "cents": cents }));
        of(KEY_1A, body).header(KEY, KEY_THREE)
    };
    market.gateway.send(&third(300)).await.assert_rpc_error(400, -32602);
    market.bank.script(Reply::raw(json_reply(201, "{}")));
    market.gateway.send(&third(5)).await.assert_first();
    assert_eq!((market.shop.hits(), market.bank.hits()), (2, 1));
}
