//! JSON with places for arguments.

use super::InputSchema;
use super::error::{RenderError, TemplateError, TemplateProblem};
use super::text::{Arguments, Piece, Text};
use crate::claim::json::{JsonText, PutError};
use crate::claim::{Kind, Pointer, Value};

/// A JSON value with places for arguments. As deep as a document may be, at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// JSON text that holds no argument.
    Literal(Box<str>),
    /// An argument's value as it was sent, with its digits.
    Argument(Box<str>),
    /// A string with arguments in it.
    Text(Text),
    Array(Box<[Node]>),
    /// Members under their names.
    Object(Box<[(Box<str>, Node)]>),
}

impl Node {
    /// Reads a template; `place` is where it stands.
    pub fn read(
        value: Value<'_, '_>,
        place: &str,
        schema: &InputSchema,
    ) -> Result<Self, TemplateError> {
        match (value.kind(), value.as_str()) {
            (_, Some(text)) => {
                let text = Text::parse(&text, schema).map_err(|problem| problem.at(place))?;
                Ok(Self::of_text(text))
            }
            (Kind::Array, _) => value
                .elements()
                .enumerate()
                .map(|(index, element)| Self::read(element, &format!("{place}[{index}]"), schema))
                .collect::<Result<_, _>>()
                .map(Self::Array),
            (Kind::Object, _) => value
                .members()
                .map(|(name, member)| {
                    let node = Self::read(member, &format!("{place}.{name}"), schema)?;
                    Ok((name.into(), node))
                })
                .collect::<Result<_, _>>()
                .map(Self::Object),
            _ => Ok(Self::Literal(value.raw().into())),
        }
    }

    fn of_text(text: Text) -> Self {
        match &*text.0 {
            [] => Self::Literal("\"\"".into()),
            [Piece::Literal(text)] => Self::Literal(JsonText::string(text).as_str().into()),
            [Piece::Argument(name)] => Self::Argument(name.clone()),
            _ => Self::Text(text),
        }
    }

