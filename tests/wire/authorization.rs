//! Authorization, its reasons and their order (CONTRACT section 9).

use crate::support::{Gateway, Request, Setup, Upstream, call, grant, pay, session};
use serde_json::{Value, json};

const SESSION: &str = "X-MCP-Agent-Session";
const LISTING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// What alice's `pay` call meets under the default policy with a change.
async fn verdict(change: impl Fn(&mut Value)) -> (u16, String) {
    verdict_on(&Request::post(pay()), change).await
}

async fn verdict_on(request: &Request, change: impl Fn(&mut Value)) -> (u16, String) {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).policy(|policy| policy.with(&change));
    let gateway = setup.start().await;
    let answer = gateway.send(request).await;
    let passed = usize::from(answer.status == 200);
    assert_eq!(upstream.hits(), passed, "a denied call never goes upstream");
    (answer.status, answer.reason())
}

fn refused(status: u16, reason: &str) -> (u16, String) {
    (status, reason.to_owned())
}

fn passed() -> (u16, String) {
    (200, String::new())
}

#[tokio::test]
async fn a_caller_without_a_credential_is_asked_for_one() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    for request in [Request::post(pay()), Request::keyed("K1", pay()), Request::post(LISTING)] {
        let answer = gateway.send(&request.clone().without("Authorization")).await;
        answer.assert_refused(401, "missing_identity");
        assert!(answer.header("WWW-Authenticate").is_some_and(|line| line.starts_with("Bearer")));
        for credential in ["Bearer wrong", "Bearer ", "Basic dG9rZW4tb2YtQQ==", "token-of-A"] {
            let answer = gateway.send(&request.clone().set("Authorization", credential)).await;
            assert_eq!(answer.status, 401, "{credential}");
            assert!(answer.header("WWW-Authenticate").is_some());
        }
        let twice = request.clone().header("Authorization", "Bearer token-of-B");
        assert_eq!(gateway.send(&twice).await.status, 401, "two credentials are none");
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn what_is_no_tool_call_passes_once_authenticated() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).policy(|policy| {
        policy.with(|document| {
            document["grants"] = json!([]);
            document["session"]["required"] = json!(true);
        })
    });
    let gateway = setup.start().await;
    gateway.send(&Request::post(LISTING)).await.assert_first();
    assert_eq!(gateway.send(&Request::new("GET", "/mcp")).await.status, 200);
}

#[tokio::test]
async fn a_required_session_must_be_named_known_live_and_the_callers() {
    let with_sessions = |document: &mut Value| {
        document["session"]["required"] = json!(true);
        let mut revoked = session("revoked", "alice");
        revoked["revoked"] = json!(true);
        let mut expired = session("expired", "alice");
        expired["expires_at"] = json!("2020-01-01T00:00:00Z");
        let mut future = session("live", "alice");
        future["expires_at"] = json!("2999-01-01T00:00:00Z");
        document["sessions"] = json!([revoked, expired, future, session("bobs", "bob")]);
    };
    let cases = [
        (None, refused(401, "missing_session")),
        (Some("unheard-of"), refused(401, "session_not_found")),
        (Some("bobs"), refused(401, "session_not_found")),
        (Some("revoked"), refused(401, "session_revoked")),
        (Some("expired"), refused(401, "session_expired")),
        (Some("live"), passed()),
    ];
    for (name, expected) in cases {
        for request in [Request::post(pay()), Request::keyed("K1", pay())] {
            let request = name.into_iter().fold(request, |r, name| r.header(SESSION, name));
            assert_eq!(verdict_on(&request, with_sessions).await, expected, "{name:?}");
        }
    }
}

#[tokio::test]
async fn the_session_header_can_have_another_name() {
    let request = Request::post(pay()).header("X-Other-Session", "s1");
    let verdict = verdict_on(&request, |document| {
        document["session"] = json!({"required": true, "header_name": "X-Other-Session"});
        document["sessions"] = json!([session("s1", "alice")]);
    });
    assert_eq!(verdict.await, passed());
}

