//! Who may read the admin listener: its names, and its bearer token.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{AUTHORIZATION, HeaderMap};
use actix_web::middleware::Next;
use actix_web::{Error, web};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::reply;
use super::state::AdminState;

/// Lets a request pass that means this listener by one of its names.
pub(super) async fn require_host(
    state: web::Data<AdminState>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    if !state.options.hosts.admit(request.head()) {
        return Ok(request.into_response(reply::host_not_allowed()));
    }
    Ok(next.call(request).await?.map_into_boxed_body())
}

/// Lets a request pass that carries the token, or any request where none is configured.
pub(super) async fn require_token(
    state: web::Data<AdminState>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let open = match &state.options.token_sha256 {
        Some(expected) => presents_token(request.headers(), expected),
        None => true,
    };
    if !open {
        return Ok(request.into_response(reply::unauthorized()));
    }
    Ok(next.call(request).await?.map_into_boxed_body())
}

/// Whether the one `Authorization` line holds the token whose SHA-256 is `expected`. Digests are
/// compared in constant time, so that neither length nor prefix of the token leaks.
fn presents_token(headers: &HeaderMap, expected: &[u8; 32]) -> bool {
    let mut lines = headers.get_all(AUTHORIZATION);
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return false;
    };
    let Some((scheme, token)) = line.as_bytes().split_at_checked("Bearer ".len()) else {
        return false;
    };
    let digest: [u8; 32] = Sha256::digest(token).into();
    scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(digest.ct_eq(expected))
}