    /// Appends the value to `out`, which may grow to `limit` bytes; false where it is absent, and
    /// `out` may then hold a part of it. An absent member or element is left out of what is around
    /// it.
    pub fn write(
        &self,
        arguments: Arguments<'_, '_>,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, RenderError> {
        match self {
            Self::Literal(text) => append(text.as_bytes(), limit, out).map(|()| true),
            Self::Argument(name) => match arguments.get(name) {
                Some(value) => append(value.raw().as_bytes(), limit, out).map(|()| true),
                None => Ok(false),
            },
            Self::Text(text) => match text.render(arguments, limit)? {
                Some(text) => {
                    append(JsonText::string(&text).as_str().as_bytes(), limit, out).map(|()| true)
                }
                None => Ok(false),
            },
            Self::Array(elements) => {
                list(*b"[]", elements, out, |element, out| element.write(arguments, limit, out))
            }
            Self::Object(members) => list(*b"{}", members, out, |(name, member), out| {
                append(JsonText::string(name).as_str().as_bytes(), limit, out)?;
                out.push(b':');
                member.write(arguments, limit, out)
            }),
        }
    }

    /// Whether a member can be put at a place of what is made of this, as far as that can be told
    /// before there are arguments.
    pub fn takes(&self, pointer: &Pointer) -> Result<(), PutError> {
        let mut place = self;
        let mut parts = 0;
        for name in pointer.names() {
            parts += 1;
            let members = match place {
                Self::Object(members) => members,
                Self::Array(_) => return Err(PutError::IntoArray),
                Self::Literal(_) | Self::Text(_) => return Err(PutError::ThroughScalar),
                Self::Argument(_) => return Ok(()),
            };
            match members.iter().find(|(member, _)| **member == *name) {
                Some((_, member)) => place = member,
                None => return Ok(()),
            }
        }
        match place {
            _ if parts == 0 => Err(PutError::Root),
            Self::Argument(_) => Ok(()),
            _ => Err(PutError::Taken),
        }
    }
}

/// Texts under their names.
pub(super) type Texts = Box<[(Box<str>, Text)]>;

/// The members of a list of texts: each is a string, a number or a boolean.
pub(super) fn texts(
    members: Value<'_, '_>,
    place: &str,
    limit: (usize, &'static str),
    schema: &InputSchema,
) -> Result<Texts, TemplateError> {
    if members.kind() != Kind::Object {
        return Err(TemplateProblem::NotAnObject.at(place));
    }
    if members.members().count() > limit.0 {
        return Err(TemplateProblem::TooMany(limit.1).at(place));
    }
    let text = |value: Value<'_, '_>| match (value.kind(), value.as_str()) {
        (_, Some(text)) => Text::parse(&text, schema),
        (Kind::Number | Kind::Bool, _) => Text::parse(value.raw(), schema),
        _ => Err(TemplateProblem::NotText),
    };
    members
        .members()
        .map(|(name, value)| {
            let text = text(value).map_err(|problem| problem.at(format!("{place}.{name}")))?;
            Ok((name.into(), text))
        })
        .collect()
}

fn list<T>(
    [open, close]: [u8; 2],
    items: &[T],
    out: &mut Vec<u8>,
    write: impl Fn(&T, &mut Vec<u8>) -> Result<bool, RenderError>,
) -> Result<bool, RenderError> {
    out.push(open);
    let start = out.len();
    for item in items {
        let before = out.len();
        if before > start {
            out.push(b',');
        }
        if !write(item, out)? {
            out.truncate(before);
        }
    }
    out.push(close);
    Ok(true)
}

fn append(text: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), RenderError> {
    if text.len() > limit.saturating_sub(out.len()) {
        return Err(RenderError::TooLong(limit));
    }
    out.extend_from_slice(text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Document;

    fn node(template: &str) -> Result<Node, TemplateError> {
        let schema = r#"{"type":"object","properties":{"a":{},"b":{}}}"#;
        let schema = InputSchema::parse(schema).expect("a schema");
        let document = Document::parse(template.as_bytes()).expect("JSON");
        Node::read(document.root(), "body.json", &schema)
    }

    fn written(template: &str, arguments: &str) -> Option<String> {
        let document = Document::parse(arguments.as_bytes()).expect("JSON");
        let mut out = Vec::new();
        let there = node(template)
            .expect(template)
            .write(Arguments(Some(document.root())), 1000, &mut out)
            .expect("it fits");
        there.then(|| String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn an_argument_keeps_its_digits_and_its_type() {
        let arguments = r#"{"a":[18446744073709551617, 1.10],"b":"x\u0041"}"#;
        let cases = [
            (
                r#"{"amount":"{a}","who":"{b}"}"#,
                r#"{"amount":[18446744073709551617, 1.10],"who":"x\u0041"}"#,
            ),
            (
                r#"{"t":"\"{b}\"","n":1.0,"z":null,"{b}":[]}"#,
                r#"{"t":"\"xA\"","n":1.0,"z":null,"{b}":[]}"#,
            ),
            (r#""{a}""#, "[18446744073709551617, 1.10]"),
            (r#"["{b}",{"{{":"{{"}]"#, r#"["x\u0041",{"{{":"{"}]"#),
        ];
        for (template, expected) in cases {
            assert_eq!(written(template, arguments).as_deref(), Some(expected), "{template}");
        }
    }

    #[test]
    fn an_absent_argument_drops_the_member_and_null_is_a_value() {
        let template = r#"{"x":"{a}","y":["{a}","{b}","-{a}"],"z":{"a":"{a}"},"w":"{b}"}"#;
        assert_eq!(
            written(template, r#"{"b":null}"#).as_deref(),
            Some(r#"{"y":[null],"z":{},"w":null}"#)
        );
        assert_eq!(written(template, "{}").as_deref(), Some(r#"{"y":[],"z":{}}"#));
        assert_eq!(written(r#""{a}""#, "{}"), None);
    }

    #[test]
    fn the_place_of_a_mistake_is_told() {
        let error = node(r#"{"a":[{"b":"{c}"}]}"#).expect_err("unknown");
        assert_eq!(error.place, "body.json.a[0].b");
        assert_eq!(error.problem, TemplateProblem::UnknownArgument("c".to_owned()));
    }

    #[test]
    fn where_a_key_can_be_put_is_known_before_there_are_arguments() {
        let template = r#"{"s":"x","t":"{a}-","v":"{a}","l":[],"o":{"k":1}}"#;
        let cases = [
            ("/new", Ok(())),
            ("/o/new/deep", Ok(())),
            ("/v", Ok(())),
            ("/v/deep", Ok(())),
            ("", Err(PutError::Root)),
            ("/s", Err(PutError::Taken)),
            ("/t", Err(PutError::Taken)),
            ("/o", Err(PutError::Taken)),
            ("/o/k", Err(PutError::Taken)),
            ("/o/k/deep", Err(PutError::ThroughScalar)),
            ("/s/deep", Err(PutError::ThroughScalar)),
            ("/t/deep", Err(PutError::ThroughScalar)),
            ("/l/0", Err(PutError::IntoArray)),
        ];
        for (pointer, expected) in cases {
            let pointer = Pointer::parse(pointer).expect("a pointer");
            assert_eq!(node(template).expect("a template").takes(&pointer), expected, "{pointer}");
        }
    }

    #[test]
    fn what_is_made_has_a_bound() {
        let document = Document::parse(br#"{"a":"xxxxxxxx"}"#).expect("JSON");
        let node = node(r#"["{a}","{a}"]"#).expect("a template");
        let fits =
            |limit| node.write(Arguments(Some(document.root())), limit, &mut Vec::new()).is_ok();
        assert!(fits(22) && !fits(21));
    }
}
