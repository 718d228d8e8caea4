//! Metrics, audit lines and the admin listener (CONTRACT sections 8 and 10).

use crate::support::{
    Conn, Gate, Gateway, Policy, Reply, Request, Setup, Upstream, call, eventually, http, pay,
    sha256_hex, store_of_the_run,
};
use serde_json::{Value, json};

#[tokio::test]
async fn every_outcome_is_counted_under_its_name_and_no_other() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).set("limits", "scope_in_flight", "1");
    let gateway = setup.start().await;
    gateway.call("done", pay()).await;
    gateway.call("done", pay()).await;
    gateway.call("done", call("pay", json!({"amount": 99}))).await;
    upstream.script(Reply::silent().close());
    gateway.call("unknown", pay()).await;
    gateway.call("unknown", pay()).await;
    upstream.script(Reply::raw(http(200, &[("Content-Encoding", "br")], "coded")));
    gateway.call("unkept", pay()).await;
    gateway.call("unkept", pay()).await;
    let gate = Gate::new();
    upstream.script(Reply::silent().wait(&gate).close());
    let _waiting = gateway.begin(&Request::keyed("held", pay())).await;
    upstream.hit(4).await;
    gateway.call("held", pay()).await;
    gateway.call("more", pay()).await;
    gateway.call("not a key", pay()).await;
    // These count nothing.
    gateway.send(&Request::keyed("K", pay()).bearer("wrong")).await;
    gateway.call("K", call("unlisted", json!({}))).await;
    gateway.call("K", "{").await;
    gateway.call("K", vec![b' '; 1024 * 1024 + 1]).await;
    gateway.send(&Request::keyed("K", pay()).header("Content-Encoding", "gzip")).await;
    gateway.send(&Request::post(pay())).await;

    let metrics = gateway.metrics().await;
    let expected = [
        ("first", 4),
        ("replay", 1),
        ("conflict", 1),
        ("in_flight", 1),
        ("unknown_outcome", 1),
        ("not_replayable", 1),
        ("capacity", 1),
        ("rejected", 1),
    ];
    let expected = expected.map(|(outcome, count)| (outcome.to_owned(), count)).into();
    assert_eq!(metrics.outcomes(), expected);
    for (labels, _) in metrics.samples("mcp_gateway_idempotency_total") {
        assert_eq!((labels["namespace"].as_str(), labels["server"].as_str()), ("test", "payments"));
    }
    let attempts = metrics.sum("onceward_upstream_attempts_total", &[]);
    assert!(attempts == 4 || attempts == 5, "the held call may not have ended yet: {attempts}");
    gate.open();
}

#[tokio::test]
async fn no_name_of_a_request_becomes_a_label() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let series = |text: String| -> Vec<String> {
        let named = text.lines().filter(|line| !line.starts_with('#'));
        named.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
    };
    gateway.send(&Request::post(pay())).await;
    let before = series(gateway.metrics().await.text);
    let hostile = "x7f3a\"} 1\nforged 1";
    for number in 0..20 {
        let name = format!("{hostile}{number}");
        gateway.send(&Request::post(call(&name, json!({})))).await;
        gateway.call(&format!("x7f3a-{number}"), pay()).await;
        let method = json!({"jsonrpc": "2.0", "id": 1, "method": name}).to_string();
        gateway.send(&Request::post(method)).await;
        let session = format!("x7f3a-{number}");
        gateway.send(&Request::post(pay()).header("X-MCP-Agent-Session", &session)).await;
        gateway.send(&Request::post(pay()).bearer(&session)).await;
        gateway.send(&Request::post(pay()).to(&format!("/x7f3a-{number}"))).await;
        gateway.send(&Request::new(&format!("X7F3A{number}"), "/mcp")).await;
        upstream.script(Reply::raw(http(599, &[("x7f3a", "x7f3a")], "x7f3a")));
        gateway.send(&Request::post(pay())).await;
    }
    let after = gateway.metrics().await;
    assert!(after.sum("onceward_requests_total", &[]) > 100, "the requests were counted");
    assert!(!after.text.to_lowercase().contains("x7f3a"), "{}", after.text);
    assert_eq!(series(after.text), before);
}

