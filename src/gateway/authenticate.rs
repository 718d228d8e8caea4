//! Authenticate: from the request's headers to who calls.

use actix_web::http::header::HeaderMap;

use super::error::Refusal;
use crate::identity::{self, Identity};
use crate::policy::ServerPolicy;

/// Who calls, by the server's rules.
///
/// # Errors
///
/// 401 with a challenge.
pub fn identify(policy: &ServerPolicy, headers: &HeaderMap) -> Result<Identity, Refusal> {
    identity::identify(policy, headers).map_err(Refusal::unauthenticated)
}
