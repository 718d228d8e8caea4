//! Traces: one span per exchange with its stages as children, sent as OTLP over HTTP (CONTRACT
//! section 8).
//!
//! Off unless an endpoint is configured. Identifiers, sampling and `traceparent` are the
//! OpenTelemetry SDK's; spans that end are queued like audit lines, and never make a worker wait. No
//! span holds a raw key, a payload, a credential or a caller's name.

mod context;
mod exchange;
mod export;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry::{Key, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, SpanData};

pub use context::{Incoming, Outgoing};
pub use exchange::{ExchangeSpan, Stage};
pub use export::CONTENT_TYPE;

use super::feed::{Feed, Settings};
use super::post::{Endpoint, PostError, Poster};
use export::{Export, Queueing};

/// Spans that may wait to be sent; an exchange has up to seven, of about a kilobyte each.
pub const QUEUE_SPANS: usize = 8192;

/// Spans of one request to the collector, at most.
pub const BATCH_SPANS: usize = 512;

/// How long spans are gathered before they are sent.
pub const LINGER: Duration = Duration::from_millis(1000);

/// How long [`Traces::close`] waits for the collector to take what is queued.
pub const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// The path of an endpoint that has none (OTLP specification, "OTLP/HTTP Request").
pub const DEFAULT_PATH: &str = "/v1/traces";

/// Why traces could not be set up, or the last ones not sent.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operator's endpoint cannot be posted to.
    #[error("the trace endpoint cannot be used; check `[traces]`: {0}")]
    Endpoint(#[from] PostError),
    /// The system has no thread to give.
    #[error("the trace exporter could not be started: {0}")]
    Thread(io::Error),
    /// The collector did not take everything in time.
    #[error("the trace collector did not take every span in time; the last ones are missing")]
    Incomplete,
}

/// What traces are made with.
#[derive(Debug, Clone)]
pub struct TraceSettings {
    /// The collector's URL, as it is used.
    pub endpoint: Endpoint,
    /// How many of a hundred exchanges without a caller's decision are traced, 0 to 100.
    pub sample_percent: u8,
    /// TLS to the collector.
    pub tls: Arc<rustls::ClientConfig>,
}

/// The traces of the process. Share it behind an `Arc`; close it after the last exchange.
#[derive(Debug)]
pub struct Traces {
    tracer: SdkTracer,
    feed: Arc<Feed<SpanData>>,
}

impl Traces {
    /// Starts the exporter's thread. Beside the settings, `OTEL_SERVICE_NAME` and
    /// `OTEL_RESOURCE_ATTRIBUTES` are read by the SDK.
    ///
    /// # Errors
    ///
    /// [`TraceError::Endpoint`] or [`TraceError::Thread`].
    pub fn start(settings: TraceSettings) -> Result<Self, TraceError> {
        let resource = resource();
        let export = Export::new(Poster::new(settings.endpoint, settings.tls)?, &resource);
        let queue =
            Settings { name: "traces", queue: QUEUE_SPANS, linger: LINGER, batch: BATCH_SPANS };
        let feed = Arc::new(Feed::start(queue, export).map_err(TraceError::Thread)?);
        let ratio = Sampler::TraceIdRatioBased(f64::from(settings.sample_percent) / 100.0);
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_sampler(Sampler::ParentBased(Box::new(ratio)))
            .with_span_processor(Queueing(Arc::clone(&feed)))
            .build();
        Ok(Self { tracer: provider.tracer("onceward"), feed })
    }

    /// Spans that were not sent since the start.
    pub fn dropped(&self) -> u64 {
        self.feed.dropped()
    }

    /// Sends what is queued and ends the exporter. Blocks for at most [`CLOSE_WAIT`] and a second.
    ///
    /// # Errors
    ///
    /// [`TraceError::Incomplete`].
    pub fn close(&self) -> Result<(), TraceError> {
        self.feed.close(CLOSE_WAIT).map_err(|_| TraceError::Incomplete)
    }
}

/// Who sends: the operator's word, or `onceward` where there is none.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let named = Resource::builder().with_attribute(version.clone()).build();
    let name = named.get(&Key::from_static_str("service.name"));
    match name.is_some_and(|name| !name.as_str().starts_with("unknown_service")) {
        true => named,
        false => Resource::builder().with_attribute(version).with_service_name("onceward").build(),
    }
}
