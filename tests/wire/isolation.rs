//! A foreign key looks unused (CONTRACT sections 2 and 6).

use crate::support::{
    Gate, Gateway, Policy, Reply, Request, Setup, TOKEN_B, Upstream, call, grant, json_reply, pay,
    result_for, session, sha256_hex,
};
use serde_json::json;

const SESSION: &str = "X-MCP-Agent-Session";

#[tokio::test]
async fn another_principal_with_the_same_key_is_the_first() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let of_a = gateway.call("K1", pay()).await;
    let other_body = call("pay", json!({"amount": 99}));
    let of_b = gateway.send(&Request::keyed("K1", other_body.clone()).bearer(TOKEN_B)).await;
    of_b.assert_first();
    assert_ne!(of_a.body, of_b.body);
    assert_eq!(upstream.hits(), 2);
    gateway.call("K1", pay()).await.assert_replays(&of_a);
    gateway.send(&Request::keyed("K1", other_body).bearer(TOKEN_B)).await.assert_replays(&of_b);
    assert_eq!(upstream.hits(), 2);
}

#[tokio::test]
async fn a_call_in_flight_and_an_unknown_outcome_do_not_show_to_others() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let gate = Gate::new();
    upstream.script(Reply::silent().wait(&gate).close());
    let _waiting = gateway.begin(&Request::keyed("K1", pay())).await;
    upstream.hit(1).await;
    gateway.send(&Request::keyed("K1", pay()).bearer(TOKEN_B)).await.assert_first();
    gate.open();
    let retry = gateway.settled(&Request::keyed("K1", pay())).await;
    retry.assert_refused(409, "idempotency_outcome_unknown");
    assert!(gateway.send(&Request::keyed("K1", pay()).bearer(TOKEN_B)).await.replayed());
}

#[tokio::test]
async fn every_part_of_the_triple_tells_principals_apart() {
    let upstream = Upstream::start().await;
    let triples = [
        json!({"human_id": "alice"}),
        json!({"agent_id": "alice"}),
        json!({"team_id": "alice"}),
        json!({"human_id": "alice", "agent_id": "x"}),
        json!({"human_id": "alice", "team_id": "x"}),
    ];
    let setup = Setup::new(&upstream).policy(|policy| {
        policy.with(|document| {
            document["policy"]["default_decision"] = json!("allow");
            document["grants"] = json!([]);
            let keys = triples.iter().enumerate().map(|(number, triple)| {
                let mut key = triple.clone();
                key["id"] = json!(format!("k{number}"));
                let token = format!("token-{number}");
                key["sha256"] = json!(sha256_hex(token.as_bytes()));
                key
            });
            document["auth"]["api_keys"] = keys.collect();
        })
    });
    let gateway = setup.start().await;
    for number in 0..triples.len() {
        let request = Request::keyed("K1", pay()).bearer(&format!("token-{number}"));
        gateway.send(&request).await.assert_first();
        assert_eq!(upstream.hits(), number + 1);
    }
}

#[tokio::test]
async fn two_tokens_of_one_subject_share_its_slots() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).policy(|policy| {
        policy.with(|document| {
            let mut second = document["auth"]["api_keys"][0].clone();
            second["id"] = json!("a2");
            second["sha256"] = json!(sha256_hex(b"T2-of-A"));
            document["auth"]["api_keys"].as_array_mut().expect("keys").push(second);
        })
    });
    let gateway = setup.start().await;
    let first = gateway.call("K1", pay()).await;
    let refreshed = Request::keyed("K1", pay()).bearer("T2-of-A");
    gateway.send(&refreshed).await.assert_replays(&first);
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn sessions_of_one_principal_are_scopes_of_their_own() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).policy(|policy| {
        policy.with(|document| {
            document["sessions"] = json!([session("s1", "alice"), session("s2", "alice")]);
        })
    });
    let gateway = setup.start().await;
    let plain = Request::keyed("K1", pay());
    let requests =
        [plain.clone(), plain.clone().header(SESSION, "s1"), plain.header(SESSION, "s2")];
    let mut firsts = Vec::new();
    for request in &requests {
        let first = gateway.send(request).await;
        first.assert_first();
        firsts.push(first);
    }
    assert_eq!(upstream.hits(), 3);
    for (request, first) in requests.iter().zip(&firsts) {
        gateway.send(request).await.assert_replays(first);
    }
}

#[tokio::test]
async fn the_transport_session_is_no_part_of_the_scope() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let request = Request::keyed("K1", pay());
    let first = gateway.send(&request.clone().header("Mcp-Session-Id", "one")).await;
    first.assert_first();
    gateway.send(&request.clone().header("Mcp-Session-Id", "two")).await.assert_replays(&first);
    gateway.send(&request).await.assert_replays(&first);
    assert_eq!(upstream.hits(), 1);
}

fn server(upstream: &Upstream, name: &str) -> Policy {
    Policy::new(&upstream.url()).at(name).with(|document| {
        document["tools"] = json!([{"name": "create", "side_effect": "write"}]);
        document["grants"] = json!([grant("g", "alice")]);
    })
}

#[tokio::test]
async fn one_tool_name_on_two_servers_is_two_tools() {
    let billing = Upstream::with(|_, request| {
        Reply::raw(json_reply(200, &result_for(&request.body, "billing")))
    })
    .await;
    let crm =
        Upstream::with(|_, request| Reply::raw(json_reply(200, &result_for(&request.body, "crm"))))
            .await;
    let policies = [server(&billing, "billing"), server(&crm, "crm")];
    let gateway = Setup::policies(policies).start().await;
    let create = call("create", json!({"n": 1}));
    let to = |path: &str| Request::keyed("K1", create.clone()).to(path);
    let at_billing = gateway.send(&to("/mcp/billing")).await;
    at_billing.assert_first();
    let at_crm = gateway.send(&to("/mcp/crm")).await;
    at_crm.assert_first();
    assert!(at_crm.text().contains("crm") && at_billing.text().contains("billing"));
    gateway.send(&to("/mcp/billing")).await.assert_replays(&at_billing);
    gateway.send(&to("/mcp/crm")).await.assert_replays(&at_crm);
    assert_eq!((billing.hits(), crm.hits()), (1, 1));
}

#[tokio::test]
async fn a_query_is_forwarded_and_no_part_of_the_slot() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let first = gateway.send(&Request::keyed("K1", pay()).to("/mcp?dry=1&x=%2F")).await;
    first.assert_first();
    assert_eq!(upstream.last().line, "POST /mcp?dry=1&x=%2F HTTP/1.1");
    gateway.call("K1", pay()).await.assert_replays(&first);
    gateway.send(&Request::keyed("K1", pay()).to("/mcp?dry=2")).await.assert_replays(&first);
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn an_unknown_path_is_no_server() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for target in ["/", "/mcp/other", "/MCP", "/mcpx"] {
        let answer = gateway.send(&Request::post(pay()).to(target)).await;
        assert_eq!(answer.status, 404, "{target}: {}", answer.text());
    }
    assert_eq!(upstream.hits(), 0);
}
