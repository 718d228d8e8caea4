//! Counters of the traffic, and the text that Prometheus scrapes (CONTRACT section 8).
//!
//! What happens to requests is counted here, in plain atomics behind handles that are resolved once
//! per server. What somebody else already counts (the store, the policy watch, the audit queue) is
//! read when a scrape comes, so nothing is counted twice.
//!
//! The vectors of the `prometheus` crate are not used, only its model and its encoder: a vector
//! tells children apart by a hash of their label values without a separator, so `ab`/`c` and `a`/`bc`
//! would share one series.

mod exposition;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use prometheus::TextEncoder;
use prometheus::proto::MetricFamily;

use self::exposition::Sample;
use super::labels::{AttemptResult, IdempotencyOutcome, StatusClass};
use crate::claim::Limits;
use crate::store::Occupancy;

/// The media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The upper bounds of the duration histogram, in seconds. A replay takes well under a
/// millisecond; an upstream may take up to its response time-out.
pub const DURATION_BUCKETS: [f64; 16] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

/// Why a scrape could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// A defect of this program, never of the scraper.
    #[error("the metrics could not be written as text; report it: {0}")]
    Encode(#[from] prometheus::Error),
}

/// Every metric of the process. Share it behind an `Arc`.
#[derive(Debug, Default)]
pub struct Metrics {
    servers: RwLock<Servers>,
}

/// By namespace and name; as many as the policy has had servers since the start.
type Servers = BTreeMap<(String, String), Arc<ServerMetrics>>;

/// What others count, read at the moment of a scrape.
#[derive(Debug, Clone, Copy)]
pub struct Readings<'a> {
    /// The store's occupancy.
    pub occupancy: &'a Occupancy,
    /// The store's caps.
    pub limits: &'a Limits,
    /// Loads of the policy, the first one included.
    pub policy_reloads: Reloads,
    /// Loads of the sessions file, the first one included; zero where none is configured.
    pub sessions_reloads: Reloads,
    /// Loads of the listener's certificates, the first one included; zero without TLS.
    pub certificate_reloads: Reloads,
    /// Connections of the listener that did not begin; zero without TLS.
    pub handshake_failures: HandshakeFailures,
    /// Audit lines that were not written.
    pub audit_dropped: u64,
    /// Spans that were not sent; zero where traces are off.
    pub traces_dropped: u64,
}

/// How often a watched file that had changed was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reloads {
    /// It was valid and took effect.
    pub succeeded: u64,
    /// It was not, and the last good one stayed.
    pub failed: u64,
}

/// Why connections of a TLS listener did not begin, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HandshakeFailures {
    /// They took too long.
    pub timeout: u64,
    /// They spoke something else.
    pub not_tls: u64,
    /// They broke off, or TLS refused them: a protocol of the past, a certificate that nobody
    /// vouches for.
    pub refused: u64,
}

impl Metrics {
    /// No server yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The counters of one server, all series at zero when it is new. Takes a lock: ask once when
    /// a server's runtime is built and keep the answer. A server that leaves the policy keeps its
    /// series, and finds them again if it returns.
    pub fn server(&self, namespace: &str, name: &str) -> Arc<ServerMetrics> {
        let mut servers = self.servers.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(servers.entry((namespace.to_owned(), name.to_owned())).or_default())
    }

    /// The Prometheus text format, version 0.0.4.
    ///
    /// # Errors
    ///
    /// [`MetricsError::Encode`]: a defect of this program.
    pub fn render(&self, readings: &Readings<'_>) -> Result<String, MetricsError> {
        let mut families = Vec::from(self.server_families());
        families.extend(store_families(readings.occupancy, readings.limits));
        families.extend(process_families(readings));
        // The encoder refuses a family without a series: there is none before the first server.
        families.retain(|family| !family.get_metric().is_empty());
        Ok(TextEncoder::new().encode_to_string(&families)?)
    }

    fn server_families(&self) -> [MetricFamily; 4] {
        let servers = self.servers.read().unwrap_or_else(PoisonError::into_inner);
        let outcomes = IdempotencyOutcome::ALL.map(IdempotencyOutcome::as_str);
        let classes = StatusClass::ALL.map(StatusClass::as_str);
        let results = AttemptResult::ALL.map(AttemptResult::as_str);
        [
            exposition::counter(
                "mcp_gateway_idempotency_total",
                "Keyed calls by what they came to.",
                each_server(&servers, "outcome", &outcomes, |server| &server.idempotency),
            ),
            exposition::counter(
                "onceward_requests_total",
                "Exchanges by the class of the status that was sent.",
                each_server(&servers, "status", &classes, |server| &server.requests),
            ),
            exposition::histogram(
                "onceward_request_duration_seconds",
                "Time from reading a request's head to the head of its answer.",
                servers.iter().map(|((namespace, name), server)| {
                    server.durations.sample(&[("namespace", namespace), ("server", name)])
                }),
            ),
            exposition::counter(
                "onceward_upstream_attempts_total",
                "Attempts on the upstream by how they ended.",
                each_server(&servers, "result", &results, |server| &server.attempts),
            ),
        ]
    }
}

/// The series of one family of every server: the counters of `pick`, one for each of `values`.
fn each_server<'a>(
    servers: &'a Servers,
    label: &'a str,
    values: &'a [&'static str],
    pick: fn(&ServerMetrics) -> &[AtomicU64],
) -> impl Iterator<Item = Sample> + 'a {
    servers.iter().flat_map(move |((namespace, name), server)| {
        values.iter().zip(pick(server)).map(move |(value, counter)| {
            let labels = [("namespace", &**namespace), ("server", &**name), (label, *value)];
            Sample::count(&labels, read(counter))
        })
    })
}

