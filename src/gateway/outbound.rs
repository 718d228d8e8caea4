//! The request that goes to the upstream: the client's own bytes, under its own headers, save what
//! belongs to the gateway (CONTRACT sections 3, 7 and 9).

use actix_web::dev::RequestHead;
use actix_web::http::header::HeaderMap;
use actix_web::web::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Uri};
use smallvec::SmallVec;

use super::error::Refusal;
use crate::identity::{AGENT_HEADER, HUMAN_HEADER, Identity, Principal, TEAM_HEADER, Verified};
use crate::policy::{Auth, ServerPolicy};
use crate::upstream::headers::{RequestEdit, request_headers};

// The headers of the gateway as hyper names them, in lower case.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const HUMAN: HeaderName = HeaderName::from_static("x-mcp-human-id");
const AGENT: HeaderName = HeaderName::from_static("x-mcp-agent-id");
const TEAM: HeaderName = HeaderName::from_static("x-mcp-team-id");

/// A request ready to be sent once.
pub struct Outbound {
    /// The request.
    pub request: Request<Full<Bytes>>,
}

impl Outbound {
    /// Builds the request. `keyed` asks the upstream for a plain body, so that it can be kept.
    ///
    /// # Errors
    ///
    /// 400 for a method or query that cannot be forwarded as it stands.
    pub fn new(
        head: &RequestHead,
        policy: &ServerPolicy,
        identity: &Identity,
        body: &Bytes,
        keyed: bool,
    ) -> Result<Self, Refusal> {
        let unforwardable =
            |_| Refusal::invalid_request("The request line cannot be forwarded; correct the URL.");
        let method =
            Method::from_bytes(head.method.as_str().as_bytes()).map_err(|_| unforwardable(()))?;
        let upstream = policy.target.mcp().ok_or_else(|| unforwardable(()))?;
        let uri = target(upstream, head.uri.query()).map_err(|_| unforwardable(()))?;
        let edit = Edit::new(&head.headers, policy, identity, keyed);
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() =
            request_headers(&head.headers, &RequestEdit { drop: &edit.drop, set: &edit.set });
        Ok(Self { request })
    }
}

/// The upstream's URL; the client's query string is forwarded, and follows the URL's own.
fn target(upstream: &Uri, query: Option<&str>) -> Result<Uri, hyper::http::Error> {
    let Some(query) = query else { return Ok(upstream.clone()) };
    let path = match upstream.query() {
        None => format!("{}?{query}", upstream.path()),
        Some(own) => format!("{}?{own}&{query}", upstream.path()),
    };
    let mut parts = upstream.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path)?);
    Ok(Uri::from_parts(parts)?)
}

/// What changes in the headers.
#[derive(Default)]
struct Edit {
    drop: SmallVec<[HeaderName; 5]>,
    set: SmallVec<[(HeaderName, HeaderValue); 4]>,
}

impl Edit {
    fn new(headers: &HeaderMap, policy: &ServerPolicy, identity: &Identity, keyed: bool) -> Self {
        let mut edit = Self::default();
        if keyed {
            edit.drop.push(IDEMPOTENCY_KEY);
            edit.set.push((ACCEPT_ENCODING, HeaderValue::from_static("identity")));
        }
        let verified = identity.verified().map(|verified| verified.principal());
        match policy.auth {
            Auth::ApiKey(_) => {
                if verified.is_some() {
                    edit.drop.push(AUTHORIZATION);
                }
                edit.govern(verified);
            }
            // An access token is for this server alone, verified or not.
            Auth::OAuth(_) => {
                edit.drop.push(AUTHORIZATION);
                edit.govern(verified);
            }
            Auth::Mtls(ref rules) => {
                edit.drop.push(AUTHORIZATION);
                edit.drop.push(rules.header.clone());
                edit.govern(verified);
                let session = identity.verified().and_then(Verified::session);
                edit.say(policy.session.outbound_name.clone(), session);
            }
            // Local use adds nothing to a request, but lets nobody pose as somebody else either.
            Auth::Static(_) if claims_a_principal(headers) => edit.govern(verified),
            Auth::Static(_) | Auth::Header | Auth::None => {}
        }
        if let Some(token) = &policy.session.upstream_token {
            edit.set.push((token.header.clone(), token.value.clone()));
        }
        edit
    }

    /// Where the gateway knows the caller, the caller's own governance headers mean nothing.
    fn govern(&mut self, verified: Option<&Principal>) {
        let parts = [
            (HUMAN, verified.and_then(Principal::human)),
            (AGENT, verified.and_then(Principal::agent)),
            (TEAM, verified.and_then(Principal::team)),
        ];
        for (name, part) in parts {
            self.say(name, part);
        }
    }

    /// The header says this and nothing else, or is not there.
    fn say(&mut self, name: HeaderName, value: Option<&str>) {
        match value.map(HeaderValue::from_str) {
            Some(Ok(value)) => self.set.push((name, value)),
            _ => self.drop.push(name),
        }
    }
}

fn claims_a_principal(headers: &HeaderMap) -> bool {
    [HUMAN_HEADER, AGENT_HEADER, TEAM_HEADER].iter().any(|name| headers.contains_key(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hypers_names_are_those_that_actix_web_reads() {
        assert_eq!(IDEMPOTENCY_KEY.as_str(), crate::gateway::key::IDEMPOTENCY_KEY.as_str());
        for (name, text) in [(HUMAN, HUMAN_HEADER), (AGENT, AGENT_HEADER), (TEAM, TEAM_HEADER)] {
            assert_eq!(name.as_str(), text.to_ascii_lowercase());
        }
    }

    #[test]
    fn the_clients_query_follows_the_urls_own() {
        let cases = [
            ("http://h/mcp", None, "http://h/mcp"),
            ("http://h/mcp", Some("dry=1"), "http://h/mcp?dry=1"),
            ("http://h/mcp?a=b", Some("dry=1"), "http://h/mcp?a=b&dry=1"),
            ("http://h", Some("x"), "http://h/?x"),
        ];
        for (upstream, query, wanted) in cases {
            let uri = target(&upstream.parse().expect("a URL"), query).expect("a target");
            assert_eq!(uri, wanted.parse::<Uri>().expect("a URL"), "{upstream} {query:?}");
        }
    }
}
