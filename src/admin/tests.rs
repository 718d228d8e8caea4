//! The listener as a client sees it, over a store and a policy made for the test.

use std::sync::Mutex;

use actix_web::body::MessageBody;
use actix_web::dev::ServiceResponse;
use actix_web::http::{Method, StatusCode, header};
use actix_web::test::{TestRequest, call_service, init_service, read_body};
use actix_web::{App, Error};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::*;
use crate::claim::{Limits, Reply, TombstoneReason};
use crate::gateway::hosts::Hosts;
use crate::observe::{Audit, HandshakeFailures, IdempotencyOutcome, Metrics, Reloads};
use crate::store::{
    Asked, Begin, Begun, Occupancy, Settled, Store, StoreError, StoreFuture, Ticket,
};

const TOKEN: &str = "correct horse";

/// A store that has nothing but numbers.
struct FakeStore {
    ready: Mutex<Result<(), StoreError>>,
}

fn down<'a, T: Send + 'a>() -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(Err(StoreError::Down)))
}

impl Store for FakeStore {
    fn look_up(&self, _begin: &Begin) -> Option<crate::store::Known> {
        None
    }

    fn begin(&self, _: Asked<'_>) -> StoreFuture<'_, Begun> {
        down()
    }

    fn reserve_attempt(&self, _: &mut Ticket) -> StoreFuture<'_, Settled> {
        down()
    }

    fn complete(&self, _: Ticket, _: Reply) -> StoreFuture<'_, Settled> {
        down()
    }

    fn tombstone(&self, _: Ticket, _: TombstoneReason) -> StoreFuture<'_, Settled> {
        down()
    }

    fn release(&self, _: Ticket) -> StoreFuture<'_, Settled> {
        down()
    }

    fn occupancy(&self) -> Occupancy {
        Occupancy { records: 6, in_flight: 1, completed: 2, tombstones: 3, evictions: 4 }
    }

    fn ready(&self) -> Result<(), StoreError> {
        *self.ready.lock().expect("not poisoned")
    }

    fn kind(&self) -> &'static str {
        "fake"
    }

    fn stop(&self) -> StoreFuture<'_, ()> {
        down()
    }
}

/// A policy that says what it is told to.
#[derive(Default)]
struct FakePolicy {
    policy: Mutex<Source>,
}

impl PolicyStatus for FakePolicy {
    fn policy(&self) -> Source {
        self.policy.lock().expect("not poisoned").clone()
    }

    fn sessions(&self) -> Option<Source> {
        None
    }

    fn certificates(&self) -> Option<Source> {
        None
    }

    fn handshake_failures(&self) -> HandshakeFailures {
        HandshakeFailures::default()
    }

    fn servers(&self) -> Vec<ServerStatus> {
        let upstream: hyper::Uri = "http://user:pw@mcp.local:9000/secret?t=1".parse().expect("URI");
        vec![ServerStatus {
            namespace: "payments".to_owned(),
            name: "ledger".to_owned(),
            path: "/mcp".to_owned(),
            upstream: ServerStatus::shown_upstream(&upstream),
            circuit: Some("closed"),
            upstream_in_flight: Some(2),
        }]
    }
}

/// A listener with the handles that a test turns.
struct Fixture {
    state: Arc<AdminState>,
    store: Arc<FakeStore>,
    policy: Arc<FakePolicy>,
    metrics: Arc<Metrics>,
}

impl Fixture {
    /// A gateway that is ready.
    fn new(token: Option<&str>) -> Self {
        let store = Arc::new(FakeStore { ready: Mutex::new(Ok(())) });
        let policy = Arc::new(FakePolicy::default());
        *policy.policy.lock().expect("not poisoned") = Source {
            revision: Some("sha256:0a".to_owned()),
            last_error: Some("policy.yaml: line 3: unknown field".to_owned()),
            reloads: Reloads { succeeded: 2, failed: 1 },
        };
        let metrics = Arc::new(Metrics::new());
        let state = Arc::new(AdminState::new(AdminOptions {
            store: Arc::clone(&store) as Arc<dyn Store>,
            limits: Limits::default(),
            metrics: Arc::clone(&metrics),
            audit: Arc::new(Audit::with_sink(Box::new(std::io::sink())).expect("a thread")),
            traces: None,
            policy: Arc::clone(&policy) as Arc<dyn PolicyStatus>,
            hosts: Hosts::new(Vec::new(), "127.0.0.1:8081".parse().expect("an address")),
            token_sha256: token.map(|token| Sha256::digest(token).into()),
            started: "2026-11-30T11:38:45Z".parse().expect("a timestamp"),
            config: json!({"listen": {"mcp": "127.0.0.1:8080"}}),
        }));
        Self { state, store, policy, metrics }
    }

