//! From a vendor's reply to the result of a tool (EFFECTS section 1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::mcp::response;
use crate::claim::json::JsonText;
use crate::claim::{Document, Kind};

/// The most bytes of a vendor's body that a result shows; of a longer one it tells the length.
pub const MAX_SHOWN_BYTES: usize = 1024 * 1024;
/// The same where the call was rejected or its outcome is unknown: an explanation, not a value.
pub const MAX_EXPLANATION_BYTES: usize = 16 * 1024;

/// Where an embedded reply says that it comes from: MCP wants an address, and it has none.
const REPLY_URI: &str = "urn:onceward:vendor-reply";
const ANY_BYTES: &str = "application/octet-stream";

/// What a vendor answered, and what that means.
#[derive(Debug, Clone, Copy)]
pub struct VendorReply<'r> {
    /// The HTTP status.
    pub status: u16,
    /// The `Content-Type`, if there is one.
    pub content_type: Option<&'r [u8]>,
    /// The body, whole.
    pub body: &'r [u8],
    /// What the tool's effect spec makes of the status.
    pub verdict: Verdict,
}

/// What a status says of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It took effect.
    Accepted,
    /// It did not.
    Rejected,
    /// Nobody can say.
    Unknown,
}

/// The JSON-RPC response to the request with this id, given as JSON text: the same in both eras, as
/// a session's clients ignore the `resultType` that the other one demands.
pub fn tool_result(reply: &VendorReply<'_>, id: &str) -> String {
    let mut result = r#"{"resultType":"complete","#.to_owned();
    let status = reply.status;
    match reply.verdict {
        Verdict::Accepted => accepted(reply, &mut result),
        Verdict::Rejected => {
            let what = format!("The vendor rejected the call with status {status}.");
            explained(&what, reply, &mut result);
        }
        Verdict::Unknown => {
            let what = format!(
                "The outcome of the call is unknown: the vendor answered with status {status}. Look \
                 at the vendor's own state before you try again."
            );
            explained(&what, reply, &mut result);
        }
    }
    result.push('}');
    response(id, &result)
}