#[tokio::test]
async fn the_store_shows_what_it_holds_against_its_caps() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).default_limits().set("limits", "scope_entries", "3");
    let gateway = setup.start().await;
    let cap = |limit: &str| [("limit", limit.to_owned())];
    gateway.call("K1", pay()).await;
    upstream.script(Reply::silent().close());
    gateway.call("K2", pay()).await;
    let gate = Gate::new();
    upstream.script(Reply::silent().wait(&gate).close());
    let _waiting = gateway.begin(&Request::keyed("K3", pay())).await;
    upstream.hit(3).await;
    // A shared store is counted now and then.
    let metrics = eventually("one record of each state", || async {
        let metrics = gateway.metrics().await;
        let held = |state: &str| metrics.sum("onceward_store_records", &[("state", state)]);
        let counts = (held("completed"), held("tombstone"), held("in_flight"));
        (counts == (1, 1, 1)).then_some(metrics)
    })
    .await;
    let [(label, limit)] = cap("entries");
    assert_eq!(metrics.sum("onceward_store_capacity", &[(label, &limit)]), 256);
    assert_eq!(metrics.sum("onceward_store_capacity", &[("limit", "scope_entries")]), 3);
    assert_eq!(metrics.sum("onceward_store_evictions_total", &[]), 0);
    gateway.call("K4", pay()).await.assert_first();
    eventually("the eviction to be counted", || async {
        let metrics = gateway.metrics().await;
        (metrics.sum("onceward_store_evictions_total", &[]) == 1).then_some(())
    })
    .await;
    gate.open();
}

#[tokio::test]
async fn every_exchange_leaves_one_audit_line() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).policy(|policy| {
        policy.with(|document| {
            document["sessions"] = json!([crate::support::session("s1", "alice")]);
        })
    });
    let gateway = setup.start().await;
    let keyed = Request::keyed("K1", pay()).header("X-MCP-Agent-Session", "s1");
    gateway.send(&keyed).await.assert_first();
    let first = gateway.audit(1).await;
    let expected = [
        ("server", json!("payments")),
        ("namespace", json!("test")),
        ("human", json!("alice")),
        ("agent", json!("agent-a")),
        ("team", json!("team-a")),
        ("session", json!("s1")),
        ("rpc_method", json!("tools/call")),
        ("tool", json!("pay")),
        ("decision", json!("allow")),
        ("matched_grant", json!("grant-a")),
        ("status", json!(200)),
        ("idempotency", json!("first")),
    ];
    for (field, value) in expected {
        assert_eq!(first[field], value, "{field} in {first}");
    }
    assert!(first["time"].is_string() && first["latency_ms"].is_number(), "{first}");
    let hash = first["idempotency_key_hash"].as_str().expect("a hash").to_owned();
    assert!(hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");

    gateway.send(&keyed).await;
    let replay = gateway.audit(2).await;
    assert_eq!(
        (&replay["idempotency"], &replay["idempotency_key_hash"]),
        (&json!("replay"), &json!(hash))
    );

    gateway.send(&Request::post(pay())).await;
    let unkeyed = gateway.audit(3).await;
    assert_eq!(unkeyed["tool"], json!("pay"));
    assert_eq!(
        (&unkeyed["idempotency"], &unkeyed["idempotency_key_hash"]),
        (&Value::Null, &Value::Null)
    );

    let refusals = [
        (Request::post(call("unlisted", json!({}))), 403),
        (Request::post(pay()).bearer("wrong"), 401),
        (Request::post("{"), 400),
        (Request::keyed("not a key", pay()), 400),
    ];
    for (number, (request, status)) in refusals.iter().enumerate() {
        let answer = gateway.send(request).await;
        assert_eq!(answer.status, *status);
        let line = gateway.audit(4 + number).await;
        assert_eq!(line["status"], json!(status), "{line}");
        if *status == 401 || *status == 403 {
            assert_eq!(line["decision"], json!("deny"), "{line}");
            assert_eq!(line["reason"], json!(answer.reason()), "{line}");
        }
    }
    let listing = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    gateway.send(&Request::post(listing)).await;
    assert_eq!(gateway.audit(8).await["rpc_method"], json!("tools/list"));
    assert_eq!(gateway.stdout().lines().count(), 8);
}