    async fn send(&self, request: TestRequest) -> Response {
        let state = Arc::clone(&self.state);
        let app = init_service(App::new().configure(|config| configure(state, config))).await;
        Response::read(call_service(&app, request.to_request()).await).await
    }

    async fn get(&self, path: &str) -> Response {
        self.send(TestRequest::get().uri(path)).await
    }

    async fn get_with(&self, path: &str, authorization: &str) -> Response {
        let request = TestRequest::get().uri(path);
        self.send(request.insert_header((header::AUTHORIZATION, authorization))).await
    }
}

struct Response {
    status: StatusCode,
    headers: header::HeaderMap,
    body: String,
}

impl Response {
    async fn read(response: ServiceResponse<impl MessageBody<Error: Into<Error>>>) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = String::from_utf8(read_body(response).await.to_vec()).expect("text");
        assert_eq!(headers.get(header::CACHE_CONTROL).expect("a rule for caches"), "no-store");
        assert!(!headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
        Self { status, headers, body }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }
}

#[actix_web::test]
async fn the_process_is_alive_even_when_nothing_works() {
    let fixture = Fixture::new(Some(TOKEN));
    *fixture.store.ready.lock().expect("not poisoned") = Err(StoreError::Down);
    *fixture.policy.policy.lock().expect("not poisoned") = Source::default();
    fixture.state.start_draining();
    let response = fixture.get("/healthz").await;
    assert_eq!((response.status, response.json()), (StatusCode::OK, json!({"status": "ok"})));
}

#[actix_web::test]
async fn a_valid_policy_and_a_reachable_store_are_ready() {
    let response = Fixture::new(Some(TOKEN)).get("/readyz").await;
    assert_eq!((response.status, response.json()), (StatusCode::OK, json!({"status": "ready"})));
}

#[actix_web::test]
async fn each_reason_alone_makes_the_gateway_unready() {
    let no_policy = Fixture::new(None);
    *no_policy.policy.policy.lock().expect("not poisoned") = Source::default();
    let no_store = Fixture::new(None);
    *no_store.store.ready.lock().expect("not poisoned") = Err(StoreError::Stopping);
    let draining = Fixture::new(None);
    draining.state.start_draining();

    for (fixture, reason) in
        [(no_policy, "policy_unavailable"), (no_store, "store_unavailable"), (draining, "draining")]
    {
        let response = fixture.get("/readyz").await;
        assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.json(), json!({"status": "not_ready", "reasons": [reason]}));
    }
}

#[actix_web::test]
async fn metrics_are_prometheus_text() {
    let fixture = Fixture::new(None);
    fixture.metrics.server("payments", "ledger").idempotency(IdempotencyOutcome::Replay);
    let response = fixture.get("/metrics").await;
    assert_eq!(response.status, StatusCode::OK);
    assert_eq!(
        response.header(header::CONTENT_TYPE),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    for line in [
        r#"mcp_gateway_idempotency_total{namespace="payments",server="ledger",outcome="replay"} 1"#,
        r#"onceward_store_records{state="tombstone"} 3"#,
        r#"onceward_store_capacity{limit="entries"} 256"#,
        r#"onceward_store_evictions_total 4"#,
        r#"onceward_policy_reloads_total{result="failure"} 1"#,
        r#"onceward_sessions_reloads_total{result="success"} 0"#,
        r#"onceward_audit_dropped_total 0"#,
    ] {
        assert!(response.body.lines().any(|l| l == line), "{line}:\n{}", response.body);
    }
}

#[actix_web::test]
async fn status_says_what_an_operator_asks() {
    let response = Fixture::new(None).get("/v1/status").await;
    assert_eq!(response.status, StatusCode::OK);
    let expected = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started": "2026-11-30T11:38:45Z",
        "ready": true,
        "reasons": [],
        "policy": {
            "revision": "sha256:0a",
            "last_error": "policy.yaml: line 3: unknown field",
            "reloads": {"success": 2, "failure": 1},
        },
        "sessions": null,
        "certificates": null,
        "store": {
            "kind": "fake",
            "error": null,
            "records": 6,
            "in_flight": 1,
            "completed": 2,
            "tombstones": 3,
            "evictions": 4,
            "limits": {
                "ttl_ms": 300_000,
                "tombstone_ttl_ms": 300_000,
                "entries": 256,
                "in_flight": 32,
                "principal_entries": 64,
                "principal_in_flight": 8,
                "scope_entries": 32,
                "scope_in_flight": 4,
                "scope_tombstones": 8,
                "reply_bytes": 32768,
            },
        },
        "audit": {"dropped": 0},
        "traces": {"dropped": 0},
        "servers": [{
            "namespace": "payments",
            "name": "ledger",
            "path": "/mcp",
            "upstream": "http://mcp.local:9000",
            "circuit": "closed",
            "upstream_in_flight": 2,
        }],
        "config": {"listen": {"mcp": "127.0.0.1:8080"}},
    });
    assert_eq!(response.json(), expected);
}

