//! Mode `mtls` (CONTRACT section 9): the certificate names the session, its binding the caller.

use crate::support::{
    Authority, Gateway, Issued, Policy, Request, Setup, TlsClient, Upstream, eventually, grant,
    key_hash, pay, session,
};
use serde_json::{Value, json};

const ALICE: &str = "spiffe://example.org/ns/test/session/s-alice";
const BOB: &str = "spiffe://example.org/ns/test/session/s-bob";
const INGRESS: &str = "spiffe://example.org/ns/edge/sa/proxy";
const AUTHORITY: &str = "an authority";
const HEADER: &str = "X-MCP-Verified-SPIFFE-ID";

/// A server of mode `mtls` that knows a session of alice's and one of bob's.
fn policy(upstream: &Upstream, ingress: Option<&str>) -> Policy {
    Policy::new(&upstream.url()).with(|document| {
        document["auth"] = json!({"mode": "mtls", "trust_domain": "example.org"});
        if let Some(id) = ingress {
            document["auth"]["ingress_spiffe_id"] = json!(id);
        }
        document["sessions"] = json!([
            {"name": "s-alice", "human_id": "alice", "agent_id": "agent-a", "consented_trust": "high"},
            session("s-bob", "bob"),
        ]);
    })
}

/// The gateway, its authority, and the server that it protects.
struct World {
    upstream: Upstream,
    authority: Authority,
    gateway: Gateway,
}

impl World {
    async fn new(ingress: Option<&str>) -> Self {
        let upstream = Upstream::start().await;
        let policy = policy(&upstream, ingress);
        Self::with(upstream, Setup::policies([policy])).await
    }

    async fn with(upstream: Upstream, setup: Setup) -> Self {
        let authority = Authority::named(AUTHORITY);
        let gateway = setup.tls(&authority.server(), Some(&authority)).start().await;
        Self { upstream, authority, gateway }
    }

    fn showing(&self, certificate: &Issued) -> TlsClient {
        TlsClient::showing(&self.authority, certificate)
    }

    fn named(&self, uris: &[&str]) -> TlsClient {
        self.showing(&self.authority.client(uris))
    }
}

/// A request without the bearer token that others carry.
fn request(key: Option<&str>) -> Request {
    let request = key.map_or_else(|| Request::post(pay()), |key| Request::keyed(key, pay()));
    request.without("Authorization")
}

#[tokio::test]
async fn a_certificate_is_its_sessions_caller_and_keys_are_scoped_to_both() {
    let world = World::new(None).await;
    let (alice, bob) = (world.named(&[ALICE]), world.named(&[BOB]));
    let at = world.gateway.mcp;
    let first = alice.send(at, &request(Some("K1"))).await;
    first.assert_first();
    // A renewed certificate of the same session is the same caller.
    world.named(&[ALICE]).send(at, &request(Some("K1"))).await.assert_replays(&first);
    bob.send(at, &request(Some("K1"))).await.assert_first();
    assert_eq!(world.upstream.hits(), 2);
    let line = world.gateway.audit(1).await;
    assert_eq!(line["human"], "alice");
    assert_eq!((&line["agent"], &line["session"]), (&json!("agent-a"), &json!("s-alice")));
    let hash = key_hash(["alice", "agent-a", "", "s-alice", "uid-payments", "K1", ""]);
    assert_eq!(line["idempotency_key_hash"], hash);
}

#[tokio::test]
async fn curl_with_a_session_certificate_calls() {
    let world = World::new(None).await;
    let call = pay();
    let arguments = ["--header", "Content-Type: application/json", "--data", &call];
    let output = world.named(&[ALICE]).curl(world.gateway.mcp, &arguments).await;
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("HTTP/1.1 200"), "{output:?}");
}

/// The client's own headers neither name anybody nor reach the server.
#[tokio::test]
async fn governance_headers_of_the_client_are_never_consulted() {
    let world = World::new(None).await;
    let forged = request(Some("K1"))
        .header("X-MCP-Human-ID", "mallory")
        .header("X-MCP-Team-ID", "root")
        .header("X-MCP-Agent-Session", "s-bob")
        .header("Authorization", "Bearer anything");
    let answer = world.named(&[ALICE]).send(world.gateway.mcp, &forged).await;
    answer.assert_first();
    let sent = world.upstream.last();
    assert_eq!(sent.lines("x-mcp-human-id"), ["alice"]);
    assert_eq!(sent.lines("x-mcp-agent-id"), ["agent-a"]);
    assert_eq!(sent.lines("x-mcp-agent-session"), ["s-alice"]);
    for gone in ["x-mcp-team-id", "authorization", HEADER] {
        assert_eq!(sent.lines(gone), Vec::<&str>::new(), "{gone}");
    }
    let plain = request(Some("K1"));
    world.named(&[ALICE]).send(world.gateway.mcp, &plain).await.assert_replays(&answer);
}

