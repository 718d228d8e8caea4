//! `/receipts`: a workspace's own receipts, for whoever holds one of its API keys (EFFECTS section
//! 6).

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::dev::RequestHead;
use actix_web::http::Method;
use actix_web::http::header::{CACHE_CONTROL, HeaderValue};
use jiff::Timestamp;
use serde_json::json;

use super::error::Refusal;
use super::router::{Found, Route};
use super::state::Gateway;
use crate::identity::{self, Credentials, Verified};
use crate::store::{ReceiptId, ReceiptQuery};

const PATH: &str = "/receipts";

/// The server whose callers a request for receipts is judged as; `None` where none is asked for, or
/// nobody has a workspace.
pub fn asked(gateway: &Gateway, head: &RequestHead) -> Option<Arc<Route>> {
    let rest = head.uri.path().strip_prefix(PATH)?;
    if !rest.is_empty() && !rest.starts_with('/') {
        return None;
    }
    match gateway.router.find(head.uri.path()) {
        // A server at this very path goes before.
        Found::Route(_) => None,
        Found::Unknown | Found::NoPolicy => gateway.router.of_workspaces(),
    }
}

/// Answers with a page of the caller's workspace, or with one receipt of it.
///
/// # Errors
///
/// 401 without a workspace's API key, 400 for a bad query, 404 for a receipt that is not the
/// workspace's, 405, and 503 where the store does not answer.
pub async fn answer(
    gateway: &Gateway,
    route: &Route,
    head: &RequestHead,
) -> Result<HttpResponse, Refusal> {
    let (sessions, now) = (gateway.sessions.snapshot(), Timestamp::now());
    let shown = Credentials { headers: head.headers(), peer: None, sessions: &sessions, now };
    let identity = identity::authenticate(&route.policy, &shown)
        .map_err(|error| Refusal::unauthenticated(error).at_server(&route.policy.auth))?;
    let workspace = identity.verified().and_then(Verified::workspace);
    let workspace = workspace.ok_or_else(Refusal::key_without_identity)?;
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return Err(Refusal::receipts_are_read());
    }
    let body = match head.uri.path()[PATH.len()..].trim_start_matches('/') {
        "" => page(gateway, workspace, head.uri.query().unwrap_or_default()).await?,
        id => one(gateway, workspace, id).await?,
    };
    let mut response = HttpResponse::Ok().json(body);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

async fn page(
    gateway: &Gateway,
    workspace: &str,
    query: &str,
) -> Result<serde_json::Value, Refusal> {
    let query = ReceiptQuery::parse(query)
        .map_err(|error| Refusal::invalid_receipts_query(&error.to_string()))?;
    let own = ReceiptQuery { workspace: Some(workspace.to_owned()), ..query };
    let page = gateway.store.receipts(own).await.map_err(|_| Refusal::receipts_unavailable())?;
    Ok(json!({ "receipts": page.receipts, "next": page.next }))
}

async fn one(gateway: &Gateway, workspace: &str, id: &str) -> Result<serde_json::Value, Refusal> {
    let id = ReceiptId::parse(id).ok_or_else(Refusal::unknown_receipt)?;
    let receipt = gateway.store.receipt(id).await.map_err(|_| Refusal::receipts_unavailable())?;
    // Another workspace's looks like none.
    let own = receipt.filter(|receipt| receipt.opening.workspace.as_deref() == Some(workspace));
    own.map(|receipt| json!(receipt)).ok_or_else(Refusal::unknown_receipt)
}