#[tokio::test]
async fn a_caller_without_a_key_who_leaves_before_the_answer_is_audited_as_gone() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    upstream.script(Reply::silent().wait(&Gate::new()));
    let connection = gateway.begin(&Request::post(pay())).await;
    upstream.hit(1).await;
    connection.reset();
    let line = gateway.audit(1).await;
    assert_eq!(line["status"], json!(499));
    assert_eq!(line["reason"], json!("client_disconnected"));
    assert_eq!(line["decision"], json!("allow"));
    assert_eq!(line["tool"], json!("pay"));
}

#[tokio::test]
async fn a_call_whose_caller_has_left_is_audited_too() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let gate = Gate::new();
    upstream.script(Reply::silent().wait(&gate).send(http(200, &[], "ok")));
    let waiting = gateway.begin(&Request::keyed("K1", pay())).await;
    upstream.hit(1).await;
    drop(waiting);
    gate.open();
    let line = gateway.audit(1).await;
    assert_eq!((&line["tool"], &line["idempotency"]), (&json!("pay"), &json!("first")));
}

#[tokio::test]
async fn no_secret_no_raw_key_and_no_payload_is_ever_written_down() {
    let upstream = Upstream::start().await;
    let admin_token = "admin-token-secret";
    let setup = Setup::new(&upstream).set(
        "admin",
        "token_sha256",
        &format!("{:?}", sha256_hex(admin_token.as_bytes())),
    );
    let gateway = setup.start().await;
    let secrets = ["raw-key-7f3a", "payload-4111", "token-of-A", "reply-payload-99", admin_token];
    let reply = r#"{"jsonrpc":"2.0","id":1,"result":{"secret":"reply-payload-99"}}"#;
    let body = call("pay", json!({"card": "payload-4111"}));
    upstream.script(Reply::json(reply));
    for _ in 0..2 {
        gateway.call("raw-key-7f3a", body.clone()).await;
    }
    gateway.call("raw-key-7f3a", call("pay", json!({"card": "payload-4111", "n": 2}))).await;
    gateway.call("raw-key-7f3a raw-key-7f3a", body.clone()).await;
    gateway.call("raw-key-7f3a", format!("{body}payload-4111")).await;
    upstream.script(Reply::silent().close());
    gateway.call("raw-key-7f3a-2", body.clone()).await;
    upstream.script(Reply::json("reply-payload-99"));
    gateway.call("raw-key-7f3a-3", body).await;
    gateway.audit(7).await;
    let mut shown = format!("{}\n{}", gateway.stdout(), gateway.stderr());
    for path in ["/metrics", "/v1/status", "/healthz", "/readyz"] {
        let mut connection = Conn::open(gateway.admin).await;
        connection
            .send(format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {admin_token}\r\n\r\n"
            ))
            .await;
        let answer = connection.response().await.expect("an answer");
        assert_eq!(answer.status, 200, "{path}");
        shown += &answer.text();
    }
    for secret in secrets {
        assert!(!shown.contains(secret), "{secret} in {shown}");
        let hash = sha256_hex(secret.as_bytes());
        assert!(!shown.contains(&hash), "the hash of {secret} in {shown}");
    }
}

