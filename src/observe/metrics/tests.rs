//! The text of a scrape, line by line.

use super::*;

const NOTHING: Occupancy =
    Occupancy { records: 0, in_flight: 0, completed: 0, tombstones: 0, evictions: 0 };

fn scrape(metrics: &Metrics) -> String {
    scrape_with(metrics, &NOTHING)
}

fn scrape_with(metrics: &Metrics, occupancy: &Occupancy) -> String {
    let readings = Readings {
        occupancy,
        limits: &Limits::default(),
        policy_reloads: Reloads { succeeded: 3, failed: 1 },
        sessions_reloads: Reloads { succeeded: 7, failed: 2 },
        certificate_reloads: Reloads { succeeded: 3, failed: 5 },
        handshake_failures: HandshakeFailures { timeout: 11, not_tls: 12, refused: 13 },
        audit_dropped: 5,
        traces_dropped: 6,
    };
    metrics.render(&readings).expect("a text")
}

/// The series of one family, without its comments.
fn series<'t>(text: &'t str, family: &str) -> Vec<&'t str> {
    let own = |line: &&str| {
        line.strip_prefix(family).is_some_and(|rest| rest.starts_with(['{', ' ', '_']))
    };
    text.lines().filter(own).collect()
}

#[test]
fn a_new_server_has_all_eight_outcomes_at_zero() {
    let metrics = Metrics::new();
    metrics.server("payments", "ledger");
    assert_eq!(
        series(&scrape(&metrics), "mcp_gateway_idempotency_total"),
        [
            r#"mcp_gateway_idempotency_total{namespace="payments",server="ledger",outcome="first"} 0"#,
            r#"mcp_gateway_idempotency_total{namespace="payments",server="ledger",outcome="replay"} 0"#,
            r#"mcp_gateway_idempotency_total{namespace="payments",server="ledger",outcome="conflict"} 0"#,
            r#"mcp_gateway_idempotency_total{namespace="payments",server="ledger",outcome="in_flight"} 0"#,
            r#"mcp_gateway_idempotency_total{namespace="payments",server="ledger",outcome="unknown_outcome"} 0"#,
            r#"mcp_gateway_idempotency_total{namespace="payments",server="ledger",outcome="not_replayable"} 0"#,
            r#"mcp_gateway_idempotency_total{namespace="payments",server="ledger",outcome="capacity"} 0"#,
            r#"mcp_gateway_idempotency_total{namespace="payments",server="ledger",outcome="rejected"} 0"#,
        ]
    );
}

#[test]
fn each_outcome_counts_in_its_own_series() {
    let metrics = Metrics::new();
    let server = metrics.server("n", "s");
    for (times, outcome) in IdempotencyOutcome::ALL.into_iter().enumerate() {
        (0..=times).for_each(|_| server.idempotency(outcome));
    }
    let text = scrape(&metrics);
    for (times, outcome) in IdempotencyOutcome::ALL.into_iter().enumerate() {
        let line = format!(
            r#"mcp_gateway_idempotency_total{{namespace="n",server="s",outcome="{}"}} {}"#,
            outcome.as_str(),
            times + 1
        );
        assert!(text.lines().any(|l| l == line), "{line} is missing:\n{text}");
    }
}

#[test]
fn servers_whose_names_concatenate_alike_are_told_apart() {
    let metrics = Metrics::new();
    metrics.server("ab", "c").idempotency(IdempotencyOutcome::First);
    metrics.server("a", "bc").attempt(AttemptResult::Timeout);
    let text = scrape(&metrics);
    for line in [
        r#"mcp_gateway_idempotency_total{namespace="ab",server="c",outcome="first"} 1"#,
        r#"mcp_gateway_idempotency_total{namespace="a",server="bc",outcome="first"} 0"#,
        r#"onceward_upstream_attempts_total{namespace="ab",server="c",result="timeout"} 0"#,
        r#"onceward_upstream_attempts_total{namespace="a",server="bc",result="timeout"} 1"#,
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is missing:\n{text}");
    }
}

#[test]
fn a_server_that_is_asked_for_again_keeps_its_counts() {
    let metrics = Metrics::new();
    metrics.server("n", "s").attempt(AttemptResult::Replied);
    metrics.server("n", "s").attempt(AttemptResult::Replied);
    metrics.server("n", "s").attempt(AttemptResult::Disconnected);
    assert_eq!(
        series(&scrape(&metrics), "onceward_upstream_attempts_total"),
        [
            r#"onceward_upstream_attempts_total{namespace="n",server="s",result="replied"} 2"#,
            r#"onceward_upstream_attempts_total{namespace="n",server="s",result="unsent"} 0"#,
            r#"onceward_upstream_attempts_total{namespace="n",server="s",result="timeout"} 0"#,
            r#"onceward_upstream_attempts_total{namespace="n",server="s",result="disconnected"} 1"#,
        ]
    );
}

