//! JSON Pointer (RFC 6901): how a policy names the place of a key in a request body (CONTRACT
//! section 3, "Key sources").

use std::fmt;

use super::json::{Kind, MAX_DEPTH, Value};

/// A parsed pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    text: Box<str>,
    tokens: Box<[Token]>,
}

/// One reference token: a member name, and an element's index where it reads as one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    name: Box<str>,
    index: Option<usize>,
}

/// Why a text is no pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    /// Only the empty pointer, which names the whole document, has no slash.
    #[error("a pointer must begin with `/`")]
    NoSlash,
    /// A tilde that does not stand for `~` or `/`.
    #[error(
        "in a pointer `~` must be written `~0` and `/` inside a name `~1`; byte {0} is neither"
    )]
    Tilde(usize),
    /// More tokens than a document can have levels.
    #[error("a pointer must not have more than {MAX_DEPTH} parts: no document is nested deeper")]
    TooLong,
}

impl Pointer {
    /// Reads the string form, such as `/params/_meta/com.example~1idempotency-key`. The empty
    /// text names the whole document.
    ///
    /// # Errors
    ///
    /// The rule of RFC 6901 that is broken, or more than [`MAX_DEPTH`] tokens.
    pub fn parse(text: &str) -> Result<Self, PointerError> {
        check_tildes(text)?;
        let tokens = match text.strip_prefix('/') {
            Some(rest) => rest.split('/').map(Token::read).collect(),
            None if text.is_empty() => Box::default(),
            None => return Err(PointerError::NoSlash),
        };
        let pointer = Self { text: text.into(), tokens };
        if pointer.tokens.len() > MAX_DEPTH {
            return Err(PointerError::TooLong);
        }
        Ok(pointer)
    }

    /// The value that the pointer names, or `None` where there is none.
    pub fn resolve<'d, 'a>(&self, root: Value<'d, 'a>) -> Option<Value<'d, 'a>> {
        self.tokens.iter().try_fold(root, |value, token| match value.kind() {
            Kind::Object => value.get(&token.name),
            Kind::Array => value.elements().nth(token.index?),
            _ => None,
        })
    }

    /// The member names on the way, unescaped; what reads as an index is one too.
    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.tokens.iter().map(|token| &*token.name)
    }

    /// The text that was parsed.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Token {
    /// Reads a token whose tildes were checked.
    fn read(escaped: &str) -> Self {
        // In this order, so that `~01` becomes `~1` and not `/` (RFC 6901 section 4).
        let name = escaped.replace("~1", "/").replace("~0", "~").into_boxed_str();
        let index = read_index(&name);
        Self { name, index }
    }
}

/// Digits without a leading zero. `-` names the element after the last, which never exists, and
/// neither does one whose index does not fit.
fn read_index(name: &str) -> Option<usize> {
    let digits = name.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = name.len() > 1 && name.starts_with('0');
    if digits && !leading_zero { name.parse().ok() } else { None }
}

fn check_tildes(text: &str) -> Result<(), PointerError> {
    for (at, _) in text.match_indices('~') {
        if !matches!(text.as_bytes().get(at + 1), Some(b'0' | b'1')) {
            return Err(PointerError::Tilde(at));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::json::Document;

    #[track_caller]
    fn resolved(text: &str, pointer: &str) -> Option<String> {
        let document = Document::parse(text.as_bytes()).expect("the text is JSON");
        let pointer = Pointer::parse(pointer).expect("the pointer is one");
        pointer.resolve(document.root()).map(|value| value.raw().to_owned())
    }

    #[test]
    fn the_examples_of_the_rfc_resolve() {
        let text = r#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}"#;
        let expected = [
            ("", text),
            ("/foo", r#"["bar","baz"]"#),
            ("/foo/0", r#""bar""#),
            ("/", "0"),
            ("/a~1b", "1"),
            ("/c%d", "2"),
            ("/e^f", "3"),
            ("/g|h", "4"),
            ("/i\\j", "5"),
            ("/k\"l", "6"),
            ("/ ", "7"),
            ("/m~0n", "8"),
        ];
        for (pointer, value) in expected {
            assert_eq!(resolved(text, pointer).as_deref(), Some(value), "{pointer}");
        }
    }

    #[test]
    fn a_tilde_is_unescaped_last() {
        assert_eq!(resolved(r#"{"~1":1,"/":2}"#, "/~01").as_deref(), Some("1"));
    }

    #[test]
    fn names_are_compared_after_unescaping() {
        let body = r#"{"params":{"_meta":{"com.example\/\u006bey":"k"}}}"#;
        let pointer = "/params/_meta/com.example~1key";
        assert_eq!(resolved(body, pointer).as_deref(), Some(r#""k""#));
    }

    #[test]
    fn what_is_not_there_is_absent() {
        let text = r#"{"a":[1,2],"b":"c","0":{"00":1}}"#;
        let absent = [
            "/x",
            "/a/2",
            "/a/-",
            "/a/00",
            "/a/01",
            "/a/+1",
            "/a/",
            "/a/length",
            "/a/99999999999999999999999",
            "/b/c",
            "/b/0",
            "/A",
        ];
        for pointer in absent {
            assert_eq!(resolved(text, pointer), None, "{pointer}");
        }
        assert_eq!(resolved(text, "/0/00").as_deref(), Some("1"), "digits are a name in an object");
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        let deepest = "/a".repeat(MAX_DEPTH);
        let too_long = format!("{deepest}/a");
        let refused = [
            ("params", PointerError::NoSlash),
            ("#/params", PointerError::NoSlash),
            ("/a~", PointerError::Tilde(2)),
            ("/a~2b", PointerError::Tilde(2)),
            (too_long.as_str(), PointerError::TooLong),
        ];
        for (text, error) in refused {
            assert_eq!(Pointer::parse(text), Err(error), "{text}");
        }
        assert_eq!(Pointer::parse(&deepest).map(|pointer| pointer.as_str() == deepest), Ok(true));
    }
}