/// The counters of one server. Counting is one atomic addition, without a lock or a look-up.
#[derive(Debug, Default)]
pub struct ServerMetrics {
    idempotency: [AtomicU64; IdempotencyOutcome::COUNT],
    requests: [AtomicU64; StatusClass::COUNT],
    attempts: [AtomicU64; AttemptResult::COUNT],
    durations: Histogram,
}

impl ServerMetrics {
    /// Counts what a keyed call came to; once per keyed call (CONTRACT sections 4 and 11).
    pub fn idempotency(&self, outcome: IdempotencyOutcome) {
        self.idempotency[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one exchange with the status that was sent and the time that it took.
    pub fn request(&self, status: u16, duration: Duration) {
        self.requests[StatusClass::of(status) as usize].fetch_add(1, Ordering::Relaxed);
        self.durations.observe(duration);
    }

    /// Counts one attempt on the upstream.
    pub fn attempt(&self, result: AttemptResult) {
        self.attempts[result as usize].fetch_add(1, Ordering::Relaxed);
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Durations by [`DURATION_BUCKETS`]; the last count is of those above every bound.
#[derive(Debug, Default)]
struct Histogram {
    counts: [AtomicU64; DURATION_BUCKETS.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let position = DURATION_BUCKETS.partition_point(|bound| *bound < seconds);
        self.counts[position].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(micros, Ordering::Relaxed);
    }

    /// The total is the sum of the buckets as read, so that it always agrees with them.
    fn sample(&self, labels: &[(&str, &str)]) -> Sample {
        let mut cumulative = 0;
        let mut buckets = Vec::with_capacity(DURATION_BUCKETS.len());
        for (bound, count) in DURATION_BUCKETS.iter().zip(&self.counts) {
            cumulative += read(count);
            buckets.push((*bound, cumulative));
        }
        let total = cumulative + read(&self.counts[DURATION_BUCKETS.len()]);
        let sum = Duration::from_micros(read(&self.sum_us)).as_secs_f64();
        Sample::histogram(labels, &buckets, total, sum)
    }
}

fn store_families(occupancy: &Occupancy, limits: &Limits) -> [MetricFamily; 3] {
    let states = [
        ("in_flight", occupancy.in_flight),
        ("completed", occupancy.completed),
        ("tombstone", occupancy.tombstones),
    ];
    let caps = [
        ("entries", limits.entries),
        ("in_flight", limits.in_flight),
        ("principal_entries", limits.principal_entries),
        ("principal_in_flight", limits.principal_in_flight),
        ("scope_entries", limits.scope_entries),
        ("scope_in_flight", limits.scope_in_flight),
        ("scope_tombstones", limits.scope_tombstones),
    ];
    [
        exposition::gauge(
            "onceward_store_records",
            "Records in the store by state; expired ones count until they are swept.",
            states.map(|(state, count)| Sample::level(&[("state", state)], count)),
        ),
        exposition::gauge(
            "onceward_store_capacity",
            "Most records that the store allows, by the name of the limit.",
            caps.map(|(limit, count)| Sample::level(&[("limit", limit)], count)),
        ),
        exposition::counter(
            "onceward_store_evictions_total",
            "Completed records evicted to make room for newer ones.",
            [Sample::count(&[], occupancy.evictions)],
        ),
    ]
}

fn process_families(readings: &Readings<'_>) -> [MetricFamily; 7] {
    let HandshakeFailures { timeout, not_tls, refused } = readings.handshake_failures;
    let reloads = |reloads: Reloads| {
        [("success", reloads.succeeded), ("failure", reloads.failed)]
            .map(|(result, count)| Sample::count(&[("result", result)], count))
    };
    [
        exposition::counter(
            "onceward_policy_reloads_total",
            "Loads of a changed policy by result; after a failure the last good one stays.",
            reloads(readings.policy_reloads),
        ),
        exposition::counter(
            "onceward_sessions_reloads_total",
            "Loads of a changed sessions file by result; after a failure the last good one stays.",
            reloads(readings.sessions_reloads),
        ),
        exposition::counter(
            "onceward_certificate_reloads_total",
            "Loads of changed certificates of the listener by result; after a failure the last good ones stay.",
            reloads(readings.certificate_reloads),
        ),
        exposition::counter(
            "onceward_handshake_failures_total",
            "Connections of a TLS listener that did not begin, by cause.",
            [("timeout", timeout), ("not_tls", not_tls), ("refused", refused)]
                .map(|(cause, count)| Sample::count(&[("cause", cause)], count)),
        ),
        exposition::counter(
            "onceward_audit_dropped_total",
            "Audit lines that were not written: the queue was full or the sink failed.",
            [Sample::count(&[], readings.audit_dropped)],
        ),
        exposition::counter(
            "onceward_traces_dropped_total",
            "Spans that were not sent: the queue was full or the collector failed.",
            [Sample::count(&[], readings.traces_dropped)],
        ),
        exposition::gauge(
            "onceward_build_info",
            "Always 1; the labels say which build runs.",
            [Sample::level(&[("version", env!("CARGO_PKG_VERSION"))], 1)],
        ),
    ]
}

#[cfg(test)]
mod tests;
