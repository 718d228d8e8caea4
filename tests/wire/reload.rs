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

/// What the sessions file is said to be.
async fn sessions(gateway: &Gateway) -> serde_json::Value {
    gateway.status().await["sessions"].clone()
}

fn bound(upstream: &Upstream) -> Policy {
    Policy::new(&upstream.url()).with(|document| document["session"]["required"] = json!(true))
}

#[tokio::test]
async fn a_sessions_file_is_written_in_place_or_by_rename() {
    let upstream = Upstream::start().await;
    let both = [session("s1", "alice"), session("s2", "bob")];
    let setup = Setup::policies([bound(&upstream)]).sessions_file(json!([]));
    let gateway = setup.start().await;
    let alices = Request::keyed("K1", pay()).header(SESSION, "s1");
    meets(&gateway, &alices, "session_not_found").await;
    gateway.rewrite_in_place("sessions.json", &json!(both).to_string());
    meets(&gateway, &alices, "").await.assert_first();
    gateway.rewrite("sessions.json", &json!({"sessions": &both[1..]}).to_string());
    meets(&gateway, &alices, "session_not_found").await;
    let bobs = Request::keyed("K1", pay()).bearer(TOKEN_B).header(SESSION, "s2");
    gateway.send(&bobs).await.assert_first();
}

#[tokio::test]
async fn a_bad_sessions_file_keeps_the_last_good_one_and_is_reported() {
    let upstream = Upstream::start().await;
    let live = json!({"sessions": [session("s1", "alice"), session("s2", "bob")]}).to_string();
    let setup = Setup::policies([bound(&upstream)])
        .sessions_file(json!({"sessions": [session("s1", "alice")]}));
    let gateway = setup.start().await;
    let request = Request::keyed("K1", pay()).header(SESSION, "s1");
    let first = meets(&gateway, &request, "").await;
    let broken = [
        live[..live.len() / 2].to_owned(),
        String::new(),
        live.replace("s2", "s1"),
        live.replace("\"alice\"", "\"alice\", \"surprise\": 1"),
        live.replace("\"alice\"", "\"alice\", \"revoked\": \"yes\""),
        live.replace("\"alice\"", "\"alice\", \"expires_at\": \"soon\""),
    ];
    for text in &broken {
        gateway.rewrite_in_place("sessions.json", text);
        eventually("the failed reload to be reported", || async {
            sessions(&gateway).await["last_error"].is_string().then_some(())
        })
        .await;
        gateway.send(&request).await.assert_replays(&first);
        gateway.rewrite_in_place("sessions.json", &live);
        eventually("the good file to be taken", || async {
            sessions(&gateway).await["last_error"].is_null().then_some(())
        })
        .await;
    }
    let failures = [("result", "failure")];
    let counted = gateway.metrics().await.sum("onceward_sessions_reloads_total", &failures);
    assert!(counted >= broken.len() as u64, "{counted}");
    assert!(gateway.stderr().contains("sessions file not loaded"), "{}", gateway.stderr());
    assert_eq!(upstream.hits(), 1);
}

/// No reader may take a half-written file for one in which nobody has a session.
#[tokio::test]
async fn a_sessions_file_that_is_being_written_ends_no_session() {
    let upstream = Upstream::start().await;
    let mut file = json!({"sessions": [session("s1", "alice")]});
    let text = file.to_string();
    let setup = Setup::policies([bound(&upstream)]).sessions_file(file.clone());
    let gateway = setup.set("sessions", "sync", "\"1ms\"").start().await;
    let request = Request::keyed("K1", pay()).header(SESSION, "s1");
    let first = meets(&gateway, &request, "").await;
    for written in 0..text.len() {
        gateway.rewrite_in_place("sessions.json", &text[..written]);
        gateway.send(&request).await.assert_replays(&first);
    }
    file["sessions"][0]["revoked"] = json!(true);
    gateway.rewrite_in_place("sessions.json", &file.to_string());
    assert_eq!(meets(&gateway, &request, "session_revoked").await.status, 401);
    assert_eq!(upstream.hits(), 1);
}

/// A session ends at its moment, not at the next change of the file.
#[tokio::test]
async fn a_session_expires_by_itself() {
    let upstream = Upstream::start().await;
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3);
    let mut ending = session("s1", "alice");
    ending["expires_at"] = json!(soon.to_string());
    let gateway = Setup::policies([bound(&upstream)]).sessions_file(json!([ending])).start().await;
    let request = Request::keyed("K1", pay()).header(SESSION, "s1");
    let loads = sessions(&gateway).await["reloads"].clone();
    assert_eq!(meets(&gateway, &request, "session_expired").await.status, 401);
    assert!(jiff::Timestamp::now() >= soon, "not before its end");
    assert_eq!(sessions(&gateway).await["reloads"], loads, "the file was read once");
}
