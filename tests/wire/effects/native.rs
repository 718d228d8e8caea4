//! Tools of the gateway's own, in scope `session` (EFFECTS section 1).

use super::vendor::{SECRET, Shop, base_of, charge, connector, native_server, serve};
use super::{ALICE, receipts, vendor_key};
use crate::support::{KEY, Reply, Request, call, http, json_reply};
use serde_json::{Value, json};

fn reply(status: u16, body: &str) -> Reply {
    Reply::raw(json_reply(status, body))
}

async fn shop() -> Shop {
    Shop::start(|_| {}).await
}

#[tokio::test]
async fn a_call_becomes_the_declared_request_and_the_reply_a_result() {
    let shop = shop().await;
    shop.vendor.script(reply(201, r#"{"id":18446744073709551617,"price":1.10}"#));
    let body = charge("18446744073709551617");
    let first = shop.gateway.call("K1", body.clone()).await;
    first.assert_first();
    assert_eq!(first.header("Content-Type"), Some("application/json"));
    let text = first.text();
    assert!(
        text.contains(r#""structuredContent":{"id":18446744073709551617,"price":1.10}"#),
        "{text}"
    );
    let result = &first.json()["result"];
    assert_eq!(result["content"][0]["type"], "text");
    assert_eq!(result.get("isError").unwrap_or(&json!(false)), &json!(false));
    let sent = shop.vendor.hit(1).await;
    assert_eq!(sent.line, "POST /v1/charges HTTP/1.1");
    assert_eq!(sent.text(), r#"{"amount":18446744073709551617}"#);
    assert_eq!(sent.header("Content-Type"), Some("application/json"));
    assert_eq!(sent.header("X-Api-Key"), Some(SECRET));
    assert_eq!(sent.header("Authorization"), None, "the caller's credential stays here");
    assert_eq!(sent.header(KEY), Some(vendor_key(ALICE, "K1").as_str()));
    shop.gateway.call("K1", body).await.assert_replays(&first);
    assert_eq!(shop.vendor.hits(), 1);
    for output in [shop.gateway.stdout(), shop.gateway.stderr()] {
        assert!(!output.contains(SECRET), "{output}");
    }
}

#[tokio::test]
async fn a_definitive_rejection_is_an_error_result_and_frees_the_key() {
    let shop = shop().await;
    shop.vendor.script(reply(402, r#"{"error":"card_declined"}"#));
    let refused = shop.gateway.call("K1", charge("1")).await;
    assert_eq!((refused.status, &refused.json()["result"]["isError"]), (200, &json!(true)));
    assert!(refused.text().contains("402") && refused.text().contains("card_declined"));
    shop.vendor.script(reply(201, "{}"));
    let again = shop.gateway.call("K1", charge("1")).await;
    assert_ne!(again.json()["result"]["isError"], true);
    assert_eq!(shop.vendor.hits(), 2);
}

#[tokio::test]
async fn a_status_that_tells_nothing_is_an_error_result_that_says_so() {
    let shop = shop().await;
    shop.vendor.script(reply(500, r#"{"error":"boom"}"#));
    let unknown = shop.gateway.call("K1", charge("1")).await;
    assert_eq!((unknown.status, &unknown.json()["result"]["isError"]), (200, &json!(true)));
    let text = unknown.text();
    assert!(text.contains("500") && text.contains("unknown"), "{text}");
    shop.gateway.call("K1", charge("1")).await.assert_refused(409, "idempotency_outcome_unknown");
    assert_eq!(shop.vendor.hits(), 1);
}

#[tokio::test]
async fn a_rejection_after_an_attempt_that_told_nothing_is_told_as_unknown() {
    for (first, effect) in [
        (reply(503, "{}"), json!({"retryable": [503]})),
        (Reply::silent().reset(), json!({"on_unknown": "redispatch"})),
    ] {
        let shop = Shop::start(|tool| {
            for (name, value) in effect.as_object().expect("an object") {
                tool["effect"][name] = value.clone();
            }
        })
        .await;
        shop.vendor.script(first);
        shop.vendor.script(reply(422, "{}"));
        let mut told = shop.gateway.call("K1", charge("1")).await;
        if told.status == 502 {
            told = shop.gateway.call("K1", charge("1")).await;
        }
        assert_eq!(shop.vendor.hits(), 2);
        let text = told.text();
        assert!(text.contains("422") && text.contains("unknown"), "{text}");
        assert!(!text.contains("rejected"), "{text}");
        assert_eq!(receipts(&shop.gateway, "").await[0]["outcome"], "unknown");
    }
}

#[tokio::test]
async fn a_reply_that_breaks_off_or_is_half_its_json_is_unknown() {
    let cut = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{";
    for broken in [Reply::silent().close(), Reply::raw(cut).close(), reply(200, r#"{"id":"#)] {
        let shop = shop().await;
        shop.vendor.script(broken);
        shop.gateway.call("K1", charge("1")).await.assert_refused(502, "upstream_disconnected");
        shop.gateway
            .call("K1", charge("1"))
            .await
            .assert_refused(409, "idempotency_outcome_unknown");
        assert_eq!(shop.vendor.hits(), 1);
    }
}

#[tokio::test]
async fn a_reply_that_is_no_json_is_a_text() {
    let shop = shop().await;
    shop.vendor.script(Reply::raw(http(200, &[("Content-Type", "text/plain")], "paid <b>")));
    let first = shop.gateway.call("K1", charge("1")).await;
    assert_eq!(first.json()["result"]["content"][0]["text"], "paid <b>");
    assert_eq!(first.json()["result"].get("structuredContent"), None);
    shop.gateway.call("K1", charge("1")).await.assert_replays(&first);
}

#[tokio::test]
async fn a_reply_over_the_cap_is_given_once_and_not_kept() {
    let shop = shop().await;
    let large = format!(r#"{{"t":"{}"}}"#, "x".repeat(40_000));
    shop.vendor.script(reply(200, &large));
    let first = shop.gateway.call("K1", charge("1")).await;
    assert_eq!(
        first.json()["result"]["structuredContent"]["t"].as_str().map(str::len),
        Some(40_000)
    );
    let again = shop.gateway.call("K1", charge("1")).await;
    again.assert_refused(409, "idempotency_response_not_replayable");
    assert_eq!(shop.vendor.hits(), 1);
}

#[tokio::test]
async fn arguments_are_judged_before_the_claim() {
    let shop = shop().await;
    for body in [
        call("shop.charge", json!({})),
        call("shop.charge", json!({"amount": "secret-value"})),
        call("shop.look", json!({})),
        call("shop.look", json!({"id": ".."})),
        call("shop.refund", json!({})),
    ] {
        for request in [Request::keyed("K1", body.clone()), Request::post(body.clone())] {
            let refused = shop.gateway.send(&request).await;
            if !body.contains("refund") {
                refused.assert_rpc_error(400, -32602);
            } else {
                assert!([400, 403].contains(&refused.status), "{}", refused.text());
            }
            assert!(!refused.text().contains("secret-value"), "{}", refused.text());
        }
    }
    assert_eq!(shop.vendor.hits(), 0);
    assert!(receipts(&shop.gateway, "").await.is_empty());
}

#[tokio::test]
async fn without_a_key_each_call_is_sent_once_and_without_one() {
    let shop = shop().await;
    for _ in 0..2 {
        shop.vendor.script(reply(201, r#"{"ok":true}"#));
        let answer = shop.gateway.send(&Request::post(charge("1"))).await;
        assert_eq!(answer.json()["result"]["structuredContent"], json!({"ok": true}));
    }
    assert_eq!((shop.vendor.hits(), shop.vendor.last().header(KEY)), (2, None));
    let look = call("shop.look", json!({"id": "a/b c"}));
    shop.gateway.send(&Request::post(look)).await;
    assert_eq!(shop.vendor.last().line, "GET /v1/charges/a%2Fb%20c HTTP/1.1");
}

#[tokio::test]
async fn the_key_can_be_put_into_the_vendors_body() {
    let shop = Shop::start(|tool| {
        tool["effect"]["idempotency"] = json!({"body_pointer": "/meta/client_token"});
    })
    .await;
    shop.vendor.script(reply(201, "{}"));
    shop.gateway.call("K1", charge("1.10")).await.assert_first();
    let key = vendor_key(ALICE, "K1");
    let wanted = format!(r#"{{"amount":1.10,"meta":{{"client_token":"{key}"}}}}"#);
    assert_eq!((shop.vendor.last().text(), shop.vendor.last().header(KEY)), (wanted, None));
}

#[tokio::test]
async fn a_form_is_what_a_vendor_of_forms_gets() {
    let shop = Shop::start(|tool| {
        tool["request"]["body"] = json!({"form": {"amount": "{amount}", "note": "for {note}"}});
    })
    .await;
    shop.vendor.script(reply(201, "{}"));
    let body = call("shop.charge", json!({"amount": 5, "note": "a&b=c"}));
    shop.gateway.call("K1", body).await.assert_first();
    let sent = shop.vendor.last();
    assert_eq!(sent.header("Content-Type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(sent.text(), "amount=5&note=for+a%26b%3Dc");
}

#[tokio::test]
async fn it_is_an_mcp_server_for_its_tools_and_nothing_else() {
    let shop = shop().await;
    let ask = async |method: &str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": "i-1", "method": method, "params": params});
        shop.gateway.send(&Request::post(message.to_string())).await
    };
    let hello = ask(
        "initialize",
        json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }),
    )
    .await;
    let result = &hello.json()["result"];
    assert_eq!(
        (&hello.json()["id"], &result["protocolVersion"]),
        (&json!("i-1"), &json!("2025-06-18"))
    );
    assert!(
        result["capabilities"]["tools"].is_object() && result["serverInfo"]["name"].is_string()
    );
    assert_eq!(ask("ping", json!({})).await.json()["result"], json!({}));
    let tools = ask("tools/list", json!({})).await.json()["result"]["tools"].clone();
    assert_eq!(
        (&tools[0]["name"], &tools[1]["name"]),
        (&json!("shop.charge"), &json!("shop.look"))
    );
    assert_eq!(ask("resources/list", json!({})).await.json()["error"]["code"], -32601);
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let noted = shop.gateway.send(&Request::post(ready)).await;
    assert_eq!((noted.status, noted.text()), (202, String::new()));
    for method in ["GET", "DELETE"] {
        let refused = shop.gateway.send(&Request::new(method, "/mcp")).await;
        assert_eq!(refused.status, 405, "{method}: {}", refused.text());
        assert_eq!(refused.header("Allow"), Some("POST"), "{method}");
    }
    assert_eq!(shop.vendor.hits(), 0);
}

#[tokio::test]
async fn a_call_by_a_revision_that_is_not_spoken_is_not_sent() {
    const VERSION: &str = "MCP-Protocol-Version";
    let shop = shop().await;
    let member = json!({"io.modelcontextprotocol/protocolVersion": "2030-01-01"});
    let mut named: Value = serde_json::from_str(&charge("1")).expect("JSON");
    named["params"]["_meta"] = member;
    let by_header = Request::post(charge("1")).header(VERSION, "1999-01-01");
    let by_body = Request::post(named.to_string())
        .header(VERSION, "2030-01-01")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", "shop.charge");
    for request in [by_header, by_body] {
        for request in [request.clone(), request.header(KEY, "K1")] {
            shop.gateway.send(&request).await.assert_rpc_error(400, -32022);
        }
    }
    assert_eq!(shop.vendor.hits(), 0);
    let spoken = Request::post(charge("1")).header(VERSION, "2025-06-18");
    assert_eq!(shop.gateway.send(&spoken).await.status, 200);
}

#[tokio::test]
async fn grants_judge_a_native_tool_by_its_own_effect() {
    let vendor = crate::support::Upstream::start().await;
    let readers = native_server().with(|document| {
        document["grants"][0]["allowed_side_effects"] = json!(["read"]);
    });
    let gateway = serve([readers, connector("shop", &base_of(&vendor))]).await;
    gateway.call("K1", charge("1")).await.assert_refused(403, "side_effect_not_allowed");
    let look = call("shop.look", json!({"id": "1"}));
    assert_eq!(gateway.call("K2", look).await.status, 200);
    assert_eq!(vendor.hits(), 1);
}
