//! Receipts: what was called, how often, and what came of it (EFFECTS section 6).

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::json;

use super::reply;
use super::state::AdminState;
use crate::store::{ReceiptId, ReceiptQuery, StoreError};

/// A page of receipts, newest first.
pub(super) async fn page(state: web::Data<AdminState>, request: HttpRequest) -> HttpResponse {
    match ReceiptQuery::parse(request.query_string()) {
        Err(error) => bad_query(&error.to_string()),
        Ok(query) => match state.options.store.receipts(query).await {
            Ok(page) => reply::start(StatusCode::OK)
                .json(json!({ "receipts": page.receipts, "next": page.next })),
            Err(error) => unavailable(&error),
        },
    }
}

/// One receipt.
pub(super) async fn one(state: web::Data<AdminState>, id: web::Path<String>) -> HttpResponse {
    let Some(id) = ReceiptId::parse(&id) else { return unknown() };
    match state.options.store.receipt(id).await {
        Ok(Some(receipt)) => reply::start(StatusCode::OK).json(receipt),
        Ok(None) => unknown(),
        Err(error) => unavailable(&error),
    }
}

fn bad_query(message: &str) -> HttpResponse {
    reply::start(StatusCode::BAD_REQUEST).json(json!({ "error": "bad_query", "message": message }))
}

fn unknown() -> HttpResponse {
    let message = "there is no such receipt; receipts are kept for `receipts.retention`, at most \
                   `receipts.entries` of them";
    reply::start(StatusCode::NOT_FOUND)
        .json(json!({ "error": "unknown_receipt", "message": message }))
}

fn unavailable(error: &StoreError) -> HttpResponse {
    reply::start(StatusCode::SERVICE_UNAVAILABLE)
        .json(json!({ "error": "store_unavailable", "message": error.to_string() }))
}
