//! The header rules of MCP 2026-07-28: what is mirrored in headers must agree with the body
//! (CONTRACT section 3, "Inspect"). The body decides everything; headers are only checked.

use std::borrow::Cow;

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::error::Refusal;
use super::message::Message;
use crate::claim::Value;

/// The first revision whose requests mirror method and name in headers.
const MIRRORED_SINCE: &str = "2026-07-28";
const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");
const VERSION_MEMBER: &str = "io.modelcontextprotocol/protocolVersion";

/// Checks the mirrored headers of a request of that era; others pass, unless a mirrored header
/// stands there twice: two parties could then read two names, whatever the era.
///
/// # Errors
///
/// 400 with -32020 where a header is missing, doubled, undecodable or says something else than
/// the body.
pub fn check(headers: &HeaderMap, message: &Message<'_, '_>) -> Result<(), Refusal> {
    let Some(method) = message.method() else { return Ok(()) };
    let params = message.root().get("params");
    let in_header = line(headers, &VERSION_HEADER)?;
    let (method_line, name_line) = (line(headers, &METHOD_HEADER)?, line(headers, &NAME_HEADER)?);
    let in_body = params.and_then(version_of);
    let header_is_mirrored = in_header.is_some_and(|value| is_mirrored(value.as_bytes()));
    if !header_is_mirrored && !in_body.as_ref().is_some_and(|text| is_mirrored(text.as_bytes())) {
        return Ok(());
    }
    if let (Some(header), Some(body)) = (in_header, &in_body)
        && header.as_bytes() != body.as_bytes()
    {
        return Err(Refusal::header_mismatch(
            "MCP-Protocol-Version differs from the protocol version in params._meta; send the same.",
        ));
    }
    if decoded(method_line)?.as_deref() != Some(method) {
        return Err(Refusal::header_mismatch("Mcp-Method must repeat the method of the body."));
    }
    if decoded(name_line)? != params.and_then(|params| name_of(method, params)) {
        return Err(Refusal::header_mismatch(
            "Mcp-Name must repeat the name (or uri) that the body names.",
        ));
    }
    Ok(())
}

/// The revision that a request's header names, if it can be read.
pub fn version_in(headers: &HeaderMap) -> Option<&str> {
    headers.get(&VERSION_HEADER)?.to_str().ok()
}

/// Revisions are dates, so they compare as text; anything else is no revision of this era.
fn is_mirrored(version: &[u8]) -> bool {
    version.len() == MIRRORED_SINCE.len()
        && version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-')
        && version >= MIRRORED_SINCE.as_bytes()
}

fn version_of<'a>(params: Value<'_, 'a>) -> Option<Cow<'a, str>> {
    params.get("_meta")?.get(VERSION_MEMBER)?.as_str()
}

fn name_of<'a>(method: &str, params: Value<'_, 'a>) -> Option<Cow<'a, str>> {
    let member = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        _ => return None,
    };
    params.get(member)?.as_str()
}

/// The one line of a header; absent is `None`.
fn line<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h HeaderValue>, Refusal> {
    let mut values = headers.get_all(name);
    let first = values.next();
    match values.next() {
        None => Ok(first),
        Some(_) => {
            Err(Refusal::header_mismatch("An MCP header appears twice; send each of them once."))
        }
    }
}

/// The text of a header value, `=?base64?…?=` decoded.
fn decoded(value: Option<&HeaderValue>) -> Result<Option<Cow<'_, str>>, Refusal> {
    let Some(value) = value else { return Ok(None) };
    let text = value.to_str().map_err(|_| undecodable())?;
    match text.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        None => Ok(Some(Cow::Borrowed(text))),
        Some(encoded) => {
            let bytes = STANDARD.decode(encoded).map_err(|_| undecodable())?;
            String::from_utf8(bytes).map(|text| Some(Cow::Owned(text))).map_err(|_| undecodable())
        }
    }
}

fn undecodable() -> Refusal {
    Refusal::header_mismatch("An MCP header cannot be decoded; send ASCII or =?base64?…?=.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Document;

    const PAY: &str = r#"{"id":1,"method":"tools/call","params":{"name":"pay"}}"#;

    fn verdict(body: &str, headers: &[(HeaderName, &'static str)]) -> Option<&'static str> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.clone(), HeaderValue::from_static(value));
        }
        let document = Document::parse(body.as_bytes()).expect("strict JSON");
        let message = Message::read(&document).expect("a message");
        check(&map, &message).err().map(|refusal| refusal.reason)
    }

    #[test]
    fn agreement_passes_encoded_or_plain() {
        let version = (VERSION_HEADER, "2026-07-28");
        let method = (METHOD_HEADER, "tools/call");
        for name in ["pay", "=?base64?cGF5?="] {
            let headers = [version.clone(), method.clone(), (NAME_HEADER, name)];
            assert_eq!(verdict(PAY, &headers), None, "{name}");
        }
        let list = r#"{"id":1,"method":"tools/list"}"#;
        assert_eq!(verdict(list, &[version.clone(), (METHOD_HEADER, "tools/list")]), None);
        let read = r#"{"id":1,"method":"resources/read","params":{"uri":"a:b"}}"#;
        assert_eq!(
            verdict(read, &[version, (METHOD_HEADER, "resources/read"), (NAME_HEADER, "a:b")]),
            None
        );
    }

    #[test]
    fn disagreement_absence_and_doubling_are_mismatches() {
        let version = (VERSION_HEADER, "2026-07-28");
        let method = (METHOD_HEADER, "tools/call");
        let refused: &[&[(HeaderName, &str)]] = &[
            std::slice::from_ref(&version),
            &[version.clone(), method.clone()],
            &[version.clone(), method.clone(), (NAME_HEADER, "read")],
            &[version.clone(), (METHOD_HEADER, "tools/list"), (NAME_HEADER, "pay")],
            &[version.clone(), method.clone(), (NAME_HEADER, "pay"), (NAME_HEADER, "read")],
            &[version.clone(), method.clone(), (NAME_HEADER, "=?base64?%%?=")],
            &[version.clone(), version.clone(), method.clone(), (NAME_HEADER, "pay")],
        ];
        for headers in refused {
            assert_eq!(verdict(PAY, headers), Some("header_mismatch"), "{headers:?}");
        }
        let list = r#"{"id":1,"method":"tools/list"}"#;
        let orphan = [version, (METHOD_HEADER, "tools/list"), (NAME_HEADER, "pay")];
        assert_eq!(verdict(list, &orphan), Some("header_mismatch"));
    }

    #[test]
    fn the_body_alone_can_choose_the_era_and_earlier_ones_have_no_rule() {
        let modern = r#"{"id":1,"method":"tools/call","params":{"name":"pay","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        assert_eq!(verdict(modern, &[]), Some("header_mismatch"));
        assert_eq!(verdict(modern, &[(METHOD_HEADER, "tools/call"), (NAME_HEADER, "pay")]), None);
        assert_eq!(
            verdict(
                modern,
                &[
                    (VERSION_HEADER, "2025-11-25"),
                    (METHOD_HEADER, "tools/call"),
                    (NAME_HEADER, "pay")
                ]
            ),
            Some("header_mismatch")
        );
        assert_eq!(verdict(PAY, &[(VERSION_HEADER, "2025-11-25")]), None);
        assert_eq!(verdict(PAY, &[(NAME_HEADER, "read")]), None);
        assert_eq!(
            verdict(PAY, &[(NAME_HEADER, "pay"), (NAME_HEADER, "read")]),
            Some("header_mismatch")
        );
    }
}
