//! Which headers pass between the client and the upstream, and their conversion.
//!
//! actix-web speaks the types of `http` 0.2, hyper those of `http` 1. Values are opaque bytes and
//! repeated headers keep their order, so a `Set-Cookie` is never joined or cut.

use actix_web::http::header as actix;
use hyper::HeaderMap;
use hyper::header::{self, AsHeaderName, HeaderName, HeaderValue};

/// Headers that belong to one connection, beside those that `Connection` names (RFC 9110, section
/// 7.6.1). `Proxy-Authenticate` and `Proxy-Authorization` are a proxy's own talk with its client.
fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// What of a request is the gateway's own business: it reads the body whole before it forwards it
/// (`Expect`), and the HTTP client sets the host and the length.
fn is_requests_own(name: &str) -> bool {
    matches!(name, "expect" | "host" | "content-length")
}

/// Set by the gateway alone (CONTRACT section 7).
const REPLAYED: &str = "idempotency-replayed";

/// What changes in a request's headers beside the connection's own (CONTRACT sections 4, 7, 9).
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestEdit<'e> {
    /// Left out, whatever the client sent, with `_` for `-` too.
    pub drop: &'e [HeaderName],
    /// Set, instead of whatever the client sent under these names.
    pub set: &'e [(HeaderName, HeaderValue)],
}

impl RequestEdit<'_> {
    fn takes(&self, sent: &str) -> bool {
        let mut own = self.drop.iter().chain(self.set.iter().map(|(name, _)| name));
        own.any(|own| reads_as(sent, own.as_str()))
    }
}

/// Whether an upstream could take the one name for the other: behind CGI or WSGI, `_` and `-` are
/// one character (RFC 3875, 4.1.18), so a client could say twice what the gateway says once.
fn reads_as(sent: &str, own: &str) -> bool {
    let same = |(sent, own)| sent == own || (sent == b'_' && own == b'-');
    sent.len() == own.len() && sent.bytes().zip(own.bytes()).all(same)
}

/// The headers to forward to the upstream.
pub fn request_headers(src: &actix::HeaderMap, edit: &RequestEdit<'_>) -> HeaderMap {
    let named = ConnectionOptions::new(
        src.get_all(actix::CONNECTION).map(actix::HeaderValue::as_bytes).collect(),
    );
    let mut out = HeaderMap::with_capacity(src.len() + edit.set.len());
    for (name, value) in src {
        let text = name.as_str();
        if is_hop_by_hop(text) || is_requests_own(text) || named.contains(text) {
            continue;
        }
        // Both versions of the types accept the same bytes, so nothing is lost here.
        let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(text.as_bytes()), HeaderValue::from_bytes(value.as_bytes()))
        else {
            continue;
        };
        if !edit.takes(text) {
            out.append(name, value);
        }
    }
    for (name, value) in edit.set {
        out.append(name, value.clone());
    }
    out
}

/// Appends to `out` what the client gets of the upstream's headers.
///
/// Never `Idempotency-Replayed`, which an upstream cannot claim, nor `Content-Length`, which follows
/// from the body that is sent. With `own_cors` the upstream's `Access-Control-*` stay out too, for
/// the gateway computes them itself.
pub fn response_headers(src: &HeaderMap, own_cors: bool, out: &mut actix::HeaderMap) {
    let named = ConnectionOptions::new(
        src.get_all(header::CONNECTION).iter().map(HeaderValue::as_bytes).collect(),
    );
    for (name, value) in src {
        let text = name.as_str();
        let withheld = is_hop_by_hop(text)
            || text == REPLAYED
            || text == "content-length"
            || (own_cors && text.starts_with("access-control-"))
            || named.contains(text);
        if withheld {
            continue;
        }
        // Both versions of the types accept the same bytes, so nothing is lost here.
        if let (Ok(name), Ok(value)) = (
            actix::HeaderName::from_bytes(text.as_bytes()),
            actix::HeaderValue::from_bytes(value.as_bytes()),
        ) {
            out.append(name, value);
        }
    }
}

/// Every comma-separated element of every line of a header, trimmed, empty ones left out.
pub(super) fn elements(
    headers: &HeaderMap,
    name: impl AsHeaderName,
) -> impl Iterator<Item = &[u8]> {
    headers.get_all(name).into_iter().map(HeaderValue::as_bytes).flat_map(list)
}

fn list(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

/// The header names that the `Connection` lines of one message list.
struct ConnectionOptions<'h>(smallvec::SmallVec<[&'h [u8]; 2]>);