#[actix_web::test]
async fn status_tells_of_a_store_that_is_down() {
    let fixture = Fixture::new(None);
    *fixture.store.ready.lock().expect("not poisoned") = Err(StoreError::Down);
    let status = fixture.get("/v1/status").await.json();
    assert_eq!(status["store"]["error"], StoreError::Down.to_string());
    assert_eq!(
        (&status["ready"], &status["reasons"]),
        (&json!(false), &json!(["store_unavailable"]))
    );
}

#[actix_web::test]
async fn the_token_opens_and_everything_else_is_refused() {
    let fixture = Fixture::new(Some(TOKEN));
    for path in ["/metrics", "/v1/status"] {
        for right in ["Bearer correct horse", "bearer correct horse"] {
            assert_eq!(fixture.get_with(path, right).await.status, StatusCode::OK, "{right}");
        }
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer correct hors",
            "Bearer correct horse ",
            "Bearer  correct horse",
            "Basic correct horse",
            "correct horse",
        ] {
            let response = fixture.get_with(path, wrong).await;
            assert_eq!(response.status, StatusCode::UNAUTHORIZED, "{wrong:?}");
        }
        let response = fixture.get(path).await;
        assert_eq!(response.status, StatusCode::UNAUTHORIZED);
        assert_eq!(
            response.header(header::WWW_AUTHENTICATE),
            Some(r#"Bearer realm="onceward-admin""#)
        );
        assert_eq!(response.json()["error"], "unauthorized");
    }
}

/// What a web page asks whose name was made to lead here.
#[actix_web::test]
async fn a_foreign_host_reads_no_page() {
    for token in [None, Some(TOKEN)] {
        let fixture = Fixture::new(token);
        for path in ["/healthz", "/readyz", "/metrics", "/v1/status", "/"] {
            let request = TestRequest::get()
                .uri(path)
                .insert_header((header::AUTHORIZATION, "Bearer correct horse"))
                .insert_header((header::HOST, "evil.example:8081"));
            let response = fixture.send(request).await;
            assert_eq!(response.status, StatusCode::FORBIDDEN, "{path}");
            assert_eq!(response.json()["error"], "host_not_allowed");
        }
        let own = TestRequest::get().uri("/healthz").insert_header((header::HOST, "[::1]:8081"));
        assert_eq!(fixture.send(own).await.status, StatusCode::OK);
    }
}

#[actix_web::test]
async fn two_authorization_lines_are_refused() {
    let right = ("authorization", "Bearer correct horse");
    let request = TestRequest::get().uri("/metrics").append_header(right).append_header(right);
    let response = Fixture::new(Some(TOKEN)).send(request).await;
    assert_eq!(response.status, StatusCode::UNAUTHORIZED);
}

#[actix_web::test]
async fn an_unknown_path_is_not_found_and_needs_the_token_too() {
    for path in ["/", "/healthz/", "/v1", "/v1/status/x", "/mcp"] {
        let response = Fixture::new(None).get(path).await;
        assert_eq!(response.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(response.json()["error"], "not_found");
        let response = Fixture::new(Some(TOKEN)).get(path).await;
        assert_eq!(response.status, StatusCode::UNAUTHORIZED, "{path}");
    }
}

#[actix_web::test]
async fn pages_are_read_with_get_and_head_only() {
    let fixture = Fixture::new(None);
    for path in ["/healthz", "/readyz", "/metrics", "/v1/status"] {
        let head = fixture.send(TestRequest::default().method(Method::HEAD).uri(path)).await;
        assert_eq!(head.status, StatusCode::OK, "{path}");
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            let request = TestRequest::default().method(method.clone()).uri(path);
            let response = fixture.send(request).await;
            assert_eq!(response.status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert_eq!(response.header(header::ALLOW), Some("GET, HEAD"));
            assert_eq!(response.json()["error"], "method_not_allowed");
        }
    }
}

#[test]
fn a_shown_upstream_has_no_credentials() {
    for (uri, shown) in [
        ("https://user:pw@mcp.example/key?token=1", "https://mcp.example"),
        ("http://127.0.0.1:9000/", "http://127.0.0.1:9000"),
        ("http://[::1]:9000/", "http://[::1]:9000"),
    ] {
        let uri: hyper::Uri = uri.parse().expect(uri);
        assert_eq!(ServerStatus::shown_upstream(&uri), shown);
    }
}
