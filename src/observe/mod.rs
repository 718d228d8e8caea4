//! What an operator sees: metrics, audit lines and the process's own log (CONTRACT section 8).
//!
//! None of the three ever holds a raw key, a payload or a secret, and none of them can stop or slow
//! the traffic: counters are atomics, and the audit queue drops (and counts) rather than waits.

pub mod audit;
mod labels;
mod log;
pub mod metrics;
mod throttle;

pub use audit::{Audit, AuditDecision, AuditError, AuditEvent};
pub use labels::{AttemptResult, IdempotencyOutcome, StatusClass};
pub use log::{LOG_VARIABLE, LogError, init_logging};
pub use metrics::{HandshakeFailures, Metrics, MetricsError, Readings, Reloads, ServerMetrics};
pub(crate) use throttle::Throttle;
