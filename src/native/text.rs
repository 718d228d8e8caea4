//! Texts of a template: literal, with `{name}` for an argument, and `{{` and `}}` for braces.

use std::borrow::Cow;

use super::InputSchema;
use super::error::{RenderError, TemplateProblem};
use crate::claim::{Kind, Value};

/// A text with places for arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text(pub Box<[Piece]>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Literal(Box<str>),
    Argument(Box<str>),
}

/// The arguments of one call; absent ones are none.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'d, 'a>(pub Option<Value<'d, 'a>>);

impl Text {
    /// Reads a text whose arguments are properties of the schema.
    pub fn parse(text: &str, schema: &InputSchema) -> Result<Self, TemplateProblem> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            rest = &rest[at..];
            let doubled = ["{{", "}}"].into_iter().find(|brace| rest.starts_with(brace));
            if let Some(brace) = doubled {
                literal.push_str(&brace[1..]);
                rest = &rest[brace.len()..];
                continue;
            }
            let end = rest.find('}').filter(|end| *end > 0).ok_or(TemplateProblem::Brace)?;
            let name = &rest[1..end];
            if !schema.lists(name) {
                return Err(TemplateProblem::UnknownArgument(name.to_owned()));
            }
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal).into()));
            }
            pieces.push(Piece::Argument(name.into()));
            rest = &rest[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal.into()));
        }
        Ok(Self(pieces.into()))
    }

    /// The names of its arguments.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Argument(name) => Some(&**name),
            Piece::Literal(_) => None,
        })
    }

    /// The text, or none where an argument of it is absent or null. At most `limit` bytes.
    pub fn render(
        &self,
        arguments: Arguments<'_, '_>,
        limit: usize,
    ) -> Result<Option<String>, RenderError> {
        let mut out = String::new();
        for piece in &self.0 {
            let text = match piece {
                Piece::Literal(text) => Cow::Borrowed(&**text),
                Piece::Argument(name) => match arguments.text(name)? {
                    Some(text) => text,
                    None => return Ok(None),
                },
            };
            if text.len() > limit - out.len() {
                return Err(RenderError::TooLong(limit));
            }
            out.push_str(&text);
        }
        Ok(Some(out))
    }
}

impl<'d, 'a> Arguments<'d, 'a> {
    /// An argument's value; null is one.
    pub fn get(self, name: &str) -> Option<Value<'d, 'a>> {
        self.0?.get(name)
    }

    /// An argument as text: a string's content, a number's digits, a boolean's word; none where it
    /// is absent or null.
    pub fn text(self, name: &str) -> Result<Option<Cow<'a, str>>, RenderError> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        match (value.kind(), value.as_str()) {
            (Kind::Null, _) => Ok(None),
            (Kind::Array | Kind::Object, _) => Err(RenderError::NotText(name.to_owned())),
            (_, Some(content)) => Ok(Some(content)),
            (_, None) => Ok(Some(Cow::Borrowed(value.raw()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Document;

    fn schema() -> InputSchema {
        let text = r#"{"type":"object","properties":{"a":{},"b c":{},"{":{}}}"#;
        InputSchema::parse(text).expect("a schema")
    }

    fn rendered(template: &str, arguments: &str) -> Result<Option<String>, RenderError> {
        let document = Document::parse(arguments.as_bytes()).expect("JSON");
        let text = Text::parse(template, &schema()).expect(template);
        text.render(Arguments(Some(document.root())), 20)
    }

    #[test]
    fn arguments_stand_in_a_text_as_theirs() {
        let arguments = r#"{"a":"x\n\u00e9","b c":-1.50E+3}"#;
        let cases = [
            ("", ""),
            ("{a}", "x\né"),
            ("<{b c}>", "<-1.50E+3>"),
            ("{a}{a}", "x\néx\né"),
            ("{{a}}", "{a}"),
            ("{{{a}}}", "{x\né}"),
            ("}}{{", "}{"),
        ];
        for (template, expected) in cases {
            assert_eq!(rendered(template, arguments), Ok(Some(expected.to_owned())), "{template}");
        }
        assert_eq!(rendered("{a}", r#"{"a":true}"#), Ok(Some("true".to_owned())));
    }

    #[test]
    fn an_absent_argument_makes_the_text_absent() {
        for arguments in ["{}", r#"{"a":null}"#] {
            assert_eq!(rendered("x{a}", arguments), Ok(None), "{arguments}");
        }
    }

    #[test]
    fn what_has_no_text_and_what_is_too_long_is_refused() {
        for value in ["[]", "{}", "[1]"] {
            let arguments = format!(r#"{{"a":{value}}}"#);
            assert_eq!(rendered("{a}", &arguments), Err(RenderError::NotText("a".into())));
        }
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(11));
        assert_eq!(rendered("{a}", &long).map(|text| text.map(|text| text.len())), Ok(Some(11)));
        assert_eq!(rendered("{a}{a}", &long), Err(RenderError::TooLong(20)));
    }

    #[test]
    fn braces_that_mean_nothing_and_unknown_names_are_refused() {
        for text in ["{", "}", "{a", "a}", "{a}}", "{{}"] {
            assert_eq!(Text::parse(text, &schema()), Err(TemplateProblem::Brace), "{text}");
        }
        for (text, name) in [("{b}", "b"), ("{}", ""), ("{A}", "A")] {
            let unknown = TemplateProblem::UnknownArgument(name.to_owned());
            assert_eq!(Text::parse(text, &schema()), Err(unknown), "{text}");
        }
    }
}
