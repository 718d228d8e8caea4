//! Web origins: which may call at all, and what a browser may read (CONTRACT section 7).

use std::net::SocketAddr;

use actix_web::http::header::{self, HeaderMap, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, HttpResponse};

use super::error::Refusal;

/// The headers that a script may read, besides the safelisted ones.
const EXPOSED: &str =
    "Idempotency-Replayed, Idempotency-Key, Retry-After, Mcp-Session-Id, WWW-Authenticate";
const METHODS: &str = "GET, POST, DELETE, OPTIONS";
/// Allowed in every preflight; what the browser asks for is allowed besides.
const HEADERS: &str = "authorization, content-type, idempotency-key, last-event-id, \
                       mcp-protocol-version, mcp-session-id, mcp-method, mcp-name";
/// The longest `Access-Control-Request-Headers` that is echoed, in bytes.
const REQUESTED_HEADERS_MAX: usize = 1024;
const PREFLIGHT_MAX_AGE_S: &str = "600";

/// Which web origins may call. A request without `Origin` comes from no web page and passes.
#[derive(Debug, Clone)]
pub struct Origins {
    allowed: Vec<String>,
    loopback: bool,
}

impl Origins {
    /// The configured origins; on a loopback listener, pages of this machine too.
    pub fn new(allowed: Vec<String>, listener: SocketAddr) -> Self {
        Self { allowed, loopback: listener.ip().is_loopback() }
    }

    /// The request's origin, if it has one that may call.
    ///
    /// # Errors
    ///
    /// 403 for any other origin: a page of a stranger must not reach a server that trusts the
    /// network it stands in (DNS rebinding).
    pub fn check(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, Refusal> {
        let mut values = headers.get_all(header::ORIGIN);
        let Some(origin) = values.next() else { return Ok(None) };
        let text = origin.to_str().map_err(|_| Refusal::origin_not_allowed())?;
        let known = self.allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(text))
            || (self.loopback && is_loopback_origin(text));
        match known && values.next().is_none() {
            true => Ok(Some(origin.clone())),
            false => Err(Refusal::origin_not_allowed()),
        }
    }
}

fn is_loopback_origin(origin: &str) -> bool {
    url::Url::parse(origin).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && match url.host() {
                Some(url::Host::Domain(name)) => name == "localhost",
                Some(url::Host::Ipv4(address)) => address.is_loopback(),
                Some(url::Host::Ipv6(address)) => address.is_loopback(),
                None => false,
            }
    })
}

/// Whether this is a preflight: it is answered first and never looks at a key.
pub fn is_preflight(request: &HttpRequest) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight of an allowed origin.
pub fn preflight(request: &HttpRequest) -> HttpResponse {
    let requested = request
        .headers()
        .get(header::ACCESS_CONTROL_REQUEST_HEADERS)
        .and_then(|value| value.to_str().ok())
        .filter(|value| value.len() <= REQUESTED_HEADERS_MAX);
    let headers = match requested {
        Some(requested) => format!("{HEADERS}, {requested}"),
        None => HEADERS.to_owned(),
    };
    HttpResponse::build(StatusCode::NO_CONTENT)
        .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, METHODS))
        .insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, headers))
        .insert_header((header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_MAX_AGE_S))
        .finish()
}

/// Writes the gateway's own CORS headers for `origin`. An upstream's were taken out on the way in.
pub fn apply(response: &mut HttpResponse, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(allowed: &[&str], listener: &str, origin: &'static str) -> bool {
        let origins = Origins::new(
            allowed.iter().map(|origin| (*origin).to_owned()).collect(),
            listener.parse().expect("an address"),
        );
        let mut headers = HeaderMap::new();
        headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
        origins.check(&headers).is_ok()
    }

    #[test]
    fn pages_of_this_machine_may_call_a_loopback_listener_only() {
        for origin in ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:8080"] {
            assert!(verdict(&[], "127.0.0.1:8080", origin), "{origin}");
            assert!(!verdict(&[], "10.0.0.1:8080", origin), "{origin}");
        }
    }

    #[test]
    fn strangers_are_refused() {
        for origin in ["https://evil.example", "null", "http://localhost.evil.example", ""] {
            assert!(!verdict(&["https://a.example"], "127.0.0.1:8080", origin), "{origin}");
        }
        assert!(verdict(&["https://a.example"], "10.0.0.1:8080", "https://a.example"));
    }

    #[test]
    fn two_origins_are_no_origin() {
        let origins = Origins::new(vec![], "127.0.0.1:1".parse().expect("an address"));
        let mut headers = HeaderMap::new();
        headers.append(header::ORIGIN, HeaderValue::from_static("http://localhost"));
        headers.append(header::ORIGIN, HeaderValue::from_static("http://localhost"));
        assert!(origins.check(&headers).is_err());
        assert!(matches!(origins.check(&HeaderMap::new()), Ok(None)));
    }
}
