//! What an operator sees: metrics, audit lines, traces and the process's own log (CONTRACT section
//! 8).
//!
//! None of them ever holds a raw key, a payload or a secret, and none can stop or slow the traffic:
//! counters are atomics, and the queues of audit and traces drop (and count) rather than wait.

pub mod audit;
mod feed;
mod labels;
mod log;
pub mod metrics;
pub mod post;
mod throttle;
pub mod trace;

pub use audit::{Audit, AuditDecision, AuditError, AuditEvent, AuditSink};
pub use labels::{AttemptResult, IdempotencyOutcome, StatusClass};
pub use log::{LOG_VARIABLE, LogError, init_logging};
pub use metrics::{HandshakeFailures, Metrics, MetricsError, Readings, Reloads, ServerMetrics};
pub use post::Endpoint;
pub(crate) use throttle::Throttle;
pub use trace::{TraceError, TraceSettings, Traces};
