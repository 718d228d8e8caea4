//! Writing into a JSON text by splicing: what is not written to stays byte for byte, so numbers keep
//! their digits (EFFECTS sections 2 and 3).

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::{Document, JsonError, Kind, Value};
use crate::claim::canonical::Writer;
use crate::claim::pointer::Pointer;

/// The text of one JSON value.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonText<'t>(Cow<'t, str>);

/// Why a member cannot be put where a pointer names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// The pointer is the empty one.
    #[error("the pointer names the whole document: point at a member")]
    Root,
    /// Something on the way is a string, number, boolean or null, which holds no members.
    #[error("a value on the way is neither object nor absent: leave it out or send an object")]
    ThroughScalar,
    /// Something on the way is an array, whose elements are the sender's.
    #[error("a value on the way is an array: point into objects alone")]
    IntoArray,
    /// The member is there, with another value.
    #[error("another value is there already: leave it out or send the same")]
    Taken,
}

/// The document with a member put where the pointer names it. Missing objects on the way are made;
/// an equal value that is there already is left as it is, and nothing is copied then.
///
/// # Errors
///
/// [`PutError`]: what is in the way. The document is read only.
pub fn put<'a>(
    root: Value<'_, 'a>,
    pointer: &Pointer,
    value: &JsonText<'_>,
) -> Result<Cow<'a, [u8]>, PutError> {
    let source = root.document.source;
    let mut names = pointer.names();
    let mut place = root;
    loop {
        // The place is looked at before the name, so that a root of any other type is told apart
        // from a document that is pointed at as a whole.
        let Some(name) = names.next() else {
            return already_there(place, root, value).map(|()| Cow::Borrowed(source.as_bytes()));
        };
        match place.kind() {
            Kind::Object => {}
            Kind::Array => return Err(PutError::IntoArray),
            _ => return Err(PutError::ThroughScalar),
        }
        match place.get(name) {
            Some(member) => place = member,
            None => {
                let member = written_member(name, names, value);
                let splice = Splice::append(place, &member);
                return Ok(Cow::Owned(spliced(source, &[splice])));
            }
        }
    }
}

/// A JSON-RPC reply with these members in its `result._meta`, which is made where it is missing;
/// what stands there under their names is replaced. The names must differ. `None` for everything
/// that is no JSON object whose `result` is an object, and where `_meta` is no object.
pub fn set_in_result_meta(reply: &[u8], members: &[(&str, JsonText<'_>)]) -> Option<Vec<u8>> {
    let document = Document::parse(reply).ok()?;
    let result = document.root().get("result").filter(|result| result.kind() == Kind::Object)?;
    let Some(meta) = result.get("_meta") else {
        let mut member = Vec::new();
        let mut writer = Writer::new(&mut member);
        writer.string("_meta");
        member.extend_from_slice(b":{");
        write_members(members, &mut member);
        member.push(b'}');
        return Some(spliced(document.source, &[Splice::append(result, &member)]));
    };
    if meta.kind() != Kind::Object {
        return None;
    }
    let standing = |name: &str| meta.get(name).map(Value::span);
    let mut splices: Vec<_> = members
        .iter()
        .filter_map(|(name, value)| Some(Splice::replace(standing(name)?, value)))
        .collect();
    splices.sort_by_key(|splice| splice.place.start);
    let new: Vec<_> =
        members.iter().filter(|(name, _)| standing(name).is_none()).cloned().collect();
    if !new.is_empty() {
        let mut text = Vec::new();
        write_members(&new, &mut text);
        splices.push(Splice::append(meta, &text));
    }
    Some(spliced(document.source, &splices))
}

impl<'t> JsonText<'t> {
    /// Reads a text strictly.
    ///
    /// # Errors
    ///
    /// As [`Document::parse`].
    pub fn parse(text: &'t [u8]) -> Result<Self, JsonError> {
        Document::parse(text).map(|document| Self(Cow::Borrowed(document.source)))
    }

    /// The same with a text of its own.
    ///
    /// # Errors
    ///
    /// As [`Document::parse`].
    pub fn from_vec(text: Vec<u8>) -> Result<JsonText<'static>, JsonError> {
        Document::parse(&text)?;
        let text = String::from_utf8(text)
            .map_err(|error| JsonError::Utf8(error.utf8_error().valid_up_to()))?;
        Ok(JsonText(Cow::Owned(text)))
    }

    /// The text of a string.
    pub fn string(content: &str) -> JsonText<'static> {
        let mut text = Vec::with_capacity(content.len() + 2);
        Writer::new(&mut text).string(content);
        // What is written is the content and escapes in ASCII.
        JsonText(Cow::Owned(String::from_utf8(text).unwrap_or_default()))
    }

    /// The text, white space around the value included where it had some.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text may be a key and stays out of logs.
impl fmt::Debug for JsonText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonText").field("bytes", &self.0.len()).finish()
    }
}

