//! The replies that the pages share. None may be cached, and none carries a CORS header: no web page
//! of another origin has business here.

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, CACHE_CONTROL, WWW_AUTHENTICATE};
use actix_web::{HttpResponse, HttpResponseBuilder};
use serde_json::json;

/// The beginning of every reply of the listener.
pub(super) fn start(status: StatusCode) -> HttpResponseBuilder {
    let mut reply = HttpResponse::build(status);
    reply.insert_header((CACHE_CONTROL, "no-store"));
    reply
}

/// No such page.
pub(super) async fn not_found() -> HttpResponse {
    let message = "use /healthz, /readyz, /metrics, /v1/status or /v1/receipts";
    start(StatusCode::NOT_FOUND).json(json!({"error": "not_found", "message": message}))
}

/// The page exists, but it can only be read.
pub(super) async fn method_not_allowed() -> HttpResponse {
    start(StatusCode::METHOD_NOT_ALLOWED)
        .insert_header((ALLOW, "GET, HEAD"))
        .json(json!({"error": "method_not_allowed", "message": "use GET or HEAD"}))
}

/// The listener was asked under a name that is not its own.
pub(super) fn host_not_allowed() -> HttpResponse {
    let message = "use a name of this machine, or add the name to `listen.allowed_hosts`";
    start(StatusCode::FORBIDDEN).json(json!({"error": "host_not_allowed", "message": message}))
}

/// The token is absent or another one.
pub(super) fn unauthorized() -> HttpResponse {
    let message = "send `Authorization: Bearer` with the admin token";
    start(StatusCode::UNAUTHORIZED)
        .insert_header((WWW_AUTHENTICATE, "Bearer realm=\"onceward-admin\""))
        .json(json!({"error": "unauthorized", "message": message}))
}
