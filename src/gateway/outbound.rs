//! The request that goes to the upstream: the client's own bytes, under its own headers, save what
//! belongs to the gateway (CONTRACT sections 3, 7 and 9).

use std::borrow::Cow;

use actix_web::dev::RequestHead;
use actix_web::http::header::{HeaderMap, HeaderValue as ClientValue};
use actix_web::web::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Uri};
use smallvec::SmallVec;
use url::form_urlencoded;

use super::error::Refusal;
use super::message::Message;
use super::propagate;
use crate::claim::Key;
use crate::identity::{AGENT_HEADER, HUMAN_HEADER, Identity, Principal, TEAM_HEADER, Verified};
use crate::policy::{Auth, KeyBinding, RetriesOff, ServerPolicy};
use crate::upstream::headers::{RequestEdit, request_headers};

// The headers of the gateway as hyper names them, in lower case.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const HUMAN: HeaderName = HeaderName::from_static("x-mcp-human-id");
const AGENT: HeaderName = HeaderName::from_static("x-mcp-agent-id");
const TEAM: HeaderName = HeaderName::from_static("x-mcp-team-id");

/// A request ready to be sent.
#[derive(Clone)]
pub struct Outbound {
    /// The request.
    pub request: Request<Full<Bytes>>,
}

/// What is forwarded.
pub struct Forwarded<'r> {
    /// The head as it came.
    pub head: &'r RequestHead,
    /// The body as it came.
    pub body: &'r Bytes,
    /// Its message, if it carries one.
    pub message: Option<&'r Message<'r, 'r>>,
    /// Whose it is.
    pub identity: &'r Identity,
    /// The key that the tool's upstream is to get, and how; of a keyed call.
    pub key: Option<(&'r KeyBinding, &'r Key)>,
    /// Whether the call is keyed: the upstream is then asked for a plain body, so that it can be
    /// kept.
    pub keyed: bool,
}

impl Outbound {
    /// Builds the request to an MCP server.
    ///
    /// # Errors
    ///
    /// 400 for a method or query that cannot be forwarded as it stands, and where the key cannot be
    /// put in its place.
    pub fn new(
        policy: &ServerPolicy,
        upstream: &Uri,
        sent: &Forwarded<'_>,
    ) -> Result<Self, Refusal> {
        let unforwardable =
            |_| Refusal::invalid_request("The request line cannot be forwarded; correct the URL.");
        let head = sent.head;
        let method =
            Method::from_bytes(head.method.as_str().as_bytes()).map_err(|_| unforwardable(()))?;
        let call = sent.message.filter(|message| message.call().is_some());
        let switch = call.and(policy.retries_off.as_ref());
        let query = head.uri.query().map(Cow::Borrowed);
        let (own, query) = match switch {
            Some(RetriesOff::Query(member)) => {
                (Some(member.as_str()), query.and_then(without(member)))
            }
            _ => (None, query),
        };
        let uri = target(upstream, [own, query.as_deref()]).map_err(|_| unforwardable(()))?;
        let mut edit = Edit::new(&head.headers, policy, sent.identity, sent.keyed);
        if let Some(RetriesOff::Header(name, value)) = switch {
            edit.set.push((name.clone(), value.clone()));
        }
        if let Some((KeyBinding::Header(name), key)) = sent.key {
            edit.bind(&head.headers, name, key)?;
        }
        let body = propagate::body(sent.body, call, sent.key, switch)?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() =
            request_headers(&head.headers, &RequestEdit { drop: &edit.drop, set: &edit.set });
        Ok(Self { request })
    }
}

/// A query without the members that have the name of `member`: a client's own could switch back what
/// the gateway switches off. `None` where nothing is left.
fn without(member: &str) -> impl Fn(Cow<'_, str>) -> Option<Cow<'static, str>> {
    let name = |member: &str| {
        form_urlencoded::parse(member.as_bytes()).next().map(|(name, _)| name.into_owned())
    };
    let taken = name(member);
    move |query| {
        let others: Vec<_> = query.split('&').filter(|one| name(one) != taken).collect();
        (!others.is_empty()).then(|| Cow::Owned(others.join("&")))
    }
}

/// The upstream's URL; what is `added` follows the URL's own query.
fn target(upstream: &Uri, added: [Option<&str>; 2]) -> Result<Uri, hyper::http::Error> {
    if added == [None, None] {
        return Ok(upstream.clone());
    }
    let queries: SmallVec<[&str; 3]> =
        [upstream.query()].into_iter().chain(added).flatten().collect();
    let path = format!("{}?{}", upstream.path(), queries.join("&"));
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

    /// The header that the vendor dedupes by. The client's own `Idempotency-Key` is another key's
    /// place and makes way; any other header is the client's, and a value of its own in it is not
    /// passed over.
    fn bind(&mut self, sent: &HeaderMap, name: &HeaderName, key: &Key) -> Result<(), Refusal> {
        let same = |value: &ClientValue| value.as_bytes() == key.as_str().as_bytes();
        if *name != IDEMPOTENCY_KEY && !sent.get_all(name.as_str()).all(same) {
            return Err(Refusal::key_invalid_because(format!(
                "The header {name} carries the key of this tool; leave it out.",
            )));
        }
        self.drop.retain(|dropped| dropped != name);
        self.say(name.clone(), Some(key.as_str()));
        Ok(())
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
            ("http://h/mcp", [None, None], "http://h/mcp"),
            ("http://h/mcp", [None, Some("dry=1")], "http://h/mcp?dry=1"),
            ("http://h/mcp?a=b", [None, Some("dry=1")], "http://h/mcp?a=b&dry=1"),
            (
                "http://h/mcp?a=b",
                [Some("retry=0"), Some("dry=1")],
                "http://h/mcp?a=b&retry=0&dry=1",
            ),
            ("http://h", [None, Some("x")], "http://h/?x"),
        ];
        for (upstream, added, wanted) in cases {
            let uri = target(&upstream.parse().expect("a URL"), added).expect("a target");
            assert_eq!(uri, wanted.parse::<Uri>().expect("a URL"), "{upstream} {added:?}");
        }
    }
}
