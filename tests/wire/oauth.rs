//! Access tokens of an OAuth issuer (CONTRACT section 9; MCP authorization 2025-11-25 and
//! 2026-07-28).

use crate::support::{
    Gateway, Issuer, KEY, Policy, RESOURCE, Request, Response, Setup, Signer, Upstream, eventually,
    grant, now_s, pay, unsigned,
};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64URL;
use serde_json::{Value, json};

const METADATA: &str = "/.well-known/oauth-protected-resource/mcp";

/// What every challenge says.
const WHERE: &str = "resource_metadata=\"https://gw.example/.well-known/oauth-protected-resource/tools/mcp\", \
                     scope=\"mcp:call\"";

/// A gateway that takes the issuer's tokens, with a change of its policy.
fn setup(upstream: &Upstream, issuer: &Issuer, change: impl Fn(&mut Value)) -> Setup {
    Setup::new(upstream).policy(|policy| {
        policy.with(|document| {
            document["auth"] = issuer.auth();
            change(document);
        })
    })
}

async fn start(upstream: &Upstream, issuer: &Issuer) -> Gateway {
    setup(upstream, issuer, |_| {}).start().await
}

fn challenge(response: &Response) -> &str {
    response.header("WWW-Authenticate").expect("a challenge")
}

#[tokio::test]
async fn a_caller_without_a_token_learns_where_to_get_one() {
    let (upstream, issuer) = (Upstream::start().await, Issuer::start().await);
    let gateway = start(&upstream, &issuer).await;
    let answer = gateway.send(&Request::post(pay()).without("Authorization")).await;
    answer.assert_refused(401, "missing_identity");
    assert_eq!(challenge(&answer), format!("Bearer {WHERE}"));
    let get = |path: &str| Request::new("GET", path).without("Authorization");
    // Below the path of the server, and below that of the URL that clients call.
    for path in [METADATA, "/.well-known/oauth-protected-resource/tools/mcp"] {
        let answer = gateway.send(&get(path)).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("Content-Type"), Some("application/json"));
        let expected = json!({
            "resource": RESOURCE, "resource_name": "payments",
            "authorization_servers": [issuer.url()], "bearer_methods_supported": ["header"],
            "scopes_supported": ["mcp:call"],
        });
        assert_eq!(answer.json(), expected);
    }
    let asking = get(METADATA).header("Expect", "100-continue");
    assert_eq!(gateway.send(&asking).await.status, 200);
    for request in [
        get("/.well-known/oauth-protected-resource"),
        get("/.well-known/oauth-protected-resource/other"),
        Request::post(pay()).to(METADATA),
    ] {
        gateway.send(&request).await.assert_refused(404, "unknown_path");
    }
    assert_eq!(gateway.audit(2).await["reason"], "resource_metadata");
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn a_server_of_another_mode_is_no_protected_resource() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    gateway.send(&Request::new("GET", METADATA)).await.assert_refused(404, "unknown_path");
}