#[tokio::test]
async fn a_keyed_call_never_takes_a_bad_session_for_none() {
    for mode in ["allow-list", "observe"] {
        let change = |document: &mut Value| {
            document["policy"]["mode"] = json!(mode);
            let mut revoked = session("revoked", "alice");
            revoked["revoked"] = json!(true);
            document["sessions"] = json!([revoked, session("bobs", "bob")]);
        };
        for (name, reason) in [
            ("unheard-of", "session_not_found"),
            ("bobs", "session_not_found"),
            ("revoked", "session_revoked"),
        ] {
            let keyed = Request::keyed("K1", pay()).header(SESSION, name);
            assert_eq!(verdict_on(&keyed, change).await, refused(401, reason), "{mode} {name}");
            let unkeyed = Request::post(pay()).header(SESSION, name);
            assert_eq!(verdict_on(&unkeyed, change).await, passed(), "{mode} {name}");
        }
    }
}

#[tokio::test]
async fn observe_mode_allows_what_nothing_grants() {
    let verdict = verdict(|document| {
        document["policy"]["mode"] = json!("observe");
        document["session"]["required"] = json!(true);
        document["grants"] = json!([]);
        document["tools"] = json!([]);
    });
    assert_eq!(verdict.await, passed());
}

#[tokio::test]
async fn where_no_grant_names_the_caller_the_default_decides() {
    let nobodys: [fn(&mut Value); 3] = [
        |document| document["grants"] = json!([grant("b", "bob")]),
        |document| document["grants"][0]["disabled"] = json!(true),
        |document| document["grants"][0]["agent_id"] = json!("another-agent"),
    ];
    for change in nobodys {
        assert_eq!(verdict(change).await, refused(403, "no_matching_grant"));
        let allowed = verdict(|document| {
            change(document);
            document["policy"]["default_decision"] = json!("allow");
        });
        assert_eq!(allowed.await, passed());
    }
}

#[tokio::test]
async fn a_rule_that_denies_wins_over_the_default() {
    for default in ["deny", "allow"] {
        let verdict = verdict(|document| {
            document["policy"]["default_decision"] = json!(default);
            document["grants"][0]["tool_rules"] = json!([{"name": "pay", "decision": "deny"}]);
        });
        assert_eq!(verdict.await, refused(403, "tool_denied"));
    }
}

#[tokio::test]
async fn a_grant_with_rules_covers_the_tools_they_allow() {
    let rules = |tool: &'static str| {
        move |document: &mut Value| {
            document["grants"][0]["tool_rules"] = json!([{"name": tool, "decision": "allow"}]);
        }
    };
    assert_eq!(verdict(rules("pay")).await, passed());
    assert_eq!(verdict(rules("read")).await, refused(403, "tool_not_granted"));
    let allowed = verdict(|document| {
        rules("read")(document);
        document["policy"]["default_decision"] = json!("allow");
    });
    assert_eq!(allowed.await, passed());
}

#[tokio::test]
async fn a_tool_whose_side_effect_nobody_declared_is_denied() {
    let undeclared: [fn(&mut Value); 2] = [
        |document| document["tools"] = json!([]),
        |document| document["tools"][0] = json!({"name": "pay", "required_trust": "low"}),
    ];
    for change in undeclared {
        assert_eq!(verdict(change).await, refused(403, "tool_side_effect_unknown"));
    }
}

#[tokio::test]
async fn a_side_effect_must_be_among_those_granted() {
    let verdict = verdict(|document| {
        document["grants"][0]["allowed_side_effects"] = json!(["read", "destructive"]);
    });
    assert_eq!(verdict.await, refused(403, "side_effect_not_allowed"));
}

