//! From spans that have ended to requests of the OpenTelemetry protocol.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use prost::Message;

use crate::observe::feed::{Consumer, Feed, State};
use crate::observe::post::Poster;

/// The media type of a request: an `ExportTraceServiceRequest` in binary protobuf.
pub const CONTENT_TYPE: &str = "application/x-protobuf";

/// Queues each span that ends.
#[derive(Debug)]
pub(super) struct Queueing(pub(super) Arc<Feed<SpanData>>);

impl SpanProcessor for Queueing {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.0.offer(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    /// The feed is closed by its owner, who may wait.
    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Sends batches of spans.
pub(super) struct Export {
    poster: Poster,
    resource: ResourceAttributesWithSchema,
}

impl Export {
    pub(super) fn new(poster: Poster, resource: &Resource) -> Self {
        Self { poster, resource: resource.into() }
    }
}

impl Consumer<SpanData> for Export {
    fn weight(_span: &SpanData) -> usize {
        1
    }

    fn consume(&mut self, batch: &mut Vec<SpanData>, state: &State) {
        let spans = batch.len() as u64;
        let grouped = group_spans_by_resource_and_scope(std::mem::take(batch), &self.resource);
        let request = ExportTraceServiceRequest { resource_spans: grouped };
        match self.poster.post(request.encode_to_vec().into(), CONTENT_TYPE, state) {
            Ok(answer) => match rejected(&answer).min(spans) {
                0 => {}
                some => state.lost(some, &"the collector rejects spans"),
            },
            Err(error) => state.lost(spans, &error),
        }
    }
}

/// How many spans of an accepted request the collector did not take. An answer of another form says
/// nothing.
fn rejected(answer: &[u8]) -> u64 {
    let response = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    let partial = response.partial_success.unwrap_or_default();
    u64::try_from(partial.rejected_spans).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    #[test]
    fn what_a_collector_rejects_is_read_from_its_answer() {
        let answer = |rejected_spans| {
            let partial = ExportTracePartialSuccess { rejected_spans, ..Default::default() };
            ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec()
        };
        assert_eq!(rejected(&answer(3)), 3);
        assert_eq!(rejected(&answer(-1)), 0);
        assert_eq!(rejected(b""), 0);
        assert_eq!(rejected(b"{\"partialSuccess\":{}}"), 0);
    }
}
