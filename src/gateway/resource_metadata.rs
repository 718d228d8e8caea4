//! The servers of mode `oauth` as protected resources: where a client learns whose tokens they take
//! (RFC 9728).

use actix_web::HttpResponse;
use actix_web::dev::RequestHead;
use actix_web::http::Method;
use serde::Serialize;

use super::state::Gateway;
use crate::policy::{Auth, OAuth};

/// The metadata of one server.
#[derive(Serialize)]
struct Metadata<'r> {
    resource: &'r str,
    resource_name: &'r str,
    authorization_servers: [&'r str; 1],
    bearer_methods_supported: [&'static str; 1],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    scopes_supported: &'r [String],
}

/// The answer to a request for a server's metadata, which anybody may read; `None` for any other.
pub fn answer(gateway: &Gateway, head: &RequestHead) -> Option<HttpResponse> {
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return None;
    }
    let route = gateway.router.metadata(head.uri.path())?;
    let Auth::OAuth(rules) = &route.policy.auth else { return None };
    let metadata = metadata(rules, &route.policy.name)?;
    Some(HttpResponse::Ok().json(metadata))
}

fn metadata<'r>(rules: &'r OAuth, name: &'r str) -> Option<Metadata<'r>> {
    Some(Metadata {
        resource: &rules.resource.as_ref()?.uri,
        resource_name: name,
        authorization_servers: [&rules.issuer],
        bearer_methods_supported: ["header"],
        scopes_supported: &rules.scopes,
    })
}
