//! Policies and sessions that change while the gateway runs (CONTRACT sections 3 and 9).

use crate::support::{
    Gate, Gateway, Policy, Reply, Request, Response, Setup, TOKEN_B, Upstream, call, eventually,
    grant, json_reply, pay, result_for, session,
};
use serde_json::json;

const SESSION: &str = "X-MCP-Agent-Session";

/// Waits until `request` meets this reason, or passes where it is empty.
async fn meets(gateway: &Gateway, request: &Request, reason: &str) -> Response {
    eventually(&format!("the call to meet {reason:?}"), || async {
        let answer = gateway.send(request).await;
        (answer.reason() == reason && (answer.status == 200) == reason.is_empty()).then_some(answer)
    })
    .await
}

#[tokio::test]
async fn a_right_that_is_taken_denies_the_replay_and_gives_it_back_with_the_right() {
    let upstream = Upstream::start().await;
    let policy = Policy::new(&upstream.url());
    let gateway = Setup::policies([policy.clone()]).start().await;
    let request = Request::keyed("K1", pay());
    let first = gateway.send(&request).await;
    first.assert_first();

    let taken = policy.clone().with(|document| document["grants"] = json!([grant("b", "bob")]));
    gateway.rewrite_policy(0, &taken.0.to_string());
    let denied = meets(&gateway, &request, "no_matching_grant").await;
    assert_eq!(denied.status, 403);
    assert!(!denied.text().contains("run 1"), "the stored body is not shown");
    gateway.send(&Request::post(pay())).await.assert_refused(403, "no_matching_grant");
    assert_eq!(gateway.send(&request.clone().bearer("no-such-token")).await.status, 401);

    gateway.rewrite_policy(0, &policy.0.to_string());
    meets(&gateway, &request, "").await.assert_replays(&first);
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn the_sessions_file_wins_and_revokes_at_once() {
    let upstream = Upstream::start().await;
    let policy = Policy::new(&upstream.url()).with(|document| {
        document["session"]["required"] = json!(true);
        let mut revoked = session("s1", "alice");
        revoked["revoked"] = json!(true);
        document["sessions"] = json!([revoked]);
    });
    let live = json!({"sessions": [session("s1", "alice"), session("s2", "bob")]});
    let setup = Setup::policies([policy]).sessions_file(live.clone());
    let gateway = setup.start().await;
    let request = Request::keyed("K1", pay()).header(SESSION, "s1");
    let first = meets(&gateway, &request, "").await;
    let bobs = Request::keyed("K1", pay()).bearer(TOKEN_B).header(SESSION, "s2");
    meets(&gateway, &bobs, "").await.assert_first();

    let mut ended = live.clone();
    ended["sessions"][0]["revoked"] = json!(true);
    gateway.rewrite_sessions(&ended.to_string());
    assert_eq!(meets(&gateway, &request, "session_revoked").await.status, 401);

    gateway.rewrite_sessions("{ not a sessions file");
    gateway.rewrite_sessions(&live.to_string());
    meets(&gateway, &request, "").await.assert_replays(&first);
    assert_eq!(upstream.hits(), 2);
}

#[tokio::test]
async fn a_reload_that_fails_keeps_the_last_good_policy_and_is_reported() {
    let upstream = Upstream::start().await;
    let policy = Policy::new(&upstream.url());
    let gateway = Setup::policies([policy.clone()]).start().await;
    let request = Request::keyed("K1", pay());
    let first = gateway.send(&request).await;
    let bad = [
        "{ this is no policy".to_owned(),
        policy.clone().with(|document| document["surprise"] = json!(1)).0.to_string(),
        policy
            .clone()
            .with(|document| document["tools"][0]["approval"] = json!("required"))
            .0
            .to_string(),
        policy.clone().idempotency("fingerprint", json!("call")).0.to_string(),
        policy.clone().idempotency("format", json!("idt")).0.to_string(),
    ];
    for text in bad {
        gateway.rewrite_policy(0, &text);
        eventually("the failed reload to be reported", || async {
            gateway.status().await["policy"]["last_error"].is_string().then_some(())
        })
        .await;
        gateway.send(&request).await.assert_replays(&first);
        assert_eq!(gateway.admin("/readyz").await.status, 200);
        gateway.rewrite_policy(0, &policy.0.to_string());
        eventually("the good policy to be taken again", || async {
            gateway.status().await["policy"]["last_error"].is_null().then_some(())
        })
        .await;
    }
    let granted = policy.with(|document| document["grants"] = json!([grant("b", "bob")]));
    gateway.rewrite_policy(0, &granted.0.to_string());
    meets(&gateway, &request, "no_matching_grant").await;
    assert_eq!(upstream.hits(), 1);
    let failures = [("result", "failure")];
    assert!(gateway.metrics().await.sum("onceward_policy_reloads_total", &failures) >= 5);
}

#[tokio::test]
async fn before_the_first_valid_policy_nothing_is_called() {
    let upstream = Upstream::start().await;
    let policy = Policy::new(&upstream.url());
    let broken = policy.clone().with(|document| document["surprise"] = json!(true));
    let gateway = Setup::policies([broken]).start().await;
    assert_eq!(gateway.admin("/readyz").await.status, 503);
    assert_eq!(gateway.admin("/healthz").await.status, 200);
    for request in [Request::keyed("K1", pay()), Request::post(pay())] {
        gateway.send(&request).await.assert_refused(503, "policy_unavailable");
    }
    assert_eq!(upstream.hits(), 0);
    gateway.rewrite_policy(0, &policy.0.to_string());
    meets(&gateway, &Request::keyed("K1", pay()), "").await.assert_first();
    assert_eq!(gateway.admin("/readyz").await.status, 200);
}

#[tokio::test]
async fn a_call_settles_the_slot_it_claimed_whatever_is_reloaded_meanwhile() {
    let upstream = Upstream::start().await;
    let policy = Policy::new(&upstream.url());
    let gateway = Setup::policies([policy.clone()]).start().await;
    let gate = Gate::new();
    let reply = json_reply(200, &result_for(pay().as_bytes(), "x"));
    upstream.script(Reply::silent().wait(&gate).send(reply));
    let request = Request::keyed("K1", pay());
    let mut waiting = gateway.begin(&request).await;
    upstream.hit(1).await;
    let changed = policy.with(|document| {
        document["tools"].as_array_mut().expect("tools").push(json!({
            "name": "fresh", "side_effect": "read", "required_trust": "low",
        }));
    });
    gateway.rewrite_policy(0, &changed.0.to_string());
    let fresh = Request::post(call("fresh", json!({})));
    meets(&gateway, &fresh, "").await;
    gate.open();
    let first = waiting.response().await.expect("a reply");
    gateway.send(&request).await.assert_replays(&first);
}