#[test]
fn a_request_counts_by_status_class_and_duration() {
    let metrics = Metrics::new();
    let server = metrics.server("n", "s");
    server.request(200, Duration::from_millis(1));
    server.request(204, Duration::from_micros(1001));
    server.request(409, Duration::ZERO);
    server.request(502, Duration::from_secs(61));
    let text = scrape(&metrics);
    assert_eq!(
        series(&text, "onceward_requests_total"),
        [
            r#"onceward_requests_total{namespace="n",server="s",status="2xx"} 2"#,
            r#"onceward_requests_total{namespace="n",server="s",status="3xx"} 0"#,
            r#"onceward_requests_total{namespace="n",server="s",status="4xx"} 1"#,
            r#"onceward_requests_total{namespace="n",server="s",status="5xx"} 1"#,
            r#"onceward_requests_total{namespace="n",server="s",status="other"} 0"#,
        ]
    );
    for line in [
        r#"onceward_request_duration_seconds_bucket{namespace="n",server="s",le="0.0005"} 1"#,
        r#"onceward_request_duration_seconds_bucket{namespace="n",server="s",le="0.001"} 2"#,
        r#"onceward_request_duration_seconds_bucket{namespace="n",server="s",le="0.0025"} 3"#,
        r#"onceward_request_duration_seconds_bucket{namespace="n",server="s",le="60"} 3"#,
        r#"onceward_request_duration_seconds_bucket{namespace="n",server="s",le="+Inf"} 4"#,
        r#"onceward_request_duration_seconds_sum{namespace="n",server="s"} 61.002001"#,
        r#"onceward_request_duration_seconds_count{namespace="n",server="s"} 4"#,
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is missing:\n{text}");
    }
}

#[test]
fn the_stores_occupancy_stands_beside_its_caps() {
    let occupancy =
        Occupancy { records: 9, in_flight: 2, completed: 4, tombstones: 3, evictions: 11 };
    let text = scrape_with(&Metrics::new(), &occupancy);
    assert_eq!(
        series(&text, "onceward_store_records"),
        [
            r#"onceward_store_records{state="in_flight"} 2"#,
            r#"onceward_store_records{state="completed"} 4"#,
            r#"onceward_store_records{state="tombstone"} 3"#,
        ]
    );
    assert_eq!(
        series(&text, "onceward_store_capacity"),
        [
            r#"onceward_store_capacity{limit="entries"} 256"#,
            r#"onceward_store_capacity{limit="in_flight"} 32"#,
            r#"onceward_store_capacity{limit="principal_entries"} 64"#,
            r#"onceward_store_capacity{limit="principal_in_flight"} 8"#,
            r#"onceward_store_capacity{limit="scope_entries"} 32"#,
            r#"onceward_store_capacity{limit="scope_in_flight"} 4"#,
            r#"onceward_store_capacity{limit="scope_tombstones"} 8"#,
        ]
    );
    assert_eq!(
        series(&text, "onceward_store_evictions_total"),
        ["onceward_store_evictions_total 11"]
    );
}

#[test]
fn the_process_says_its_reloads_drops_and_build() {
    let text = scrape(&Metrics::new());
    let build = concat!(r#"onceward_build_info{version=""#, env!("CARGO_PKG_VERSION"), "\"} 1");
    for line in [
        r#"onceward_policy_reloads_total{result="success"} 3"#,
        r#"onceward_policy_reloads_total{result="failure"} 1"#,
        r#"onceward_sessions_reloads_total{result="success"} 7"#,
        r#"onceward_sessions_reloads_total{result="failure"} 2"#,
        r#"onceward_certificate_reloads_total{result="success"} 3"#,
        r#"onceward_certificate_reloads_total{result="failure"} 5"#,
        r#"onceward_handshake_failures_total{cause="timeout"} 11"#,
        r#"onceward_handshake_failures_total{cause="not_tls"} 12"#,
        r#"onceward_handshake_failures_total{cause="refused"} 13"#,
        "onceward_audit_dropped_total 5",
        build,
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is missing:\n{text}");
    }
}

#[test]
fn a_name_from_the_policy_cannot_forge_a_line() {
    let metrics = Metrics::new();
    metrics.server("a\"} 1\nforged 1", "b\\");
    let text = scrape(&metrics);
    assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");
    assert!(text.contains(r#"{namespace="a\"} 1\nforged 1",server="b\\","#), "{text}");
}

/// What `promtool check metrics` asks of names and comments.
#[test]
fn every_family_is_named_and_explained_as_promtool_asks() {
    let metrics = Metrics::new();
    metrics.server("n", "s");
    let text = scrape(&metrics);
    let mut families = 0;
    for line in text.lines() {
        let Some(comment) = line.strip_prefix("# TYPE ") else {
            continue;
        };
        let (name, kind) = comment.split_once(' ').expect("a name and a type");
        families += 1;
        assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help");
        assert_eq!(text.matches(&format!("# TYPE {name} ")).count(), 1, "{name} comes twice");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
        let reserved = ["_count", "_sum", "_bucket", "_milliseconds", "_ms", "_kilobytes"];
        assert!(!reserved.iter().any(|ending| name.ends_with(ending)), "{name}");
        assert!(name.chars().all(|c| matches!(c, 'a'..='z' | '_')), "{name}");
    }
    assert_eq!(families, 14);
}
