//! What the gateway tells a caller beside the reply: the effective key, so that a caller who sent
//! none can retry the same call, and the route that a capability took (EFFECTS sections 3 and 4).
//!
//! Both go in on the way out, into first reply and replay alike; the store keeps the upstream's
//! bytes.

use actix_web::HttpResponse;
use actix_web::http::header::HeaderValue;
use actix_web::web::Bytes;

use smallvec::SmallVec;

use super::key::IDEMPOTENCY_KEY;
use crate::claim::Key;
use crate::claim::json::{JsonText, set_in_result_meta};
use crate::upstream::media_type::is_json;

/// The member of a result's `_meta` that tells the effective key.
const KEY_MEMBER: &str = "dev.onceward/idempotency-key";
/// The member that tells the route.
const ROUTE_MEMBER: &str = "dev.onceward/route";

/// What is told of one call.
#[derive(Clone, Default)]
pub struct Telling {
    /// The effective key, on a server with `keys: always`.
    pub key: Option<Key>,
    /// The route record, JSON text, of a capability.
    pub route: Option<Bytes>,
}

impl Telling {
    /// The same with the route that a stored reply took.
    pub fn with_route(&self, stored: Option<&Bytes>) -> Self {
        Self { key: self.key.clone(), route: stored.cloned().or_else(|| self.route.clone()) }
    }

    /// A whole reply with what is told in its result's `_meta`; a body that is no JSON-RPC result,
    /// or whose result is no object, stays as it is.
    pub fn fill(&self, content_type: Option<&[u8]>, body: Bytes) -> Bytes {
        if !is_json(content_type) {
            return body;
        }
        let key = self.key.as_ref().map(|key| (KEY_MEMBER, JsonText::string(key.as_str())));
        let route = self.route.as_ref().and_then(|route| JsonText::parse(route).ok());
        let told: SmallVec<[_; 2]> =
            key.into_iter().chain(route.map(|route| (ROUTE_MEMBER, route))).collect();
        match told.is_empty() {
            true => body,
            false => set_in_result_meta(&body, &told).map_or(body, Bytes::from),
        }
    }
}

/// Tells the effective key in the header of a response.
pub fn tell_key(response: &mut HttpResponse, key: &Key) {
    if let Ok(value) = HeaderValue::from_str(key.as_str()) {
        response.headers_mut().insert(IDEMPOTENCY_KEY, value);
    }
}
