//! From a call of a native tool to the vendor's request.

use http_body_util::Full;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Uri};

use crate::claim::{Document, Key, Value};
use crate::gateway::error::Refusal;
use crate::gateway::message::ToolCall;
use crate::gateway::outbound::Outbound;
use crate::gateway::propagate;
use crate::native::{ArgumentMap, RequestTemplate, VendorRequest};
use crate::policy::{Callable, KeyBinding};

/// How the gateway names itself to vendors.
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("onceward/", env!("CARGO_PKG_VERSION")));

/// The request that a call makes, with the key of a keyed one in its place.
///
/// # Errors
///
/// 400 for arguments that the tool does not take, and where the key cannot be put in its place.
pub fn outbound(
    callable: &Callable,
    call: &ToolCall<'_, '_>,
    key: Option<(&KeyBinding, &Key)>,
) -> Result<Outbound, Refusal> {
    judge(callable, call)?;
    let arguments = call.params.get("arguments");
    let request = match &callable.arguments {
        None => render(&callable.request, arguments)?,
        Some(map) => mapped(&callable.request, map, arguments)?,
    };
    let headers = headers(callable, &request, key)?;
    let body = match key {
        Some((KeyBinding::Body(pointer), key)) => propagate::into_json(request.body, pointer, key)?,
        _ => request.body,
    };
    let uri = target(&callable.base_url, &request.path_and_query)
        .map_err(|_| unfit("the address that they make is no URL"))?;
    let mut outbound = Request::new(Full::new(body));
    *outbound.method_mut() = request.method;
    *outbound.uri_mut() = uri;
    *outbound.headers_mut() = headers;
    Ok(Outbound { request: outbound })
}

/// The same for a keyed call. What the route of a capability refuses is handed on, not refused: the
/// route is resolved at the claim, and a record that stands answers whatever the route is now (EFFECTS
/// section 4).
///
/// # Errors
///
/// As [`outbound`], save that.
pub fn keyed_outbound(
    callable: &Callable,
    call: &ToolCall<'_, '_>,
    key: Option<(&KeyBinding, &Key)>,
) -> Result<Result<Outbound, Refusal>, Refusal> {
    match outbound(callable, call, key) {
        Err(refusal) if callable.capability => {
            judge(callable, call)?;
            Ok(Err(refusal))
        }
        made => made.map(Ok),
    }
}

fn judge(callable: &Callable, call: &ToolCall<'_, '_>) -> Result<(), Refusal> {
    let arguments = call.params.get("arguments");
    callable.schema.check(arguments).map_err(|error| unfit(&error.to_string()))
}

fn render(
    template: &RequestTemplate,
    arguments: Option<Value<'_, '_>>,
) -> Result<VendorRequest, Refusal> {
    template.render(arguments).map_err(|error| unfit(&error.to_string()))
}

/// A capability's arguments become those of the tool that it leads to.
fn mapped(
    template: &RequestTemplate,
    map: &ArgumentMap,
    arguments: Option<Value<'_, '_>>,
) -> Result<VendorRequest, Refusal> {
    let text = map.render(arguments).map_err(|error| unfit(&error.to_string()))?;
    let document =
        Document::parse(text.as_str().as_bytes()).map_err(|error| unfit(&error.to_string()))?;
    render(template, Some(document.root()))
}

fn unfit(problem: &str) -> Refusal {
    Refusal::invalid_params_because(format!("The tool does not take these arguments: {problem}."))
}

fn headers(
    callable: &Callable,
    request: &VendorRequest,
    key: Option<(&KeyBinding, &Key)>,
) -> Result<HeaderMap, Refusal> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, AGENT);
    for (name, value) in &request.headers {
        headers.insert(name.clone(), value.clone());
    }
    // What can be kept comes without a coding.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(content_type) = request.content_type {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if let Some(credential) = &callable.credential {
        headers.insert(credential.header.clone(), credential.value.clone());
    }
    if let Some((KeyBinding::Header(name), key)) = key {
        headers.insert(name.clone(), value_of(name, key)?);
    }
    Ok(headers)
}

/// A key is visible ASCII, which every header's value may be.
fn value_of(name: &HeaderName, key: &Key) -> Result<HeaderValue, Refusal> {
    HeaderValue::from_str(key.as_str()).map_err(|_| {
        Refusal::key_invalid_because(format!("The key cannot be sent in the header {name}."))
    })
}

/// The base URL with the request's path and query after its own path.
fn target(base: &Uri, path_and_query: &str) -> Result<Uri, hyper::http::Error> {
    let path = format!("{}{path_and_query}", base.path().trim_end_matches('/'));
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path)?);
    Ok(Uri::from_parts(parts)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_follows_the_base_urls_own() {
        for (base, path, wanted) in [
            ("https://api.example", "/v1/charges?a=b", "https://api.example/v1/charges?a=b"),
            ("https://api.example/", "/v1", "https://api.example/v1"),
            ("https://api.example/base/", "/v1", "https://api.example/base/v1"),
        ] {
            let uri = target(&base.parse().expect("a URL"), path).expect("a target");
            assert_eq!(uri.to_string(), wanted);
        }
    }
}
