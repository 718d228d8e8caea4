//! The parsed view of a JSON-RPC message: it borrows from the bytes that are forwarded.

use std::borrow::Cow;

use super::error::Refusal;
use crate::claim::{Document, Kind, Value};

/// The method that can carry a key.
pub const TOOLS_CALL: &str = "tools/call";

/// What a JSON body says.
pub struct Message<'d, 'a> {
    root: Value<'d, 'a>,
    method: Option<Cow<'a, str>>,
    call: Option<ToolCall<'d, 'a>>,
}

/// A well-formed `tools/call` request.
pub struct ToolCall<'d, 'a> {
    /// The request's id: a string or a number.
    pub id: Value<'d, 'a>,
    /// The params, an object.
    pub params: Value<'d, 'a>,
    /// The name of the tool.
    pub tool: Cow<'a, str>,
}

impl<'d, 'a> Message<'d, 'a> {
    /// Reads the message.
    ///
    /// # Errors
    ///
    /// A batch, something that is no JSON-RPC message, or a `tools/call` that could be understood
    /// in two ways (CONTRACT section 3, "Inspect").
    pub fn read(document: &'d Document<'a>) -> Result<Self, Refusal> {
        let root = document.root();
        match root.kind() {
            Kind::Object => {}
            Kind::Array => return Err(Refusal::batch()),
            _ => return Err(Refusal::invalid_request("Send a JSON-RPC message: a JSON object.")),
        }
        let method = match root.get("method") {
            None => None,
            Some(method) => Some(method.as_str().ok_or_else(|| {
                Refusal::invalid_request("The method of a JSON-RPC message must be a string.")
            })?),
        };
        let call = match method.as_deref() {
            Some(TOOLS_CALL) => Some(ToolCall::read(root)?),
            _ => None,
        };
        Ok(Self { root, method, call })
    }

    /// The whole message.
    pub fn root(&self) -> Value<'d, 'a> {
        self.root
    }

    /// The method, or `None` for a client's response.
    pub fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    /// The tool call, if it is one.
    pub fn call(&self) -> Option<&ToolCall<'d, 'a>> {
        self.call.as_ref()
    }
}

impl<'d, 'a> ToolCall<'d, 'a> {
    fn read(root: Value<'d, 'a>) -> Result<Self, Refusal> {
        let id = root
            .get("id")
            .filter(|id| matches!(id.kind(), Kind::String | Kind::Number))
            .ok_or_else(|| {
                Refusal::invalid_request("A tools/call needs an id: a string or a number.")
            })?;
        let params = root
            .get("params")
            .filter(|params| params.kind() == Kind::Object)
            .ok_or_else(Refusal::invalid_params)?;
        let tool = params
            .get("name")
            .and_then(|name| name.as_str())
            .ok_or_else(Refusal::invalid_params)?;
        Ok(Self { id, params, tool })
    }
}

/// The id that a refusal answers, read again from the body: refusals are rare, and the way of
/// every other request stays free of the copy.
pub fn id_in(body: &[u8]) -> Option<String> {
    let document = Document::parse(body).ok()?;
    let root = document.root();
    match root.kind() {
        Kind::Object => echoable(root.get("id")).map(str::to_owned),
        _ => None,
    }
}

fn echoable<'a>(id: Option<Value<'_, 'a>>) -> Option<&'a str> {
    id.filter(|id| matches!(id.kind(), Kind::String | Kind::Number)).map(|id| id.raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> &'static str {
        let document = Document::parse(text.as_bytes()).expect("strict JSON");
        match Message::read(&document) {
            Ok(_) => "ok",
            Err(refusal) => refusal.reason,
        }
    }

    #[test]
    fn a_tools_call_has_an_id_and_names_its_tool() {
        let call = |id: &str| {
            format!(r#"{{"jsonrpc":"2.0"{id},"method":"tools/call","params":{{"name":"pay"}}}}"#)
        };
        for id in [r#","id":1"#, r#","id":"1""#, r#","id":1.5"#, r#","id":9007199254740993"#] {
            assert_eq!(reason(&call(id)), "ok", "{id}");
        }
        for id in ["", r#","id":null"#, r#","id":true"#, r#","id":{"a":1}"#, r#","id":[1]"#] {
            assert_eq!(reason(&call(id)), "invalid_request", "{id}");
        }
        for params in ["", r#","params":[]"#, r#","params":{}"#, r#","params":{"name":7}"#] {
            let text = format!(r#"{{"id":1,"method":"tools/call"{params}}}"#);
            assert_eq!(reason(&text), "invalid_params", "{params}");
        }
    }

    #[test]
    fn what_is_no_single_message_is_refused() {
        assert_eq!(reason("[]"), "invalid_request");
        assert_eq!(reason(r#""tools/call""#), "invalid_request");
        assert_eq!(reason(r#"{"id":1,"method":7}"#), "invalid_request");
        assert_eq!(reason(r#"{"id":1,"result":{}}"#), "ok");
    }

    #[test]
    fn a_refusal_answers_the_id_as_it_was_written() {
        assert_eq!(id_in(br#"{"id":1.50,"method":"x"}"#).as_deref(), Some("1.50"));
        assert_eq!(id_in(br#"{"id":"a"}"#).as_deref(), Some("\"a\""));
        for none in [r#"{"id":{}}"#, r#"{"id":null}"#, "{}", "[1]", "{"] {
            assert_eq!(id_in(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn an_escaped_method_is_the_method() {
        let text = r#"{"id":1,"method":"tools\/call","params":{"name":"p\u0061y"}}"#;
        let document = Document::parse(text.as_bytes()).expect("strict JSON");
        let message = Message::read(&document).expect("a call");
        assert_eq!(message.call().map(|call| call.tool.as_ref()), Some("pay"));
    }
}