impl<'h> ConnectionOptions<'h> {
    fn new(lines: smallvec::SmallVec<[&'h [u8]; 2]>) -> Self {
        Self(lines)
    }

    fn contains(&self, name: &str) -> bool {
        self.0
            .iter()
            .flat_map(|line| list(line))
            .any(|option| option.eq_ignore_ascii_case(name.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_headers(lines: &[(&str, &[u8])]) -> actix::HeaderMap {
        let mut map = actix::HeaderMap::new();
        for (name, value) in lines {
            map.append(
                actix::HeaderName::from_bytes(name.as_bytes()).expect("a name"),
                actix::HeaderValue::from_bytes(value).expect("a value"),
            );
        }
        map
    }

    fn upstream_headers(lines: &[(&str, &[u8])]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(
                HeaderName::from_bytes(name.as_bytes()).expect("a name"),
                HeaderValue::from_bytes(value).expect("a value"),
            );
        }
        map
    }

    /// The lines, sorted by name; lines of one name keep their order.
    fn sorted<'h>(lines: impl Iterator<Item = (&'h str, &'h [u8])>) -> Vec<(&'h str, &'h [u8])> {
        let mut lines: Vec<_> = lines.collect();
        lines.sort_by_key(|(name, _)| *name);
        lines
    }

    #[track_caller]
    fn forwards(sent: &[(&str, &[u8])], edit: &RequestEdit<'_>, expected: &[(&str, &[u8])]) {
        let out = request_headers(&client_headers(sent), edit);
        let lines = out.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        assert_eq!(sorted(lines), sorted(expected.iter().copied()));
    }

    #[track_caller]
    fn returns(sent: &[(&str, &[u8])], own_cors: bool, expected: &[(&str, &[u8])]) {
        let mut out = actix::HeaderMap::new();
        response_headers(&upstream_headers(sent), own_cors, &mut out);
        let lines = out.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        assert_eq!(sorted(lines), sorted(expected.iter().copied()));
    }

    #[test]
    fn what_belongs_to_the_connection_stays_on_it() {
        let sent: &[(&str, &[u8])] = &[
            ("connection", b"close, X-Hop"),
            ("connection", b",x-other ,, te"),
            ("x-hop", b"1"),
            ("x-other", b"1"),
            ("keep-alive", b"timeout=5"),
            ("proxy-connection", b"keep-alive"),
            ("proxy-authenticate", b"Basic"),
            ("proxy-authorization", b"Basic eA=="),
            ("te", b"trailers"),
            ("trailer", b"x-sum"),
            ("transfer-encoding", b"chunked"),
            ("upgrade", b"websocket"),
            ("x-hop-not", b"kept"),
        ];
        let kept: &[(&str, &[u8])] = &[("x-hop-not", b"kept")];
        forwards(sent, &RequestEdit::default(), kept);
        returns(sent, false, kept);
    }

    #[test]
    fn host_length_and_expect_are_the_gateways_own() {
        forwards(
            &[
                ("host", b"gateway.example"),
                ("content-length", b"17"),
                ("expect", b"100-continue"),
                ("content-type", b"application/json"),
                ("traceparent", b"00-1-2-01"),
            ],
            &RequestEdit::default(),
            &[("content-type", b"application/json"), ("traceparent", b"00-1-2-01")],
        );
    }

    #[test]
    fn an_edit_drops_and_sets_whatever_the_client_sent() {
        let human = HeaderName::from_static("x-mcp-human-id");
        let edit = RequestEdit {
            drop: &[HeaderName::from_static("idempotency-key"), header::AUTHORIZATION],
            set: &[
                (human, HeaderValue::from_static("alice")),
                (header::ACCEPT_ENCODING, HeaderValue::from_static("identity")),
            ],
        };
        forwards(
            &[
                ("Idempotency-Key", b"K1"),
                ("Authorization", b"Bearer secret"),
                ("X-MCP-Human-ID", b"mallory"),
                ("X-MCP-Human-ID", b"eve"),
                ("Accept-Encoding", b"gzip"),
                ("Accept", b"application/json"),
            ],
            &edit,
            &[
                ("accept", b"application/json"),
                ("accept-encoding", b"identity"),
                ("x-mcp-human-id", b"alice"),
            ],
        );
    }

    #[test]
    fn an_edit_means_names_that_an_upstream_may_take_for_its_own_too() {
        let edit = RequestEdit {
            drop: &[HeaderName::from_static("x-own")],
            set: &[(HeaderName::from_static("x-mcp-human-id"), HeaderValue::from_static("alice"))],
        };
        forwards(
            &[
                ("X_MCP_Human_ID", b"mallory"),
                ("X-MCP_Human-ID", b"eve"),
                ("X_Own", b"1"),
                ("X_Other", b"1"),
                ("X_MCP_Human_IDs", b"1"),
            ],
            &edit,
            &[("x-mcp-human-id", b"alice"), ("x_mcp_human_ids", b"1"), ("x_other", b"1")],
        );
    }

    #[test]
    fn a_client_cannot_have_a_set_header_removed() {
        let edit = RequestEdit {
            drop: &[],
            set: &[(HeaderName::from_static("x-mcp-human-id"), HeaderValue::from_static("alice"))],
        };
        forwards(&[("connection", b"X-MCP-Human-ID")], &edit, &[("x-mcp-human-id", b"alice")]);
    }

    #[test]
    fn repeated_headers_keep_their_order_and_bytes() {
        let cookies: &[(&str, &[u8])] = &[
            ("set-cookie", b"s=1; expires=Mon, 01 Jan 2029 00:00:00 GMT"),
            ("set-cookie", b"t=\xff\xfe"),
            ("set-cookie", b""),
            ("vary", b"Origin"),
        ];
        returns(cookies, false, cookies);
        forwards(cookies, &RequestEdit::default(), cookies);
    }

    #[test]
    fn an_upstream_cannot_claim_a_replay() {
        returns(
            &[("Idempotency-Replayed", b"true"), ("content-length", b"5"), ("x-a", b"1")],
            false,
            &[("x-a", b"1")],
        );
    }

    #[test]
    fn cors_is_the_gateways_where_it_computes_it() {
        let sent: &[(&str, &[u8])] = &[
            ("access-control-allow-origin", b"https://a.example"),
            ("access-control-expose-headers", b"x"),
            ("vary", b"Origin"),
        ];
        returns(sent, true, &[("vary", b"Origin")]);
        returns(sent, false, sent);
    }
}
