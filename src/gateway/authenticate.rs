//! Authenticate: from the request's head to who calls.

use actix_web::dev::RequestHead;

use super::error::Refusal;
use super::router::Route;
use crate::identity::{self, Authentication, Identity, Now};

/// Who calls, by the server's rules. Waits only where an access token's issuer has to be asked.
///
/// # Errors
///
/// 401 with a challenge; in mode `oauth` 400 for a token in the query, in observe mode too, 403 for
/// one that lacks a scope, and 503 where the issuer does not answer.
pub async fn identify(route: &Route, head: &RequestHead) -> Result<Identity, Refusal> {
    let policy = &route.policy;
    let outcome = match &route.verifier {
        None => identity::authenticate(&policy.auth, head.headers()),
        Some(_) if head.uri.query().is_some_and(identity::is_token_in_query) => {
            return Err(Refusal::token_in_query().at_server(&policy.auth));
        }
        Some(verifier) => match verifier.authenticate(head.headers(), Now::read()) {
            Authentication::Known(outcome) => outcome,
            Authentication::Asking(outcome) => outcome.await,
        },
    };
    identity::in_mode(policy.mode, outcome)
        .map_err(|error| Refusal::unauthenticated(error).at_server(&policy.auth))
}