fn already_there(
    place: Value<'_, '_>,
    root: Value<'_, '_>,
    value: &JsonText<'_>,
) -> Result<(), PutError> {
    if place.index == root.index {
        return Err(PutError::Root);
    }
    let equal = Document::parse(value.as_str().as_bytes())
        .is_ok_and(|document| document.root().same_value(place));
    if equal { Ok(()) } else { Err(PutError::Taken) }
}

/// A member, in objects of its own for the names inside it.
fn written_member<'p>(
    name: &str,
    inside: impl ExactSizeIterator<Item = &'p str>,
    value: &JsonText<'_>,
) -> Vec<u8> {
    let mut member = Vec::new();
    let depth = inside.len();
    Writer::new(&mut member).string(name);
    for name in inside {
        member.extend_from_slice(b":{");
        Writer::new(&mut member).string(name);
    }
    member.push(b':');
    member.extend_from_slice(value.as_str().as_bytes());
    member.resize(member.len() + depth, b'}');
    member
}

fn write_members(members: &[(&str, JsonText<'_>)], out: &mut Vec<u8>) {
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        Writer::new(out).string(name);
        out.push(b':');
        out.extend_from_slice(value.as_str().as_bytes());
    }
}

/// What stands in place of a range of the source.
struct Splice {
    place: Range<usize>,
    text: Vec<u8>,
}

impl Splice {
    fn replace(place: Range<usize>, value: &JsonText<'_>) -> Self {
        Self { place, text: value.as_str().as_bytes().to_vec() }
    }

    /// Members after the last one of an object.
    fn append(object: Value<'_, '_>, members: &[u8]) -> Self {
        let last = object.members().last().map(|(_, value)| value.span().end);
        let at = last.unwrap_or(object.span().start + 1);
        let mut text = Vec::with_capacity(members.len() + 1);
        if last.is_some() {
            text.push(b',');
        }
        text.extend_from_slice(members);
        Self { place: at..at, text }
    }
}

/// The source with splices, which are in order and do not overlap.
fn spliced(source: &str, splices: &[Splice]) -> Vec<u8> {
    let added: usize = splices.iter().map(|splice| splice.text.len()).sum();
    let mut out = Vec::with_capacity(source.len() + added);
    let mut done = 0;
    for splice in splices {
        out.extend_from_slice(&source.as_bytes()[done..splice.place.start]);
        out.extend_from_slice(&splice.text);
        done = splice.place.end;
    }
    out.extend_from_slice(&source.as_bytes()[done..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(body: &str, pointer: &str, value: &str) -> Result<String, PutError> {
        let document = Document::parse(body.as_bytes()).expect("the body is JSON");
        let pointer = Pointer::parse(pointer).expect("the pointer is one");
        let value = JsonText::parse(value.as_bytes()).expect("the value is JSON");
        put(document.root(), &pointer, &value)
            .map(|bytes| String::from_utf8(bytes.into_owned()).expect("UTF-8"))
    }

    #[test]
    fn a_member_is_put_after_the_last_one_and_every_other_byte_stays() {
        let body = "{ \"n\" : 18446744073709551617 ,\n \"m\":1.10, \"o\":{ } }\n";
        let expected = [
            ("/k", "{ \"n\" : 18446744073709551617 ,\n \"m\":1.10, \"o\":{ },\"k\":\"v\" }\n"),
            ("/o/k", "{ \"n\" : 18446744073709551617 ,\n \"m\":1.10, \"o\":{\"k\":\"v\" } }\n"),
            (
                "/a~1b/c\"/0",
                "{ \"n\" : 18446744073709551617 ,\n \"m\":1.10, \"o\":{ },\
                 \"a/b\":{\"c\\\"\":{\"0\":\"v\"}} }\n",
            ),
        ];
        for (pointer, text) in expected {
            assert_eq!(written(body, pointer, "\"v\"").as_deref(), Ok(text), "{pointer}");
        }
        assert_eq!(written("{}", "/k", "1").as_deref(), Ok("{\"k\":1}"));
    }

    #[test]
    fn an_equal_value_is_left_and_another_one_refused() {
        let body = r#"{"k":"\u0076","n":1.0,"o":{"a":1}}"#;
        for (pointer, value) in [("/k", "\"v\""), ("/n", "1"), ("/o", "{\"a\":1}")] {
            let document = Document::parse(body.as_bytes()).expect("the body is JSON");
            let pointer = Pointer::parse(pointer).expect("the pointer is one");
            let value = JsonText::parse(value.as_bytes()).expect("the value is JSON");
            let same = put(document.root(), &pointer, &value).expect("it is there");
            assert!(matches!(same, Cow::Borrowed(same) if same == body.as_bytes()));
        }
        for (pointer, value) in [("/k", "\"w\""), ("/n", "\"1\""), ("/o", "{}")] {
            assert_eq!(written(body, pointer, value), Err(PutError::Taken), "{pointer}");
        }
    }

    #[test]
    fn what_is_in_the_way_is_told() {
        let body = r#"{"s":"x","z":null,"a":[{}],"o":{}}"#;
        let refused = [
            ("", PutError::Root),
            ("/s/k", PutError::ThroughScalar),
            ("/z/k", PutError::ThroughScalar),
            ("/a/0", PutError::IntoArray),
            ("/a/-", PutError::IntoArray),
            ("/a/0/k", PutError::IntoArray),
            ("/z", PutError::Taken),
        ];
        for (pointer, error) in refused {
            assert_eq!(written(body, pointer, "\"v\""), Err(error), "{pointer}");
        }
        assert_eq!(written("[]", "/0", "1"), Err(PutError::IntoArray));
        assert_eq!(written("1", "/k", "1"), Err(PutError::ThroughScalar));
    }

    #[test]
    fn the_text_of_a_string_reads_back_as_it() {
        for content in ["", "idt_0123", "\"\\\u{0}\n/é😀\u{2028}"] {
            let text = JsonText::string(content);
            let document = Document::parse(text.as_str().as_bytes()).expect("it is JSON");
            assert_eq!(document.root().as_str().as_deref(), Some(content));
            assert!(content.is_empty() || !format!("{text:?}").contains(content));
        }
    }

    #[test]
    fn members_are_set_in_the_meta_of_a_result() {
        let members =
            [("a", JsonText::string("x")), ("b/c", JsonText::parse(b"{}").expect("JSON"))];
        let cases = [
            (r#"{"id":1.0,"result":{}}"#, r#"{"id":1.0,"result":{"_meta":{"a":"x","b/c":{}}}}"#),
            (r#"{"result":{"n":1.10 } }"#, r#"{"result":{"n":1.10,"_meta":{"a":"x","b/c":{}} } }"#),
            (
                r#"{"result":{"_meta":{},"n":1e2}}"#,
                r#"{"result":{"_meta":{"a":"x","b/c":{}},"n":1e2}}"#,
            ),
            (
                r#"{"result":{"_meta":{"b\/c":[1],"z":2,"a":null}}}"#,
                r#"{"result":{"_meta":{"b\/c":{},"z":2,"a":"x"}}}"#,
            ),
            (
                r#"{"result":{"_meta":{ "a":{"a":1} }}}"#,
                r#"{"result":{"_meta":{ "a":"x","b/c":{} }}}"#,
            ),
        ];
        for (reply, expected) in cases {
            let set = set_in_result_meta(reply.as_bytes(), &members).expect(reply);
            assert_eq!(String::from_utf8_lossy(&set), expected);
        }
        let untouched = [
            "",
            "[]",
            "{}",
            r#"{"error":{}}"#,
            r#"{"result":[]}"#,
            r#"{"result":null}"#,
            r#"{"result":{"_meta":[]}}"#,
            r#"{"result":{"_meta":null}}"#,
            r#"{"result":{}"#,
        ];
        for reply in untouched {
            assert_eq!(set_in_result_meta(reply.as_bytes(), &members), None, "{reply}");
        }
    }
}