#[tokio::test]
async fn each_bad_token_is_refused_with_its_reason() {
    let (upstream, issuer) = (Upstream::start().await, Issuer::start().await);
    let gateway = start(&upstream, &issuer).await;
    let good = issuer.claims(|_| {});
    let by_hand = |alg: &str, signature: &str| {
        format!("{}.{signature}", unsigned(&json!({"alg": alg, "kid": "k1"}), &good))
    };
    let hs256 = unsigned(&json!({"alg": "HS256", "kid": "k1"}), &good);
    let public_key = issuer.key.jwk().to_string();
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, public_key.as_bytes());
    let by_public_key = BASE64URL.encode(ring::hmac::sign(&secret, hs256.as_bytes()));
    let nowhere = issuer.key.with_header(&json!({"alg": "ES256", "kid": "nowhere"}), &good);
    let cases = [
        ("alg none", by_hand("none", ""), "token_algorithm_not_allowed"),
        ("HS256", by_hand("HS256", &by_public_key), "token_algorithm_not_allowed"),
        ("wrong audience", issuer.token(|c| c["aud"] = json!("x")), "token_audience_mismatch"),
        ("no audience", issuer.token(|c| c["aud"] = json!(null)), "token_audience_mismatch"),
        ("wrong issuer", issuer.token(|c| c["iss"] = json!("x")), "token_issuer_mismatch"),
        ("expired", issuer.token(|c| c["exp"] = json!(now_s() - 60)), "token_expired"),
        ("not yet valid", issuer.token(|c| c["nbf"] = json!(now_s() + 600)), "token_not_yet_valid"),
        ("a kid that points nowhere", nowhere, "token_key_unknown"),
        ("another's key", Signer::new("k1").token(&good), "token_signature_invalid"),
        (
            "duplicate claims",
            issuer.key.token(&good.replacen('{', r#"{"sub":"eve","#, 1)),
            "token_malformed",
        ),
        ("100 KB", "x".repeat(100 * 1024), "token_malformed"),
        ("no JWT", "opaque".to_owned(), "token_malformed"),
        ("nobody", issuer.token(|c| c["sub"] = json!(7)), "token_subject_unusable"),
        ("bound", issuer.token(|c| c["cnf"] = json!({"jkt": "x"})), "token_bound"),
    ];
    for (what, token, reason) in &cases {
        for request in [Request::post(pay()), Request::keyed("K1", pay())] {
            let answer = gateway.send(&request.bearer(token)).await;
            assert_eq!((answer.status, answer.reason().as_str()), (401, *reason), "{what}");
            let line = challenge(&answer);
            assert!(
                line.starts_with("Bearer error=\"invalid_token\", error_description=\""),
                "{line}"
            );
            assert!(line.ends_with(WHERE), "{line}");
            assert!(!answer.text().contains(token.as_str()));
        }
    }
    for number in 1..=2 * cases.len() {
        assert_eq!(gateway.audit(number).await["reason"], cases[(number - 1) / 2].2);
    }
    for (what, token, _) in &cases {
        let said = [gateway.stdout(), gateway.stderr()].concat();
        assert!(!said.contains(token.as_str()) || token == "opaque", "{what}");
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn a_bad_token_is_refused_before_a_body_is_sent() {
    let (upstream, issuer) = (Upstream::start().await, Issuer::start().await);
    let gateway = start(&upstream, &issuer).await;
    let waiting = |token: &str| Request::post(pay()).bearer(token).header("Expect", "100-continue");
    let mut refused = gateway.connect().await;
    refused.send(waiting(&issuer.token(|c| c["exp"] = json!(1))).head_bytes()).await;
    let answer = refused.response().await.expect("an answer");
    assert!(answer.interim.is_empty());
    answer.assert_refused(401, "token_expired");
    // The keys are fetched meanwhile.
    let good = gateway.send(&waiting(&issuer.token(|_| {}))).await;
    assert_eq!((good.status, good.interim.as_slice()), (200, &[100][..]));
}

#[tokio::test]
async fn a_token_in_the_query_is_refused_and_goes_nowhere() {
    let (upstream, issuer) = (Upstream::start().await, Issuer::start().await);
    for mode in ["allow-list", "observe"] {
        let setup = setup(&upstream, &issuer, |document| document["policy"]["mode"] = json!(mode));
        let gateway = setup.start().await;
        let token = issuer.token(|_| {});
        let target = format!("/mcp?a=b&access%5Ftoken={token}");
        for request in [
            Request::post(pay()).without("Authorization"),
            Request::post(pay()).bearer(&token),
            Request::new("GET", "/mcp").bearer(&token),
        ] {
            let answer = gateway.send(&request.to(&target)).await;
            answer.assert_refused(400, "token_in_query");
            assert_eq!(challenge(&answer), format!("Bearer error=\"invalid_request\", {WHERE}"));
        }
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn a_refreshed_token_of_the_same_subject_meets_its_own_records() {
    let (upstream, issuer) = (Upstream::start().await, Issuer::start().await);
    let policy = Policy::new(&upstream.url()).with(|document| document["auth"] = issuer.auth());
    let gateway = Setup::policies([policy.clone()]).start().await;
    let with = |token: &str| Request::keyed("K1", pay()).bearer(token);
    let first_token = issuer.token(|_| {});
    let first = gateway.send(&with(&first_token)).await;
    first.assert_first();
    let next = issuer.token(|claims| {
        claims["jti"] = json!("t-2");
        claims["exp"] = json!(now_s() + 900);
        claims["scope"] = json!("mcp:call more");
    });
    assert_ne!(next, first_token);
    gateway.send(&with(&next)).await.assert_replays(&first);
    let rotated = Signer::new("k2");
    issuer.publish(&[&rotated]);
    // Where the keys were fetched a moment ago, those of now are looked for a moment later.
    let by_rotated = with(&rotated.token(&issuer.claims(|_| {})));
    let replay = eventually("the new key to be known", || async {
        let answer = gateway.send(&by_rotated).await;
        (answer.reason() != "token_key_unknown").then_some(answer)
    });
    replay.await.assert_replays(&first);
    let old_key = gateway.send(&with(&next)).await;
    old_key.assert_refused(401, "token_key_unknown");

    // Whoever else has the key has another slot.
    for change in [json!({"sub": "bob"}), json!({"client_id": "other"}), json!({"team_id": "t"})] {
        let token = rotated.token(&issuer.claims(|claims| {
            for (name, value) in change.as_object().expect("an object") {
                claims[name] = value.clone();
            }
        }));
        gateway.send(&with(&token)).await.assert_first();
    }

    let taken = policy.clone().with(|document| document["grants"] = json!([grant("b", "bob")]));
    gateway.rewrite_policy(0, &taken.0.to_string());
    let denied = eventually("the right to be taken", || async {
        let answer = gateway.send(&by_rotated).await;
        (answer.status != 200).then_some(answer)
    })
    .await;
    denied.assert_refused(403, "no_matching_grant");
    assert_eq!(challenge(&denied), format!("Bearer error=\"insufficient_scope\", {WHERE}"));
    let expired = rotated.token(&issuer.claims(|c| c["exp"] = json!(now_s() - 600)));
    gateway.send(&with(&expired)).await.assert_refused(401, "token_expired");
    gateway.rewrite_policy(0, &policy.0.to_string());
    let again = eventually("the right to be given back", || async {
        let answer = gateway.send(&by_rotated).await;
        (answer.status == 200).then_some(answer)
    });
    again.await.assert_replays(&first);
    assert_eq!(upstream.hits(), 4);
}

#[tokio::test]
async fn the_callers_token_never_goes_upstream_and_the_gateways_own_does() {
    let (upstream, issuer) = (Upstream::start().await, Issuer::start().await);
    let token = issuer.token(|claims| claims["team_id"] = json!("ops"));
    let request = |key: Option<&str>| {
        let request = Request::post(pay())
            .bearer(&token)
            .header("X-MCP-Human-ID", "mallory")
            .header("X-MCP-Team-ID", "mallory")
            .header("X-Api-Key", "mallory");
        key.into_iter().fold(request, |request, key| request.header(KEY, key))
    };
    for (session, header, value) in [
        (json!({}), "authorization", None),
        (
            json!({"upstream_token": "env:UPSTREAM_TOKEN"}),
            "authorization",
            Some("Bearer gateways-own"),
        ),
        (
            json!({
                "upstream_token": "env:UPSTREAM_TOKEN", "upstream_token_header": "X-Api-Key",
            }),
            "x-api-key",
            Some("gateways-own"),
        ),
    ] {
        let setup = setup(&upstream, &issuer, |document| document["session"] = session.clone());
        let gateway = setup.env("UPSTREAM_TOKEN", "gateways-own").start().await;
        for key in [None, Some("K1")] {
            gateway.send(&request(key)).await.assert_first();
            let received = upstream.last();
            assert_eq!(received.header(header), value, "{session}");
            assert_eq!(received.header("x-mcp-human-id"), Some("alice"));
            assert_eq!(received.header("x-mcp-agent-id"), Some("agent-a"));
            assert_eq!(received.header("x-mcp-team-id"), Some("ops"));
            let sent = format!("{received:?}");
            assert!(!sent.contains(&token), "{sent}");
        }
        let said =
            [gateway.stdout(), gateway.stderr(), gateway.status().await.to_string()].concat();
        assert!(!said.contains("gateways-own") && !said.contains(&token), "{said}");
    }
}

#[tokio::test]
async fn a_server_of_any_mode_can_have_a_credential_of_its_own() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream).policy(|policy| {
        policy.with(|document| {
            document["auth"] = json!({"mode": "none"});
            document["policy"]["mode"] = json!("observe");
            document["session"]["upstream_token"] = json!("env:UPSTREAM_TOKEN");
        })
    });
    let gateway = setup.env("UPSTREAM_TOKEN", "gateways-own").start().await;
    assert_eq!(gateway.send(&Request::post(pay()).bearer("the-clients")).await.status, 200);
    assert_eq!(upstream.last().header("authorization"), Some("Bearer gateways-own"));
}

#[tokio::test]
async fn in_observe_mode_a_bad_token_is_nobodys_and_still_goes_nowhere() {
    let (upstream, issuer) = (Upstream::start().await, Issuer::start().await);
    let setup = setup(&upstream, &issuer, |document| document["policy"]["mode"] = json!("observe"));
    let gateway = setup.start().await;
    let expired = issuer.token(|claims| claims["exp"] = json!(1));
    let answer = gateway.send(&Request::post(pay()).bearer(&expired)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(upstream.last().header("authorization"), None);
    assert_eq!(upstream.last().header("x-mcp-human-id"), None);
    let keyed = gateway.send(&Request::keyed("K1", pay()).bearer(&expired)).await;
    keyed.assert_refused(400, "idempotency_requires_verified_identity");
    gateway.send(&Request::keyed("K1", pay()).bearer(&issuer.token(|_| {}))).await.assert_first();
}

#[tokio::test]
async fn a_token_without_the_scope_is_asked_for_it() {
    let (upstream, issuer) = (Upstream::start().await, Issuer::start().await);
    let gateway = start(&upstream, &issuer).await;
    for scope in [json!("other"), json!(null), json!("mcp:calls")] {
        let token = issuer.token(|claims| claims["scope"] = scope.clone());
        let answer = gateway.send(&Request::keyed("K1", pay()).bearer(&token)).await;
        answer.assert_refused(403, "insufficient_scope");
        assert_eq!(challenge(&answer), format!("Bearer error=\"insufficient_scope\", {WHERE}"));
    }
    assert_eq!(upstream.hits(), 0);
}

#[tokio::test]
async fn while_the_issuer_is_down_known_keys_go_on_and_nobody_else_is_let_in() {
    let (upstream, issuer) = (Upstream::start().await, Issuer::start().await);
    issuer.down(true);
    let gateway = start(&upstream, &issuer).await;
    let good = Request::keyed("K1", pay()).bearer(&issuer.token(|_| {}));
    let answer = gateway.send(&good).await;
    answer.assert_refused(503, "issuer_unavailable");
    assert_eq!(answer.header("Retry-After"), Some("5"));
    assert_eq!(answer.json()["error"]["data"]["advice"], "retry_same_key");
    assert_eq!(upstream.hits(), 0);

    issuer.down(false);
    let first = eventually("the issuer to be asked again", || async {
        let answer = gateway.send(&good).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    issuer.down(true);
    let refreshed = issuer.token(|claims| claims["jti"] = json!("t-2"));
    gateway.send(&Request::keyed("K1", pay()).bearer(&refreshed)).await.assert_replays(&first);
    let unknown = Request::post(pay()).bearer(&Signer::new("k9").token(&issuer.claims(|_| {})));
    let answer = eventually("the issuer to be found down", || async {
        let answer = gateway.send(&unknown).await;
        (answer.reason() != "token_key_unknown").then_some(answer)
    });
    answer.await.assert_refused(503, "issuer_unavailable");
    gateway.send(&good).await.assert_replays(&first);
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn an_opaque_token_is_what_its_issuer_says() {
    let (upstream, issuer) = (Upstream::start().await, Issuer::start().await);
    let setup = setup(&upstream, &issuer, |document| {
        document["auth"]["introspection"] = json!({
            "client_id": "gateway", "client_secret": "env:CLIENT_SECRET", "cache": "1ms",
        });
    });
    let gateway = setup.env("CLIENT_SECRET", "s3cr3t").start().await;
    let with = |token: &str| Request::keyed("K1", pay()).bearer(token);
    let alice = json!({"active": true, "aud": RESOURCE, "sub": "alice", "client_id": "agent-a",
                       "scope": "mcp:call", "exp": now_s() + 600});
    issuer.knows("opaque-1", alice.clone());
    let first = gateway.send(&with("opaque-1")).await;
    first.assert_first();
    issuer.knows("opaque-2", alice.clone());
    gateway.send(&with("opaque-2")).await.assert_replays(&first);
    gateway.send(&with(&issuer.token(|_| {}))).await.assert_replays(&first);
    gateway.send(&with("unheard-of")).await.assert_refused(401, "token_inactive");
    issuer.knows("opaque-1", json!({"active": false}));
    let revoked = eventually("the token to be revoked", || async {
        let answer = gateway.send(&with("opaque-1")).await;
        (answer.status != 200).then_some(answer)
    });
    revoked.await.assert_refused(401, "token_inactive");
    let mut foreign = alice;
    foreign["aud"] = json!("https://other.example/mcp");
    issuer.knows("opaque-3", foreign);
    gateway.send(&with("opaque-3")).await.assert_refused(401, "token_audience_mismatch");
    issuer.down(true);
    gateway.send(&with("opaque-4")).await.assert_refused(503, "issuer_unavailable");
    assert_eq!(upstream.hits(), 1);
    let said = [gateway.stdout(), gateway.stderr(), gateway.status().await.to_string()].concat();
    for secret in ["s3cr3t", "opaque-1", "unheard-of"] {
        assert!(!said.contains(secret), "{said}");
    }
}

#[tokio::test]
async fn the_log_says_why_an_opaque_token_cannot_be_asked_about() {
    let (upstream, issuer) = (Upstream::start().await, Issuer::start().await);
    let asked = |endpoint: Option<String>| {
        let credential = json!({"client_id": "gateway", "client_secret": "env:CLIENT_SECRET"});
        let setup = setup(&upstream, &issuer, |document| {
            document["auth"]["introspection"] = credential.clone();
            document["auth"]["introspection"]["endpoint"] = json!(endpoint);
        });
        setup.env("CLIENT_SECRET", "s3cr3t")
    };
    issuer.knows("opaque", json!(["active"]));
    let endpoint = format!("{}/introspect?key=of-the-endpoint", issuer.url());
    for (endpoint, without, why) in [
        (Some(endpoint), false, "is no JSON object"),
        (None, true, "names no introspection endpoint"),
    ] {
        issuer.has_no_introspection(without);
        let gateway = asked(endpoint).start().await;
        let answer = gateway.send(&Request::post(pay()).bearer("opaque")).await;
        answer.assert_refused(503, "issuer_unavailable");
        eventually("the log to say so", || async { gateway.stderr().contains(why).then_some(()) })
            .await;
        for secret in ["s3cr3t", "opaque ", "of-the-endpoint"] {
            assert!(!gateway.stderr().contains(secret), "{}", gateway.stderr());
        }
    }
}

#[tokio::test]
async fn a_reload_that_names_callers_differently_is_refused() {
    let (upstream, issuer) = (Upstream::start().await, Issuer::start().await);
    let policy = Policy::new(&upstream.url()).with(|document| document["auth"] = issuer.auth());
    let gateway = Setup::policies([policy.clone()]).start().await;
    let request = Request::keyed("K1", pay()).bearer(&issuer.token(|_| {}));
    let first = gateway.send(&request).await;
    first.assert_first();
    for (name, value, what) in [
        ("claims", json!({"agent": ["azp"]}), "auth.claims"),
        ("issuer_url", json!("https://other.example"), "auth.issuer_url"),
        ("mode", json!("header"), "mode: oauth"),
    ] {
        let changed = policy.clone().with(|document| document["auth"][name] = value);
        gateway.rewrite_policy(0, &changed.0.to_string());
        eventually("the reload to be refused", || async {
            let error = gateway.status().await["policy"]["last_error"].clone();
            error.as_str().is_some_and(|error| error.contains(what)).then_some(())
        })
        .await;
        gateway.send(&request).await.assert_replays(&first);
    }
}
