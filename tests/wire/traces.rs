//! Traces: the caller's context is taken over and passed on, spans go to a collector (CONTRACT
//! section 8; W3C Trace Context; OTLP over HTTP).

use crate::support::{
    Conn, Gateway, Reply, Request, Response, Setup, Upstream, call, eventually, http, key_hash, pay,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;
use serde_json::json;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const TOKEN: &str = "trace-token-7f3a";

async fn collector() -> Upstream {
    Upstream::with(|_, _| Reply::raw(http(200, &[], ""))).await
}

fn tracing(upstream: &Upstream, collector: &Upstream) -> Setup {
    Setup::new(upstream)
        .set("traces", "endpoint", &format!("\"http://{}\"", collector.address()))
        .set("traces", "token", "\"env:TRACE_TOKEN\"")
        .env("TRACE_TOKEN", TOKEN)
}

/// A call of the caller's own span, sampled or not.
fn traced(flags: &str) -> Request {
    Request::post(pay())
        .header("traceparent", &format!("00-{TRACE}-{CALLER}-{flags}"))
        .header("tracestate", "congo=t61rcWkgMzE")
        .header("tracestate", "rojo=1")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a traced process exported.
struct Exported {
    resource: Vec<KeyValue>,
    spans: Vec<Span>,
}

/// Ends the gateway, and gives all that the collector got until then.
async fn exported(mut gateway: Gateway, collector: &Upstream) -> Exported {
    gateway.sigterm();
    assert_eq!(gateway.wait().await.code(), Some(0), "{}", gateway.stderr());
    let mut exported = Exported { resource: Vec::new(), spans: Vec::new() };
    for hit in 1..=collector.hits() {
        let request = collector.hit(hit).await;
        assert_eq!(request.line, "POST /v1/traces HTTP/1.1");
        assert_eq!(request.header("Content-Type"), Some("application/x-protobuf"));
        assert_eq!(request.header("Authorization"), Some(&*format!("Bearer {TOKEN}")));
        let request = ExportTraceServiceRequest::decode(&*request.body).expect("OTLP");
        for resource in request.resource_spans {
            exported.resource = resource.resource.expect("a resource").attributes;
            exported.spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    exported
}

impl Exported {
    fn named(&self, name: &str) -> &Span {
        let mut found = self.spans.iter().filter(|span| span.name == name);
        let span = found.next().unwrap_or_else(|| panic!("{name} among {:?}", self.names()));
        assert!(found.next().is_none(), "{name} comes once: {:?}", self.names());
        span
    }

    fn names(&self) -> Vec<&str> {
        self.spans.iter().map(|span| span.name.as_str()).collect()
    }
}

fn value(attributes: &[KeyValue], name: &str) -> Option<String> {
    let held = attributes.iter().find(|attribute| attribute.key == name)?;
    match held.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{name} is {other:?}"),
    }
}

#[tokio::test]
async fn without_a_collector_both_headers_pass_unchanged_and_none_is_added() {
    let upstream = Upstream::start().await;
    let gateway = Gateway::start(&upstream).await;
    gateway.send(&traced("00")).await;
    let passed = upstream.last();
    assert_eq!(passed.lines("traceparent"), [format!("00-{TRACE}-{CALLER}-00")]);
    assert_eq!(passed.lines("tracestate"), ["congo=t61rcWkgMzE", "rojo=1"]);
    gateway.send(&Request::keyed("K1", pay()).header("traceparent", "no such thing")).await;
    assert_eq!(upstream.last().lines("traceparent"), ["no such thing"]);
    gateway.send(&Request::post(pay())).await;
    assert_eq!(upstream.last().header("traceparent"), None);
}

#[tokio::test]
async fn a_callers_trace_goes_on_through_the_gateway() {
    let (upstream, collector) = (Upstream::start().await, collector().await);
    let gateway = tracing(&upstream, &collector).start().await;
    gateway.send(&traced("01")).await.assert_first();
    let passed = upstream.last();
    assert_eq!(passed.header("tracestate"), Some("congo=t61rcWkgMzE,rojo=1"));
    let traceparent = passed.header("traceparent").expect("passed on").to_owned();

    let exported = exported(gateway, &collector).await;
    let root = exported.named("POST /mcp");
    assert_eq!(hex(&root.trace_id), TRACE);
    assert_eq!(hex(&root.parent_span_id), CALLER);
    assert_eq!(root.kind, SpanKind::Server as i32);
    let dispatch = exported.named("dispatch");
    assert_eq!(dispatch.kind, SpanKind::Client as i32);
    assert_eq!(traceparent, format!("00-{TRACE}-{}-01", hex(&dispatch.span_id)));
    for stage in ["inspect", "authenticate", "authorize", "dispatch"] {
        let span = exported.named(stage);
        assert_eq!(span.parent_span_id, root.span_id, "{stage}");
        assert_eq!(span.trace_id, root.trace_id, "{stage}");
        let within = root.start_time_unix_nano..=root.end_time_unix_nano;
        assert!(within.contains(&span.start_time_unix_nano), "{stage}");
        assert!(within.contains(&span.end_time_unix_nano), "{stage}");
    }
    assert_eq!(exported.spans.len(), 5, "{:?}", exported.names());
    assert_eq!(value(&exported.resource, "service.name").as_deref(), Some("onceward"));
}

#[tokio::test]
async fn a_span_says_what_the_audit_line_says_and_names_nobody() {
    let (upstream, collector) = (Upstream::start().await, collector().await);
    let gateway = tracing(&upstream, &collector).start().await;
    let body = call("pay", json!({"card": "payload-4111"}));
    gateway.call("raw-key-7f3a", body.clone()).await.assert_first();
    gateway.call("raw-key-7f3a", body).await;
    gateway.send(&Request::post(call("unlisted", json!({})))).await;
    upstream.script(Reply::silent().close());
    gateway.send(&Request::post(pay()).to("/mcp?q=secret-query")).await;

    let exported = exported(gateway, &collector).await;
    let roots: Vec<_> = exported.spans.iter().filter(|span| span.name == "POST /mcp").collect();
    let of = |span: &Span, name: &str| value(&span.attributes, name);
    let root = |outcome: &str| {
        let wanted = Some(outcome.to_owned());
        let mut found =
            roots.iter().filter(|span| of(span, "onceward.idempotency.outcome") == wanted);
        found.next().expect(outcome)
    };
    let hash = key_hash(["alice", "agent-a", "team-a", "", "uid-payments", "raw-key-7f3a", ""]);
    for (outcome, stages) in [
        ("first", vec!["authenticate", "authorize", "claim", "dispatch", "inspect", "settle"]),
        ("replay", vec!["authenticate", "authorize", "claim", "inspect"]),
    ] {
        let root = root(outcome);
        for (name, expected) in [
            ("onceward.server", "payments"),
            ("onceward.namespace", "test"),
            ("mcp.method.name", "tools/call"),
            ("gen_ai.tool.name", "pay"),
            ("onceward.decision", "allow"),
            ("http.request.method", "POST"),
            ("http.route", "/mcp"),
            ("http.response.status_code", "200"),
            ("onceward.idempotency.key_hash", &hash),
        ] {
            assert_eq!(of(root, name).as_deref(), Some(expected), "{name} of {outcome}");
        }
        let own = exported.spans.iter().filter(|span| span.parent_span_id == root.span_id);
        let mut names: Vec<_> = own.map(|span| span.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, stages, "{outcome}");
    }
    let with_status = |status: &str| {
        let found =
            |span: &&&Span| of(span, "http.response.status_code").as_deref() == Some(status);
        *roots.iter().find(found).expect(status)
    };
    let denied = with_status("403");
    assert_eq!(of(denied, "onceward.decision").as_deref(), Some("deny"));
    let failed = with_status("502");
    assert_eq!(of(failed, "onceward.reason").as_deref(), Some("upstream_disconnected"));
    let status = failed.status.as_ref().expect("a status");
    assert_eq!(status.code, StatusCode::Error as i32);
    assert_eq!(denied.status.as_ref().expect("a status").code, StatusCode::Unset as i32);

    let told = format!("{:?} {:?}", exported.spans, exported.resource);
    for secret in
        ["raw-key-7f3a", "payload-4111", "token-of-A", TOKEN, "alice", "team-a", "secret-query"]
    {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
}

#[tokio::test]
async fn a_caller_who_does_not_sample_is_heeded() {
    let (upstream, collector) = (Upstream::start().await, collector().await);
    let gateway = tracing(&upstream, &collector).start().await;
    gateway.send(&traced("00")).await;
    let passed = upstream.last();
    let traceparent = passed.header("traceparent").expect("passed on").to_owned();
    assert!(traceparent.starts_with(&format!("00-{TRACE}-")), "{traceparent}");
    assert!(traceparent.ends_with("-00"), "{traceparent}");
    assert_eq!(passed.header("tracestate"), Some("congo=t61rcWkgMzE,rojo=1"));
    assert!(exported(gateway, &collector).await.spans.is_empty());
}

#[tokio::test]
async fn a_context_that_is_not_valid_begins_a_new_trace() {
    let (upstream, collector) = (Upstream::start().await, collector().await);
    let gateway = tracing(&upstream, &collector).start().await;
    let zero = format!("00-{}-{CALLER}-01", "0".repeat(32));
    let invalid = Request::post(pay()).header("traceparent", &zero).header("tracestate", "a=b");
    gateway.send(&invalid).await;
    let passed = upstream.last();
    let traceparent = passed.header("traceparent").expect("a new one").to_owned();
    assert!(!traceparent.contains(&"0".repeat(32)), "{traceparent}");
    assert_eq!(passed.header("tracestate"), None, "a state belongs to its parent");
    gateway.send(&traced("01").header("traceparent", &zero)).await;
    assert_eq!(upstream.last().lines("traceparent").len(), 1, "two lines are none");
    gateway.send(&Request::post(pay()).header("traceparent", "00-1-1-01")).await;
    let exported = exported(gateway, &collector).await;
    let roots = exported.spans.iter().filter(|span| span.name == "POST /mcp");
    assert!(roots.clone().all(|span| span.parent_span_id.is_empty()), "{:?}", exported.spans);
    assert_eq!(roots.count(), 3);
}

#[tokio::test]
async fn what_is_not_sampled_is_not_sent_and_the_upstream_is_told() {
    let (upstream, collector) = (Upstream::start().await, collector().await);
    let setup = tracing(&upstream, &collector).set("traces", "sample_percent", "0");
    let gateway = setup.start().await;
    gateway.send(&Request::post(pay())).await;
    let traceparent = upstream.last().header("traceparent").expect("told").to_owned();
    assert!(traceparent.ends_with("-00"), "{traceparent}");
    // The caller's word counts for more than the gateway's.
    gateway.send(&traced("01")).await;
    let exported = exported(gateway, &collector).await;
    assert_eq!(hex(&exported.named("POST /mcp").trace_id), TRACE);
}

#[tokio::test]
async fn a_collector_that_fails_costs_spans_and_nothing_else() {
    let (upstream, collector) =
        (Upstream::start().await, Upstream::with(|_, _| Reply::raw(http(400, &[], ""))).await);
    let gateway = tracing(&upstream, &collector).start().await;
    let answers: [Response; 2] =
        [gateway.send(&traced("01")).await, gateway.send(&traced("01")).await];
    answers.iter().for_each(Response::assert_first);
    eventually("the spans to be counted", || async {
        let lost = gateway.metrics().await.sum("onceward_traces_dropped_total", &[]);
        (lost == 10).then_some(())
    })
    .await;
    assert_eq!(gateway.status().await["traces"]["dropped"], json!(10));
    assert!(!gateway.stderr().contains(TOKEN), "{}", gateway.stderr());
}

#[tokio::test]
async fn the_standard_variables_name_a_collector_too() {
    let (upstream, collector) = (Upstream::start().await, collector().await);
    let endpoint = format!("http://{}/otlp/", collector.address());
    let setup = || {
        Setup::new(&upstream)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)
            .env("OTEL_SERVICE_NAME", "payments-gateway")
    };
    let mut gateway = setup().start().await;
    gateway.send(&Request::post(pay())).await;
    gateway.sigterm();
    gateway.wait().await;
    let request = collector.hit(1).await;
    assert_eq!(request.line, "POST /otlp/v1/traces HTTP/1.1");
    let sent = ExportTraceServiceRequest::decode(&*request.body).expect("OTLP");
    let resource = sent.resource_spans[0].resource.as_ref().expect("a resource");
    let name = value(&resource.attributes, "service.name");
    assert_eq!(name.as_deref(), Some("payments-gateway"));
    let off = setup().env("OTEL_SDK_DISABLED", "true").start().await;
    off.send(&Request::post(pay())).await;
    assert_eq!(upstream.last().header("traceparent"), None);
}

#[tokio::test]
async fn an_exchange_that_ends_early_has_its_span_too() {
    let (upstream, collector) = (Upstream::start().await, collector().await);
    let gateway = tracing(&upstream, &collector).start().await;
    gateway.send(&Request::post(pay()).to("/elsewhere-7f3a")).await;
    gateway.send(&Request::new("INVENTED", "/mcp")).await;
    // Refused before its body is asked for.
    let mut waiting: Conn = gateway.connect().await;
    let expecting = Request::post("").bearer("wrong").header("Expect", "100-continue");
    waiting.send(expecting.bytes()).await;
    waiting.response().await.expect("an answer");
    let exported = exported(gateway, &collector).await;
    let mut names = exported.names();
    names.retain(|name| name.starts_with(|first: char| first.is_ascii_uppercase() || first == '_'));
    names.sort_unstable();
    assert_eq!(names, ["POST", "POST /mcp", "_OTHER /mcp"], "names are never a caller's");
}
