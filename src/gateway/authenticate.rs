//! Authenticate: from what the request and its connection show to who calls.

use super::error::Refusal;
use crate::identity::{self, Credentials, Identity};
use crate::policy::ServerPolicy;

/// Who calls, by the server's rules.
///
/// # Errors
///
/// 401 with a challenge.
pub fn identify(policy: &ServerPolicy, credentials: &Credentials<'_>) -> Result<Identity, Refusal> {
    identity::identify(policy, credentials).map_err(Refusal::unauthenticated)
}
