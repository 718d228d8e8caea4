//! Authenticate: from what the request and its connection show to who calls.

use actix_web::dev::RequestHead;
use jiff::Timestamp;

use super::error::Refusal;
use super::router::Route;
use super::state::Gateway;
use crate::identity::{self, Authentication, Credentials, Identity, Now, Peer};

/// Who calls, by the server's rules. Waits only where an access token's issuer has to be asked.
///
/// # Errors
///
/// 401 with a challenge; in mode `oauth` 400 for a token in the query, in observe mode too, 403 for
/// one that lacks a scope, and 503 where the issuer does not answer.
pub async fn identify(
    gateway: &Gateway,
    route: &Route,
    head: &RequestHead,
    peer: Option<&Peer>,
) -> Result<Identity, Refusal> {
    let (policy, headers) = (&route.policy, head.headers());
    let outcome = match &route.verifier {
        None => {
            let (sessions, now) = (gateway.sessions.snapshot(), Timestamp::now());
            let shown = Credentials { headers, peer, sessions: &sessions, now };
            identity::authenticate(policy, &shown)
        }
        Some(_) if head.uri.query().is_some_and(identity::is_token_in_query) => {
            return Err(Refusal::token_in_query().at_server(&policy.auth));
        }
        Some(verifier) => match verifier.authenticate(headers, Now::read()) {
            Authentication::Known(outcome) => outcome,
            Authentication::Asking(outcome) => outcome.await,
        },
    };
    identity::in_mode(policy.mode, outcome)
        .map_err(|error| Refusal::unauthenticated(error).at_server(&policy.auth))
}
