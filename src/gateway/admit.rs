//! What is judged before a body is read: origin, policy, path, and the headers of the body.
//!
//! A request that expects `100 Continue` is judged by these and by its credential and key too,
//! before it is told to go on, so that an early refusal costs no body (RFC 9110, section 10.1.1).

use std::sync::Arc;

use actix_web::dev::RequestHead;
use actix_web::http::Method;
use actix_web::http::header::{self, HeaderValue};

use super::error::Refusal;
use super::inspect::{self, Media};
use super::router::{Found, Route};
use super::state::Gateway;
use super::{authenticate, key, resource_metadata};
use crate::identity::Peer;

/// A request that may be read.
pub struct Admitted {
    /// Where it leads.
    pub route: Arc<Route>,
    /// What its body is.
    pub media: Media,
}

/// The web origin of a request, if it has one.
///
/// # Errors
///
/// 403 for one that may not call, and for a request that means another host.
pub fn origin(gateway: &Gateway, head: &RequestHead) -> Result<Option<HeaderValue>, Refusal> {
    if !gateway.hosts.admit(head) {
        return Err(Refusal::host_not_allowed());
    }
    gateway.origins.check(head.headers())
}

/// Finds the server and judges the headers of the body.
///
/// # Errors
///
/// 400 for a request that would leave HTTP, 503 without a policy, 404 for an unknown path, 413 and 415 by [`inspect::head`].
pub fn head(gateway: &Gateway, head: &RequestHead) -> Result<Admitted, Refusal> {
    if leaves_http(head) {
        return Err(Refusal::leaves_http());
    }
    let route = match gateway.router.find(head.uri.path()) {
        Found::Route(route) => route,
        Found::Unknown => return Err(Refusal::unknown_path()),
        Found::NoPolicy => return Err(Refusal::policy_unavailable()),
    };
    let media = inspect::head(&head.method, head.headers(), gateway.body)?;
    Ok(Admitted { route, media })
}

/// Whether the HTTP server takes all that follows this head, up to the connection's end, for its
/// body, whatever length it declares: anybody who reads the length sees another request there.
fn leaves_http(head: &RequestHead) -> bool {
    let websocket =
        |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"websocket");
    head.method == Method::CONNECT || head.headers().get_all(header::UPGRADE).any(websocket)
}

/// A request that is told not to go on, and the server that it was for, where one is known.
pub struct NotContinued {
    /// The answer.
    pub refusal: Refusal,
    /// The server.
    pub route: Option<Arc<Route>>,
}

/// Everything that headers alone can decide: for a client that waits for `100 Continue`. It learns
/// of a bad credential or key before it sends a body, whatever the body would have been.
///
/// # Errors
///
/// The refusal, final: the body is not asked for.
pub async fn before_continue(
    gateway: &Gateway,
    request: &RequestHead,
    peer: Option<&Peer>,
) -> Result<(), Box<NotContinued>> {
    let mut route = None;
    let judged = judge(gateway, request, peer, &mut route).await;
    judged.map_err(|refusal| Box::new(NotContinued { refusal, route }))
}

async fn judge(
    gateway: &Gateway,
    request: &RequestHead,
    peer: Option<&Peer>,
    found: &mut Option<Arc<Route>>,
) -> Result<(), Refusal> {
    if gateway.drain.is_draining() {
        return Err(Refusal::shutting_down());
    }
    origin(gateway, request)?;
    if resource_metadata::answer(gateway, request).is_some() {
        return Ok(());
    }
    let route = head(gateway, request)?.route;
    let route = found.insert(route);
    authenticate::identify(gateway, route, request, peer).await?;
    key::from_header(request.headers(), route.policy.idempotency.format)?;
    Ok(())
}
