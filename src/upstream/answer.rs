//! Which JSON-RPC message answers a request.

use std::fmt;

use crate::claim::json::{Document, Kind, Value};

/// The JSON-RPC id of the request whose reply is awaited, as its JSON text.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestId(Box<str>);

/// What a JSON-RPC message is to the request in question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// The response to it.
    Answer,
    /// A response to another request, or to none.
    OtherAnswer,
    /// A request to the client.
    Request,
    /// A notification, or no JSON-RPC message.
    Other,
}

impl RequestId {
    /// The id of a request.
    pub fn new(id: Value<'_, '_>) -> Self {
        Self(id.raw().into())
    }

    /// Its JSON text, as the client wrote it.
    pub fn as_raw(&self) -> &str {
        &self.0
    }

    /// What `message` is to the request with this id. Ids compare by JSON value; an error with a
    /// null id, or with none, counts as the answer (CONTRACT section 11): the server could not
    /// read the id, and only one request was sent. A message with this id and no method is the
    /// answer, whatever it holds beside.
    pub(super) fn classify(&self, message: Value<'_, '_>) -> Message {
        if message.kind() != Kind::Object {
            return Message::Other;
        }
        let id = message.get("id");
        if message.get("method").is_some() {
            return if id.is_some() { Message::Request } else { Message::Other };
        }
        match id {
            Some(id) if id.kind() != Kind::Null => {
                if self.same(id) {
                    Message::Answer
                } else {
                    Message::OtherAnswer
                }
            }
            _ if message.get("error").is_some() => Message::Answer,
            Some(_) => Message::OtherAnswer,
            None if message.get("result").is_some() => Message::OtherAnswer,
            None => Message::Other,
        }
    }

    fn same(&self, other: Value<'_, '_>) -> bool {
        Document::parse(self.0.as_bytes()).is_ok_and(|own| own.root().same_value(other))
    }
}

/// An id is the client's text, so it stays out of logs.
impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestId").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(id: &str, message: &str, expected: Message) {
        let own = Document::parse(id.as_bytes()).expect("an id");
        let id = RequestId::new(own.root());
        let message = Document::parse(message.as_bytes()).expect("a message");
        assert_eq!(id.classify(message.root()), expected, "{}", message.root().raw());
    }

    #[test]
    fn ids_compare_by_json_value() {
        check("1", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Message::Answer);
        check("1", r#"{"id":1.0,"result":{}}"#, Message::Answer);
        check("1", r#"{"id":10e-1,"error":{"code":-32603}}"#, Message::Answer);
        check("1", r#"{"id":"1","result":{}}"#, Message::OtherAnswer);
        check(r#""1""#, r#"{"id":1,"result":{}}"#, Message::OtherAnswer);
        check(r#""a""#, r#"{"id":"\u0061","result":{}}"#, Message::Answer);
        check("9007199254740993", r#"{"id":9007199254740992,"result":{}}"#, Message::OtherAnswer);
        check("1", r#"{"id":2,"result":{}}"#, Message::OtherAnswer);
        check("1", r#"{"id":[1],"result":{}}"#, Message::OtherAnswer);
    }

    #[test]
    fn an_error_without_an_id_counts_as_the_answer() {
        check("1", r#"{"id":null,"error":{"code":-32700}}"#, Message::Answer);
        check("1", r#"{"error":{"code":-32700}}"#, Message::Answer);
        check("1", r#"{"id":null,"result":{}}"#, Message::OtherAnswer);
        check("1", r#"{"result":{}}"#, Message::OtherAnswer);
    }

    #[test]
    fn a_message_with_a_method_answers_nothing() {
        check("1", r#"{"id":1,"method":"sampling/createMessage"}"#, Message::Request);
        check("1", r#"{"id":null,"method":"roots/list"}"#, Message::Request);
        check("1", r#"{"method":"notifications/progress","params":{}}"#, Message::Other);
        check("1", r#"[{"id":1,"result":{}}]"#, Message::Other);
        check("1", "1", Message::Other);
        check("1", "{}", Message::Other);
    }
}