#[tokio::test]
async fn no_value_of_a_request_can_forge_a_line() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let forged = "pay\n{\"tool\":\"forged\"}\r\n\u{1b}[31m\u{2028}";
    gateway.send(&Request::post(call(forged, json!({})))).await;
    gateway.send(&Request::post(pay()).header("X-MCP-Agent-Session", "s\t{}")).await;
    let line = gateway.audit(1).await;
    assert_eq!(line["status"], json!(403));
    gateway.audit(2).await;
    assert_eq!(gateway.stdout().lines().count(), 2);
    assert!(!gateway.stdout().contains('\u{1b}') && !gateway.stderr().contains('\u{1b}'));
}

#[tokio::test]
async fn the_admin_listener_tells_how_things_are() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    assert_eq!(gateway.admin("/healthz").await.status, 200);
    eventually("readiness", || async {
        (gateway.admin("/readyz").await.status == 200).then_some(())
    })
    .await;
    let metrics = gateway.admin("/metrics").await;
    assert!(metrics.header("Content-Type").is_some_and(|kind| kind.starts_with("text/plain")));
    let status = gateway.status().await;
    assert_eq!(status["version"], json!(env!("CARGO_PKG_VERSION")));
    let revision = status["policy"]["revision"].as_str().expect("a revision");
    assert!(revision.starts_with("sha256:"), "{status}");
    assert_eq!(status["policy"]["last_error"], Value::Null);
    assert_eq!(status["store"]["kind"], json!(store_of_the_run()), "{status}");
    assert_eq!(status["config"]["store"]["kind"], json!(store_of_the_run()), "{status}");
    assert_eq!(gateway.admin("/no-such-page").await.status, 404);
    let at_mcp = gateway.send(&Request::new("GET", "/metrics")).await;
    assert_eq!(at_mcp.status, 404, "agents do not see the admin listener");
}

#[tokio::test]
async fn an_admin_token_is_asked_for_where_one_is_set() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).set(
        "admin",
        "token_sha256",
        &format!("{:?}", sha256_hex(b"let-me-in")),
    );
    let gateway = setup.start().await;
    for path in ["/metrics", "/v1/status"] {
        assert_eq!(gateway.admin(path).await.status, 401, "{path}");
        for (token, status) in [("wrong", 401), ("let-me-in", 200)] {
            let mut connection = Conn::open(gateway.admin).await;
            let head = format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
            );
            connection.send(head).await;
            assert_eq!(connection.response().await.expect("an answer").status, status);
        }
    }
    assert_eq!(gateway.admin("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_reload_shows_as_another_revision() {
    let upstream = Upstream::start().await;
    let policy = Policy::new(&upstream.url());
    let gateway = Setup::policies([policy.clone()]).start().await;
    let before = gateway.status().await["policy"]["revision"].clone();
    let changed = policy.with(|document| document["policy"]["policy_version"] = json!("2"));
    gateway.rewrite_policy(0, &changed.0.to_string());
    eventually("another revision", || async {
        (gateway.status().await["policy"]["revision"] != before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn before_the_first_valid_policy_nothing_is_served() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream)
        .policy(|policy| policy.with(|document| document["schema_version"] = json!("v0")));
    let gateway = setup.start().await;
    let not_ready = gateway.admin("/readyz").await;
    assert_eq!(not_ready.status, 503);
    assert_eq!(not_ready.json()["reasons"], json!(["policy_unavailable"]));
    for request in [Request::post(pay()), Request::keyed("K1", pay())] {
        let refused = gateway.send(&request).await;
        refused.assert_refused(503, "policy_unavailable");
        assert!(refused.header("Retry-After").is_some());
    }
    gateway.rewrite_policy(0, &Policy::new(&upstream.url()).0.to_string());
    eventually("readiness", || async {
        (gateway.admin("/readyz").await.status == 200).then_some(())
    })
    .await;
    gateway.call("K1", pay()).await.assert_first();
}
