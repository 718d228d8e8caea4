//! Paths with places for arguments, each of which stays inside its segment.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::InputSchema;
use super::error::{RenderError, TemplateProblem};
use super::text::{Arguments, Piece, Text};

/// Everything but the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What a literal may hold beside letters and digits: unreserved characters and sub-delimiters,
/// `:` and `@`.
const LITERAL: &[u8] = b"-._~!$&'()*+,;=:@";

/// A path below the base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    template: Box<str>,
    segments: Box<[Box<[Piece]>]>,
}

impl Path {
    /// Reads a path that begins with `/`; a last segment may be empty, no other one.
    pub fn parse(template: &str, schema: &InputSchema) -> Result<Self, TemplateProblem> {
        let text = Text::parse(template, schema)?;
        let mut segments = Vec::new();
        let mut segment: Vec<Piece> = Vec::new();
        for piece in text.0 {
            let Piece::Literal(literal) = &piece else {
                segment.push(piece);
                continue;
            };
            let mut parts = literal.split('/');
            push(&mut segment, parts.next().unwrap_or_default());
            for part in parts {
                segments.push(std::mem::take(&mut segment));
                push(&mut segment, part);
            }
        }
        segments.push(segment);
        let allowed =
            |(index, pieces): (usize, &Vec<Piece>)| is_segment(pieces, index == segments.len() - 1);
        // What stands before the first slash is nothing.
        let rooted = segments.len() > 1 && segments.first().is_some_and(Vec::is_empty);
        if !rooted || !segments.iter().enumerate().skip(1).all(allowed) {
            return Err(TemplateProblem::Path);
        }
        let segments = segments.into_iter().skip(1).map(Vec::into_boxed_slice).collect();
        Ok(Self { template: template.into(), segments })
    }

    /// The text that was parsed.
    pub fn template(&self) -> &str {
        &self.template
    }

    /// The path with the arguments in it, percent-encoded.
    pub fn render(&self, arguments: Arguments<'_, '_>) -> Result<String, RenderError> {
        let mut out = String::new();
        for segment in &self.segments {
            out.push('/');
            render_segment(segment, arguments, &mut out)?;
        }
        Ok(out)
    }
}

fn render_segment(
    segment: &[Piece],
    arguments: Arguments<'_, '_>,
    out: &mut String,
) -> Result<(), RenderError> {
    let mut whole = String::new();
    let mut last = None;
    for piece in segment {
        match piece {
            Piece::Literal(literal) => {
                whole.push_str(literal);
                out.push_str(literal);
            }
            Piece::Argument(name) => {
                let missing = || RenderError::Missing(name.to_string());
                let text: Cow<'_, str> = arguments.text(name)?.ok_or_else(missing)?;
                whole.push_str(&text);
                out.extend(utf8_percent_encode(&text, ENCODED));
                last = Some(name);
            }
        }
    }
    match last {
        Some(name) if leaves_its_place(&whole) => Err(RenderError::Segment(name.to_string())),
        _ => Ok(()),
    }
}

/// Whether a segment would be another one, or could be for a vendor that decodes before it splits.
fn leaves_its_place(segment: &str) -> bool {
    segment.is_empty() || segment.split(['/', '\\']).any(|part| matches!(part, "." | ".."))
}

fn push(segment: &mut Vec<Piece>, literal: &str) {
    if !literal.is_empty() {
        segment.push(Piece::Literal(literal.into()));
    }
}

fn is_segment(pieces: &[Piece], is_last: bool) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || LITERAL.contains(&byte);
    match pieces {
        [] => is_last,
        [Piece::Literal(literal)] if matches!(&**literal, "." | "..") => false,
        _ => pieces.iter().all(|piece| match piece {
            Piece::Literal(literal) => literal.bytes().all(plain),
            Piece::Argument(_) => true,
        }),
    }
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;
    use crate::claim::Document;

    fn schema() -> InputSchema {
        let text = r#"{"type":"object","properties":{"id":{},"to":{}}}"#;
        InputSchema::parse(text).expect("a schema")
    }

    fn rendered(template: &str, arguments: &str) -> Result<String, RenderError> {
        let document = Document::parse(arguments.as_bytes()).expect("JSON");
        let path = Path::parse(template, &schema()).expect(template);
        path.render(Arguments(Some(document.root())))
    }

    #[test]
    fn an_argument_is_percent_encoded_and_stays_in_its_segment() {
        // RFC 3986, 2.3: unreserved characters stay, everything else is encoded from its UTF-8.
        let cases = [
            ("aZ09-._~", "aZ09-._~"),
            ("a/b", "a%2Fb"),
            ("?x=1&y#z", "%3Fx%3D1%26y%23z"),
            ("é %", "%C3%A9%20%25"),
            ("a\r\nb", "a%0D%0Ab"),
            ("...", "..."),
        ];
        for (value, expected) in cases {
            let arguments = serde_json::json!({ "id": value }).to_string();
            let path = rendered("/v1/{id}/x:y", &arguments);
            assert_eq!(path, Ok(format!("/v1/{expected}/x:y")), "{value}");
        }
        assert_eq!(rendered("/{id}.{to}/", r#"{"id":7,"to":true}"#), Ok("/7.true/".to_owned()));
        assert_eq!(rendered("/", "{}"), Ok("/".to_owned()));
    }

    #[test]
    fn an_argument_that_would_change_the_address_is_refused() {
        for value in ["", ".", "..", "../x", "x/..", "..\\x", "a/./b"] {
            let arguments = serde_json::json!({ "id": value }).to_string();
            let refused = Err(RenderError::Segment("id".to_owned()));
            assert_eq!(rendered("/v1/{id}/x", &arguments), refused, "{value}");
        }
        let joined = rendered("/{id}{to}", r#"{"id":".","to":"."}"#);
        assert_eq!(joined, Err(RenderError::Segment("to".to_owned())));
        assert_eq!(rendered("/x{id}", r#"{"id":""}"#), Ok("/x".to_owned()));
        for arguments in ["{}", r#"{"id":null}"#] {
            let missing = Err(RenderError::Missing("id".to_owned()));
            assert_eq!(rendered("/v1/{id}", arguments), missing, "{arguments}");
        }
    }

    #[test]
    fn a_path_that_could_be_read_in_two_ways_is_refused() {
        for template in [
            "", "x", "{id}", "{id}/x", "//x", "/x//y", "/../x", "/x/.", "/x?y", "/x#y", "/x y",
            "/%2e", "/é",
        ] {
            assert_eq!(Path::parse(template, &schema()), Err(TemplateProblem::Path), "{template}");
        }
        assert_eq!(Path::parse("/x/{id}/", &schema()).map(|path| path.template().len()), Ok(8));
    }

    proptest! {
        #[test]
        fn every_argument_is_one_segment_and_comes_back_when_it_is_decoded(value in ".*") {
            let arguments = serde_json::json!({ "id": value }).to_string();
            match rendered("/a/{id}/b", &arguments) {
                Ok(path) => {
                    let inside = path.strip_prefix("/a/").and_then(|rest| rest.strip_suffix("/b"));
                    let inside = inside.expect("between its neighbours");
                    prop_assert!(!inside.contains(['/', '?', '#', '\\']));
                    prop_assert!(inside.is_ascii());
                    let decoded = percent_decode_str(inside).decode_utf8().expect("UTF-8");
                    prop_assert_eq!(&*decoded, &*value);
                }
                Err(error) => {
                    prop_assert_eq!(error, RenderError::Segment("id".to_owned()));
                    prop_assert!(value.is_empty() || value.contains('.'));
                }
            }
        }
    }
}
