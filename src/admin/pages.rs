//! The pages of the admin listener.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use serde_json::{Value, json};

use super::reply;
use super::state::{AdminOptions, AdminState, Source};
use crate::claim::Limits;
use crate::observe::metrics::CONTENT_TYPE;
use crate::observe::{Readings, Reloads};

/// The process runs.
pub(super) async fn healthz() -> HttpResponse {
    reply::start(StatusCode::OK).json(json!({"status": "ok"}))
}

/// Whether traffic should come here.
pub(super) async fn readyz(state: web::Data<AdminState>) -> HttpResponse {
    let reasons = state.not_ready();
    if reasons.is_empty() {
        return reply::start(StatusCode::OK).json(json!({"status": "ready"}));
    }
    reply::start(StatusCode::SERVICE_UNAVAILABLE)
        .json(json!({"status": "not_ready", "reasons": reasons}))
}

/// The metrics in the Prometheus text format.
pub(super) async fn metrics(state: web::Data<AdminState>) -> HttpResponse {
    let options = &state.options;
    let rendered = options.metrics.render(&Readings {
        occupancy: &options.store.occupancy(),
        limits: &options.limits,
        policy_reloads: options.policy.policy().reloads,
        sessions_reloads: options.policy.sessions().map(|s| s.reloads).unwrap_or_default(),
        certificate_reloads: options.policy.certificates().map(|s| s.reloads).unwrap_or_default(),
        handshake_failures: options.policy.handshake_failures(),
        audit_dropped: options.audit.dropped(),
        traces_dropped: traces_dropped(options),
    });
    match rendered {
        Ok(text) => reply::start(StatusCode::OK).content_type(CONTENT_TYPE).body(text),
        Err(error) => {
            tracing::error!(%error, "a scrape failed");
            reply::start(StatusCode::INTERNAL_SERVER_ERROR)
                .json(json!({"error": "internal", "message": error.to_string()}))
        }
    }
}

/// Everything that an operator asks first.
pub(super) async fn status(state: web::Data<AdminState>) -> HttpResponse {
    let options = &state.options;
    let reasons = state.not_ready();
    reply::start(StatusCode::OK).json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started": options.started.to_string(),
        "ready": reasons.is_empty(),
        "reasons": reasons,
        "policy": source(&options.policy.policy()),
        "sessions": options.policy.sessions().as_ref().map(source),
        "certificates": options.policy.certificates().as_ref().map(source),
        "store": store(&state),
        "audit": {"dropped": options.audit.dropped()},
        "traces": {"dropped": traces_dropped(options)},
        "servers": options.policy.servers(),
        "config": options.config,
    }))
}

fn traces_dropped(options: &AdminOptions) -> u64 {
    options.traces.as_ref().map_or(0, |traces| traces.dropped())
}

fn source(source: &Source) -> Value {
    let Reloads { succeeded, failed } = source.reloads;
    json!({
        "revision": source.revision,
        "last_error": source.last_error,
        "reloads": {"success": succeeded, "failure": failed},
    })
}

fn store(state: &AdminState) -> Value {
    let store = &state.options.store;
    let occupancy = store.occupancy();
    json!({
        "kind": store.kind(),
        "error": store.ready().err().map(|error| error.to_string()),
        "records": occupancy.records,
        "in_flight": occupancy.in_flight,
        "completed": occupancy.completed,
        "tombstones": occupancy.tombstones,
        "evictions": occupancy.evictions,
        "limits": limits(&state.options.limits),
    })
}

/// The caps under the names of the `[limits]` table; times in milliseconds.
fn limits(limits: &Limits) -> Value {
    json!({
        "ttl_ms": limits.ttl.0,
        "tombstone_ttl_ms": limits.tombstone_ttl.0,
        "entries": limits.entries,
        "in_flight": limits.in_flight,
        "principal_entries": limits.principal_entries,
        "principal_in_flight": limits.principal_in_flight,
        "scope_entries": limits.scope_entries,
        "scope_in_flight": limits.scope_in_flight,
        "scope_tombstones": limits.scope_tombstones,
        "reply_bytes": limits.reply_bytes,
    })
}