#[tokio::test]
async fn the_lower_trust_must_reach_the_higher_demand() {
    // grant, session, tool, rule
    let cases = [
        ("low", "high", "low", "low", true),
        ("low", "high", "medium", "low", false),
        ("high", "low", "medium", "low", false),
        ("high", "low", "low", "medium", false),
        ("medium", "high", "low", "high", false),
        ("medium", "medium", "medium", "low", true),
        ("high", "high", "high", "high", true),
        ("high", "medium", "high", "low", false),
    ];
    for case in cases {
        let (max, consented, tool, rule, allowed) = case;
        let request = Request::post(pay()).header(SESSION, "s1");
        let verdict = verdict_on(&request, |document| {
            document["grants"][0]["max_trust"] = json!(max);
            document["sessions"] = json!([session("s1", "alice")]);
            document["sessions"][0]["consented_trust"] = json!(consented);
            document["tools"][0]["required_trust"] = json!(tool);
            document["grants"][0]["tool_rules"] =
                json!([{"name": "pay", "decision": "allow", "required_trust": rule}]);
        });
        let expected = if allowed { passed() } else { refused(403, "trust_too_low") };
        assert_eq!(verdict.await, expected, "{case:?}");
    }
}

#[tokio::test]
async fn the_first_check_that_fails_names_the_reason() {
    let everything_wrong = |document: &mut Value| {
        document["session"]["required"] = json!(true);
        document["grants"] = json!([grant("b", "bob")]);
        document["tools"] = json!([]);
    };
    assert_eq!(verdict(everything_wrong).await, refused(401, "missing_session"));
    let denied_and_unknown = |document: &mut Value| {
        document["tools"] = json!([]);
        document["grants"][0]["tool_rules"] = json!([{"name": "pay", "decision": "deny"}]);
        document["grants"][0]["max_trust"] = json!("low");
    };
    assert_eq!(verdict(denied_and_unknown).await, refused(403, "tool_denied"));
    let unknown_and_low = |document: &mut Value| {
        document["tools"] = json!([{"name": "pay", "required_trust": "high"}]);
        document["grants"][0]["max_trust"] = json!("low");
    };
    assert_eq!(verdict(unknown_and_low).await, refused(403, "tool_side_effect_unknown"));
    let forbidden_and_low = |document: &mut Value| {
        document["tools"][0]["required_trust"] = json!("high");
        document["grants"][0]["max_trust"] = json!("low");
        document["grants"][0]["allowed_side_effects"] = json!(["read"]);
    };
    assert_eq!(verdict(forbidden_and_low).await, refused(403, "side_effect_not_allowed"));
}

#[tokio::test]
async fn a_static_principal_needs_no_credential() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).policy(|policy| {
        policy.with(|document| document["auth"] = json!({"mode": "static", "human_id": "alice"}))
    });
    let gateway = setup.start().await;
    let request = Request::keyed("K1", pay()).without("Authorization");
    let first = gateway.send(&request).await;
    first.assert_first();
    gateway.send(&request).await.assert_replays(&first);
}

#[tokio::test]
async fn delegated_and_absent_identities_are_authorized_as_what_they_are() {
    let delegated = |document: &mut Value| document["auth"] = json!({"mode": "header"});
    let plain = Request::post(pay()).without("Authorization");
    let named = plain.clone().header("X-MCP-Human-ID", "alice");
    assert_eq!(verdict_on(&named, delegated).await, passed());
    assert_eq!(verdict_on(&plain, delegated).await, refused(401, "missing_identity"));
    let none = |document: &mut Value| document["auth"] = json!({"mode": "none"});
    assert_eq!(verdict_on(&named, none).await, refused(401, "missing_identity"));
}

#[tokio::test]
async fn no_http_method_and_no_media_type_carries_a_call_past_the_policy() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    let denied = call("unlisted", json!({}));
    let repeated = denied.replace("unlisted", r#"pay","name":"unlisted"#);
    for method in ["PUT", "PATCH", "GET", "DELETE", "OPTIONS", "HEAD", "PROPFIND"] {
        for media_type in ["application/json", "text/plain", ""] {
            for body in [&denied, &repeated] {
                let request = Request::post(body.as_str()).with_method(method);
                let request = request.set("Content-Type", media_type);
                gateway.begin(&request).await.head().await.expect("an answer");
                assert_eq!(upstream.hits_with("unlisted"), 0, "{method} {media_type} {body}");
            }
        }
    }
}