#[tokio::test]
async fn without_a_certificate_nobody_calls() {
    let world = World::new(None).await;
    let nobody = TlsClient::new(&world.authority);
    for key in [None, Some("K1")] {
        let answer = nobody.send(world.gateway.mcp, &request(key)).await;
        answer.assert_refused(401, "missing_client_certificate");
        assert_eq!(answer.header("WWW-Authenticate"), Some("ClientCertificate"));
        let bearer = Request::post(pay());
        let answer = nobody.send(world.gateway.mcp, &bearer).await;
        answer.assert_refused(401, "missing_client_certificate");
    }
    let expecting = request(Some("K1")).header("Expect", "100-continue");
    let answer = nobody.send(world.gateway.mcp, &expecting).await;
    answer.assert_refused(401, "missing_client_certificate");
    assert_eq!((answer.interim, world.upstream.hits()), (vec![], 0));
}

#[tokio::test]
async fn a_certificate_that_names_no_session_of_the_domain_is_refused() {
    let world = World::new(None).await;
    let cases: [&[&str]; 9] = [
        &[],
        &[ALICE, BOB],
        &[ALICE, ALICE],
        &[ALICE, "https://client.test/"],
        &["https://client.test/"],
        &["spiffe://example.com/ns/test/session/s-alice"],
        &["spiffe://example.org/ns/test/sa/s-alice"],
        &["spiffe://example.org/ns/test/session/s-alice/x"],
        &["spiffe://example.org/ns/test/session/s%2Dalice"],
    ];
    for uris in cases {
        let client = world.named(uris);
        for key in [None, Some("K1")] {
            let answer = client.send(world.gateway.mcp, &request(key)).await;
            answer.assert_refused(401, "invalid_spiffe_identity");
        }
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn a_certificate_of_an_unknown_session_or_namespace_is_refused() {
    let world = World::new(None).await;
    for id in [
        "spiffe://example.org/ns/test/session/s-none",
        "spiffe://example.org/ns/other/session/s-alice",
    ] {
        let answer = world.named(&[id]).send(world.gateway.mcp, &request(Some("K1"))).await;
        answer.assert_refused(401, "session_not_found");
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn what_the_authority_does_not_vouch_for_gets_no_connection() {
    let world = World::new(None).await;
    let expired = world.authority.client_with(&[ALICE], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let early = world.authority.client_with(&[ALICE], |params| {
        params.not_before = rcgen::date_time_ymd(3020, 1, 1);
        params.not_after = rcgen::date_time_ymd(3021, 1, 1);
    });
    let foreign = Authority::new().client(&[ALICE]);
    let impostor = Authority::named(AUTHORITY).client(&[ALICE]);
    let call = request(Some("K1")).set("Connection", "close").bytes();
    for (certificate, alert) in [
        (foreign, "unknown ca"),
        (impostor, "decrypt error"),
        (expired, "certificate expired"),
        (early, "certificate expired"),
    ] {
        let client = world.showing(&certificate);
        assert!(client.try_send(world.gateway.mcp, &request(Some("K1"))).await.is_none());
        let output = client.s_client(world.gateway.mcp, &[], &call).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&format!("alert {alert}")), "{alert}: {said}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    assert_eq!(world.upstream.hits(), 0);
    world.named(&[ALICE]).send(world.gateway.mcp, &request(None)).await.assert_first();
}

#[tokio::test]
async fn the_pinned_ingress_names_callers_in_its_header() {
    let world = World::new(Some(INGRESS)).await;
    let (at, ingress) = (world.gateway.mcp, world.named(&[INGRESS]));
    let alice = request(Some("K1")).header(HEADER, ALICE);
    let first = ingress.send(at, &alice).await;
    first.assert_first();
    let sent = world.upstream.last();
    assert_eq!(sent.lines("x-mcp-human-id"), ["alice"]);
    assert_eq!(sent.lines(HEADER), Vec::<&str>::new());
    // The same caller, whichever way she comes.
    world.named(&[ALICE]).send(at, &request(Some("K1"))).await.assert_replays(&first);
    ingress.send(at, &request(Some("K1")).header(HEADER, BOB)).await.assert_first();
    for (wrong, reason) in [
        (request(Some("K1")), "missing_verified_identity"),
        (request(Some("K1")).header(HEADER, ""), "missing_verified_identity"),
        (alice.clone().header(HEADER, ALICE), "invalid_spiffe_identity"),
        (alice.clone().set(HEADER, INGRESS), "invalid_spiffe_identity"),
        (alice.clone().set(HEADER, &format!("{ALICE},{BOB}")), "invalid_spiffe_identity"),
        (alice.set(HEADER, &ALICE.replace(".org", ".com")), "invalid_spiffe_identity"),
    ] {
        ingress.send(at, &wrong).await.assert_refused(401, reason);
    }
    assert_eq!(world.upstream.hits(), 2);
}

#[tokio::test]
async fn the_header_of_anybody_else_is_refused() {
    for pinned in [None, Some(INGRESS)] {
        let world = World::new(pinned).await;
        let forged = request(Some("K1")).header(HEADER, BOB);
        for client in [
            world.named(&[ALICE]),
            world.named(&["spiffe://example.org/ns/edge/sa/other"]),
            world.named(&[INGRESS, "spiffe://example.org/x"]),
            world.named(&[]),
        ] {
            let answer = client.send(world.gateway.mcp, &forged).await;
            answer.assert_refused(401, "untrusted_proxy");
        }
        let nobody = TlsClient::new(&world.authority);
        let answer = nobody.send(world.gateway.mcp, &forged).await;
        answer.assert_refused(401, "missing_client_certificate");
        assert_eq!(world.upstream.hits(), 0);
    }
}

#[tokio::test]
async fn the_ingress_header_can_have_another_name() {
    let upstream = Upstream::start().await;
    let policy = policy(&upstream, Some(INGRESS))
        .with(|document| document["auth"]["spiffe_header"] = json!("X-Caller"));
    let world = World::with(upstream, Setup::policies([policy])).await;
    let ingress = world.named(&[INGRESS]);
    let alice = request(Some("K1")).header("X-Caller", ALICE);
    ingress.send(world.gateway.mcp, &alice).await.assert_first();
    let other = request(Some("K1")).header(HEADER, ALICE);
    let answer = ingress.send(world.gateway.mcp, &other).await;
    answer.assert_refused(401, "missing_verified_identity");
}

/// Revocation and expiry bite on a connection that stands, within one look at the file.
#[tokio::test]
async fn a_session_that_ends_ends_its_certificate() {
    let upstream = Upstream::start().await;
    let live = json!({"sessions": [session("s-alice", "alice")]});
    let policy = policy(&upstream, None).with(|document| document["sessions"] = json!([]));
    let world = World::with(upstream, Setup::policies([policy]).sessions_file(live.clone())).await;
    let mut connection =
        world.named(&[ALICE]).connect(world.gateway.mcp).await.expect("a connection");
    connection.send(request(Some("K1")).bytes()).await;
    let first = connection.response().await.expect("an answer");
    first.assert_first();
    let connection = tokio::sync::Mutex::new(connection);
    let ended = |field: &str, value: Value| {
        let mut file = live.clone();
        file["sessions"][0][field] = value;
        file
    };
    for (file, reason) in [
        (ended("revoked", json!(true)), "session_revoked"),
        (ended("expires_at", json!("2020-01-01T00:00:00Z")), "session_expired"),
        (json!([]), "session_not_found"),
        (ended("human_id", json!("")), "session_not_found"),
    ] {
        world.gateway.rewrite_sessions(&file.to_string());
        eventually(reason, || async {
            let mut connection = connection.lock().await;
            connection.send(request(Some("K1")).bytes()).await;
            let answer = connection.response().await.expect("an answer");
            (answer.status == 401 && answer.reason() == reason).then_some(())
        })
        .await;
        let list = Request::post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        let answer = world.named(&[ALICE]).send(world.gateway.mcp, &list).await;
        answer.assert_refused(401, reason);
        world.gateway.rewrite_sessions(&live.to_string());
        let restored = eventually("the session to be back", || async {
            let mut connection = connection.lock().await;
            connection.send(request(Some("K1")).bytes()).await;
            Some(connection.response().await.expect("an answer")).filter(|a| a.status == 200)
        })
        .await;
        restored.assert_replays(&first);
    }
    assert_eq!(world.upstream.hits(), 1);
}

/// Under another caller the key would have another slot, and the call would run again.
#[tokio::test]
async fn a_session_that_changes_hands_takes_no_keys() {
    let upstream = Upstream::start().await;
    let first = json!([session("s-alice", "alice"), session("s-bob", "bob")]);
    let mut changed = first.clone();
    changed[0]["team_id"] = json!("team-new");
    changed[1]["revoked"] = json!(true);
    let setup = Setup::policies([policy(&upstream, None)]).sessions_file(first.clone());
    let world = World::with(upstream, setup).await;
    let (at, alice) = (world.gateway.mcp, world.named(&[ALICE]));
    let answer = alice.send(at, &request(Some("K1"))).await;
    answer.assert_first();

    world.gateway.rewrite_sessions(&changed.to_string());
    let bob = world.named(&[BOB]);
    eventually("the rest of the file to count", || async {
        let answer = bob.send(at, &request(None)).await;
        (answer.reason() == "session_revoked").then_some(())
    })
    .await;
    let hits = world.upstream.hits();
    for key in ["K1", "K2"] {
        let answer = alice.send(at, &request(Some(key))).await;
        answer.assert_refused(409, "session_rebound");
    }
    assert_eq!(world.upstream.hits(), hits);
    alice.send(at, &request(None)).await.assert_first();

    world.gateway.rewrite_sessions(&first.to_string());
    eventually("the first caller to be back", || async {
        let again = alice.send(at, &request(Some("K1"))).await;
        (again.status == 200).then_some(again)
    })
    .await
    .assert_replays(&answer);
}

#[tokio::test]
async fn observe_mode_lets_anybody_pass_but_never_with_a_key() {
    let upstream = Upstream::start().await;
    let policy =
        policy(&upstream, None).with(|document| document["policy"]["mode"] = json!("observe"));
    let world = World::with(upstream, Setup::policies([policy])).await;
    let at = world.gateway.mcp;
    for client in [TlsClient::new(&world.authority), world.named(&[ALICE, BOB])] {
        let forged = request(None).header("X-MCP-Human-ID", "root").header(HEADER, BOB);
        client.send(at, &forged).await.assert_first();
        let sent = world.upstream.last();
        assert_eq!(sent.lines("x-mcp-human-id"), Vec::<&str>::new());
        assert_eq!(sent.lines(HEADER), Vec::<&str>::new());
        let answer = client.send(at, &request(Some("K1"))).await;
        answer.assert_refused(400, "idempotency_requires_verified_identity");
    }
    world.named(&[ALICE]).send(at, &request(Some("K1"))).await.assert_first();
}

#[tokio::test]
async fn a_grant_decides_for_a_certificate_as_for_any_caller() {
    let upstream = Upstream::start().await;
    let policy =
        policy(&upstream, None).with(|document| document["grants"] = json!([grant("b", "bob")]));
    let world = World::with(upstream, Setup::policies([policy])).await;
    let answer = world.named(&[ALICE]).send(world.gateway.mcp, &request(None)).await;
    answer.assert_refused(403, "no_matching_grant");
    world.named(&[BOB]).send(world.gateway.mcp, &request(None)).await.assert_first();
}

/// Servers of other modes share the listener: they neither need nor read a certificate.
#[tokio::test]
async fn other_modes_share_the_listener() {
    let upstream = Upstream::start().await;
    let keys = Policy::new(&upstream.url()).at("keys");
    let policies = [policy(&upstream, None), keys];
    let world = World::with(upstream, Setup::policies(policies)).await;
    let nobody = TlsClient::new(&world.authority);
    let call = Request::keyed("K1", pay()).to("/mcp/keys");
    nobody.send(world.gateway.mcp, &call).await.assert_first();
    let alice = world.named(&[ALICE]);
    let without = call.without("Authorization");
    alice.send(world.gateway.mcp, &without).await.assert_refused(401, "missing_identity");
}