fn accepted(reply: &VendorReply<'_>, out: &mut String) {
    let shown = content(reply, MAX_SHOWN_BYTES);
    let block = shown.unwrap_or_else(|| {
        text_block(&format!("The vendor answered with status {} and no body.", reply.status))
    });
    out.push_str(&format!(r#""content":[{block}]"#));
    if let Some(object) = structured(reply) {
        out.push_str(r#","structuredContent":"#);
        out.push_str(object);
    }
}

fn explained(what: &str, reply: &VendorReply<'_>, out: &mut String) {
    let blocks = [Some(text_block(what)), content(reply, MAX_EXPLANATION_BYTES)];
    let blocks: Vec<_> = blocks.into_iter().flatten().collect();
    out.push_str(&format!(r#""content":[{}],"isError":true"#, blocks.join(",")));
}

/// The body where it is a JSON object, as it was sent: numbers keep their digits.
fn structured<'r>(reply: &VendorReply<'r>) -> Option<&'r str> {
    let says_json = reply.content_type.is_none_or(|value| is_json(&media_type(value)));
    if reply.body.len() > MAX_SHOWN_BYTES || !says_json {
        return None;
    }
    let document = Document::parse(reply.body).ok()?;
    let root = document.root();
    (root.kind() == Kind::Object).then(|| root.raw())
}

/// The body as a block of content; `None` where it is empty.
fn content(reply: &VendorReply<'_>, limit: usize) -> Option<String> {
    let media_type = reply.content_type.map(media_type);
    let text = std::str::from_utf8(reply.body).ok().filter(|text| is_text(text));
    match text {
        Some("") => None,
        _ if reply.body.len() > limit => Some(text_block(&format!(
            "The vendor's reply has {} bytes, too many to be shown.",
            reply.body.len()
        ))),
        Some(text) => Some(text_block(text)),
        None => {
            let media_type = media_type.unwrap_or_else(|| ANY_BYTES.to_owned());
            Some(format!(
                r#"{{"type":"resource","resource":{{"uri":"{REPLY_URI}","mimeType":{},"blob":"{}"}}}}"#,
                JsonText::string(&media_type).as_str(),
                STANDARD.encode(reply.body)
            ))
        }
    }
}

fn text_block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, JsonText::string(text).as_str())
}

/// Type and subtype in lower case; what is no text is any bytes.
fn media_type(value: &[u8]) -> String {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    let plain = essence.contains('/') && essence.bytes().all(|byte| byte.is_ascii_graphic());
    if plain { essence.to_ascii_lowercase() } else { ANY_BYTES.to_owned() }
}

fn is_json(media_type: &str) -> bool {
    media_type == "application/json" || media_type.ends_with("+json")
}

/// Whether a body is for reading: no control characters but those of layout.
fn is_text(text: &str) -> bool {
    text.chars().all(|one| !one.is_control() || matches!(one, '\n' | '\r' | '\t'))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn text(status: u16, content_type: Option<&str>, body: &[u8], verdict: Verdict) -> String {
        let content_type = content_type.map(str::as_bytes);
        tool_result(&VendorReply { status, content_type, body, verdict }, "\"a\"")
    }

    /// The result without what every one has.
    fn result(status: u16, content_type: Option<&str>, body: &[u8], verdict: Verdict) -> Json {
        let text = text(status, content_type, body, verdict);
        let mut response: Json = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&response["jsonrpc"], &response["id"]), (&json!("2.0"), &json!("a")));
        let result = response["result"].as_object_mut().expect("an object");
        assert_eq!(result.remove("resultType"), Some(json!("complete")));
        Json::Object(result.clone())
    }

    #[test]
    fn an_accepted_object_is_structured_content_with_its_digits() {
        let body = br#" {"amount": 18446744073709551617, "rate":1.10} "#;
        let json = Some("application/json; charset=utf-8");
        let response = text(201, json, body, Verdict::Accepted);
        let verbatim = r#""structuredContent":{"amount": 18446744073709551617, "rate":1.10}"#;
        assert!(response.contains(verbatim), "{response}");
        let result = result(201, json, body, Verdict::Accepted);
        let content = json!([{ "type": "text", "text": String::from_utf8_lossy(body) }]);
        assert_eq!(result["content"], content);
        assert_eq!(result.get("isError"), None);
        for content_type in [None, Some("application/vnd.api+json")] {
            assert!(
                text(200, content_type, b"{}", Verdict::Accepted).contains("structuredContent")
            );
        }
    }

    #[test]
    fn what_is_no_object_is_text() {
        let bodies: [(&[u8], &str); 5] = [
            (b"[1]", "application/json"),
            (b"\"x\"", "application/json"),
            (b"{\"a\":1,\"a\":2}", "application/json"),
            (b"{}", "text/plain"),
            ("é\n".as_bytes(), "text/plain"),
        ];
        for (body, content_type) in bodies {
            let shown = String::from_utf8_lossy(body);
            let expected = json!({ "content": [{ "type": "text", "text": shown }] });
            assert_eq!(result(200, Some(content_type), body, Verdict::Accepted), expected);
        }
        let empty = result(204, None, b"", Verdict::Accepted);
        let said = "The vendor answered with status 204 and no body.";
        assert_eq!(empty, json!({ "content": [{ "type": "text", "text": said }] }));
    }

    #[test]
    fn bytes_are_an_embedded_resource() {
        let cases =
            [(Some("IMAGE/png; x=1"), "image/png"), (None, ANY_BYTES), (Some("\u{e9}"), ANY_BYTES)];
        for (content_type, media_type) in cases {
            let result = result(200, content_type, b"\x00\xff", Verdict::Accepted);
            let resource = json!({ "uri": REPLY_URI, "mimeType": media_type, "blob": "AP8=" });
            let block = json!({ "type": "resource", "resource": resource });
            assert_eq!(result, json!({ "content": [block] }));
        }
    }

    #[test]
    fn a_rejection_and_an_unknown_outcome_are_errors_of_the_tool() {
        let body = br#"{"error":"card_declined"}"#;
        let rejected = result(402, Some("application/json"), body, Verdict::Rejected);
        let expected = json!({
            "content": [
                { "type": "text", "text": "The vendor rejected the call with status 402." },
                { "type": "text", "text": r#"{"error":"card_declined"}"# },
            ],
            "isError": true,
        });
        assert_eq!(rejected, expected);
        let unknown = result(503, None, b"", Verdict::Unknown);
        assert_eq!(unknown["isError"], true);
        let said = unknown["content"][0]["text"].as_str().expect("a text");
        assert!(said.contains("unknown") && said.contains("503"), "{said}");
        assert_eq!(unknown["content"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn a_long_body_is_told_and_not_shown() {
        let over = |limit: usize, verdict| {
            let body = vec![b'x'; limit + 1];
            let fits = text(200, None, &body[..limit], verdict);
            let long = text(200, None, &body, verdict);
            assert!(fits.len() > limit && long.len() < 500, "{}", long.len());
            assert!(long.contains(&format!("{} bytes", limit + 1)));
        };
        over(MAX_SHOWN_BYTES, Verdict::Accepted);
        over(MAX_EXPLANATION_BYTES, Verdict::Rejected);
        over(MAX_EXPLANATION_BYTES, Verdict::Unknown);
        let object = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_SHOWN_BYTES));
        let long = text(200, Some("application/json"), object.as_bytes(), Verdict::Accepted);
        assert!(!long.contains("structuredContent"));
    }
}
