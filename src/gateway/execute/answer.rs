//! The answers of a keyed call: the reply as its caller gets it, first and again.

use actix_web::HttpResponse;
use actix_web::body::BoxBody;
use actix_web::web::Bytes;

use crate::claim::Reply;
use crate::gateway::claim::Claim;
use crate::gateway::{native, reply};
use crate::native::{VendorReply, Verdict};
use crate::upstream::Outcome;

/// A whole reply, for the first time.
pub(super) struct First<'r> {
    /// The upstream's status.
    pub(super) status: u16,
    /// Its headers.
    pub(super) headers: &'r hyper::HeaderMap,
    /// What it came to.
    pub(super) outcome: &'r Outcome,
    /// Its body.
    pub(super) body: Bytes,
    /// Whether the gateway's CORS headers take the place of the upstream's.
    pub(super) cross_origin: bool,
}

/// A whole reply as its caller gets it.
pub(super) fn first(claim: &Claim, first: First<'_>) -> HttpResponse {
    let content_type = first.headers.get(hyper::header::CONTENT_TYPE).map(|value| value.as_bytes());
    if claim.destination.callable().is_some() {
        let vendor = VendorReply {
            status: first.status,
            content_type,
            body: &first.body,
            verdict: native::verdict(first.outcome),
        };
        return native::result(&vendor, claim.id.as_raw(), &claim.telling);
    }
    let body = match first.outcome {
        Outcome::Complete(_) => claim.telling.fill(content_type, first.body),
        _ => first.body,
    };
    reply::head(first.status, first.headers, first.cross_origin, BoxBody::new(body))
}

/// A stored reply again.
pub(super) fn replay(claim: &Claim, stored: &Reply) -> HttpResponse {
    let telling = claim.telling.with_route(stored.route());
    let content_type = stored.content_type().map(|value| value.as_ref());
    if claim.destination.callable().is_none() {
        let retrys_id = claim.carries_retrys_id.then(|| claim.id.as_raw());
        return reply::replay(stored, retrys_id, &telling);
    }
    let vendor = VendorReply {
        status: stored.status(),
        content_type,
        body: stored.body(),
        verdict: Verdict::Accepted,
    };
    let mut response = native::result(&vendor, claim.id.as_raw(), &telling);
    reply::mark_replayed(&mut response);
    response
}
