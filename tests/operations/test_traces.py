"""Traces, decoded by OpenTelemetry's own protocol package."""

from conftest import TOKEN, Gateway, Server, closing
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_the_official_decoder_reads_every_span(upstream, tmp_path):
    with closing(Server(lambda _: b"")) as collector:
        table = f'[traces]\nendpoint = "{collector.url}"\n'
        gateway = Gateway(tmp_path, upstream.url, table)
        parent = [("traceparent", f"00-{TRACE}-{CALLER}-01"), ("tracestate", "vendor=value")]
        assert gateway.call("raw-key-7f3a", headers=parent) == 200
        assert gateway.call("raw-key-7f3a", {"break": True}, headers=parent) == 409
        assert gateway.stop() == 0

    spans, told = [], ""
    for path, headers, body in collector.bodies:
        assert path == "/v1/traces"
        assert headers["content-type"] == "application/x-protobuf"
        request = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
        assert request.SerializeToString(deterministic=True), "there is something in it"
        told += str(request)
        for resource in request.resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            assert named["service.name"] == "onceward"
            spans += [span for scope in resource.scope_spans for span in scope.spans]

    roots = [span for span in spans if span.kind == trace_pb2.Span.SPAN_KIND_SERVER]
    assert [span.name for span in roots] == ["POST /mcp"] * 2
    ids = {span.span_id for span in spans}
    assert len(ids) == len(spans)
    for span in spans:
        assert span.trace_id.hex() == TRACE
        assert span.trace_state == "vendor=value"
        assert len(span.span_id) == 8
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        if span in roots:
            assert span.parent_span_id.hex() == CALLER
        else:
            assert span.parent_span_id in {root.span_id for root in roots}
    outcomes = {
        one.value.string_value
        for root in roots
        for one in root.attributes
        if one.key == "onceward.idempotency.outcome"
    }
    assert outcomes == {"first", "conflict"}
    for secret in ("raw-key-7f3a", TOKEN, "alice"):
        assert secret not in told
