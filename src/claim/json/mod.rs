//! Strict JSON reading (CONTRACT section 3, "Inspect"): one pass, one tape, no copies.
//!
//! The tape is a flat list of small nodes over the borrowed bytes. Every value knows where its
//! subtree ends, so skipping one is a single step, and nothing is allocated for each value. Two
//! parsers must never read one body differently, so whatever another parser might read in its own
//! way (repeated names, lone surrogates, trailing data) is refused here.

mod edit;
mod error;
mod number;
mod same;
mod scan;
mod tape;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

pub use edit::{JsonText, PutError, put, set_in_result_meta};
pub use error::JsonError;
use tape::Node;
use text::Text;
pub(super) use text::{Named, end_of_plain_run};

/// How many arrays and objects may be open at once. A document nested exactly this deep is fine.
pub const MAX_DEPTH: usize = 128;

/// The longest document in bytes: the tape's offsets are 32 bits wide.
pub const MAX_BYTES: usize = u32::MAX as usize;

/// A JSON text that passed the strict scan, and the tape over it.
pub struct Document<'a> {
    source: &'a str,
    tape: Vec<Node>,
}

/// One value of a [`Document`]: a place on its tape.
#[derive(Clone, Copy)]
pub struct Value<'d, 'a> {
    document: &'d Document<'a>,
    index: usize,
}

/// The six types of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number of any size and precision, kept as its literal text.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object; its member names are unique.
    Object,
}

impl<'a> Document<'a> {
    /// Reads one JSON text strictly, in time linear in its length save for the sorting of the
    /// names of large objects.
    ///
    /// # Errors
    ///
    /// A [`JsonError`] with the byte offset of the first thing that is wrong. Text that is not
    /// UTF-8 or begins with a byte order mark is refused before anything else.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, JsonError> {
        check_length(bytes.len())?;
        if bytes.starts_with(b"\xef\xbb\xbf") {
            return Err(JsonError::ByteOrderMark(0));
        }
        let source =
            std::str::from_utf8(bytes).map_err(|error| JsonError::Utf8(error.valid_up_to()))?;
        let tape = scan::scan(source)?;
        Ok(Self { source, tape })
    }

    /// The value that the text holds.
    pub fn root(&self) -> Value<'_, 'a> {
        Value { document: self, index: 0 }
    }
}

impl<'d, 'a> Value<'d, 'a> {
    /// The type of the value.
    pub fn kind(self) -> Kind {
        self.node().tag.kind()
    }

    /// The source text of the value, without the white space around it.
    pub fn raw(self) -> &'a str {
        &self.document.source[self.span()]
    }

    /// The byte range of [`Value::raw`] in the source.
    pub fn span(self) -> Range<usize> {
        self.node().span()
    }

    /// The unescaped string, borrowed where it holds no escape; `None` for any other type.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        self.text().map(Text::unescape)
    }

    /// The member of this object whose unescaped name is `name`; `None` where there is none or
    /// this is no object. Walks the members, each in one step.
    pub fn get(self, name: &str) -> Option<Value<'d, 'a>> {
        self.entries().find_map(|(key, value)| key.is(name).then_some(value))
    }

    /// The members of this object in source order, names unescaped; empty for any other type.
    pub fn members(self) -> impl Iterator<Item = (Cow<'a, str>, Value<'d, 'a>)> {
        self.entries().map(|(key, value)| (key.unescape(), value))
    }

    /// The elements of this array; empty for any other type.
    pub fn elements(self) -> impl Iterator<Item = Value<'d, 'a>> {
        let end = if self.kind() == Kind::Array { self.next() } else { self.index };
        let mut index = self.index + 1;
        std::iter::from_fn(move || {
            let element = (index < end).then(|| self.at(index))?;
            index = element.next();
            Some(element)
        })
    }

    /// Whether both are the same JSON value: numbers compare exactly as decimals of any size
    /// (`1`, `1.0` and `10e-1` are the same), strings after unescaping, objects without regard to
    /// order. The work is linear in the length of number literals, huge exponents included.
    pub fn same_value(self, other: Value<'_, '_>) -> bool {
        same::same_value(self, other)
    }

    /// The members of this object in source order; empty for any other type.
    fn entries(self) -> impl Iterator<Item = (Text<'a>, Value<'d, 'a>)> {
        let end = if self.kind() == Kind::Object { self.next() } else { self.index };
        let mut index = self.index + 1;
        std::iter::from_fn(move || {
            let key = self.document.tape.get(index).filter(|_| index < end)?;
            let value = self.at(index + 1);
            index = value.next();
            Some((key.text(self.document.source), value))
        })
    }

    /// The content of a string as it stands in the source; `None` for any other type.
    fn text(self) -> Option<Text<'a>> {
        (self.kind() == Kind::String).then(|| self.node().text(self.document.source))
    }

    fn node(self) -> &'d Node {
        &self.document.tape[self.index]
    }

    fn at(self, index: usize) -> Self {
        Self { document: self.document, index }
    }

    fn next(self) -> usize {
        self.node().next as usize
    }
}

/// Content stays out of logs: only sizes are shown.
impl fmt::Debug for Document<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("bytes", &self.source.len())
            .field("nodes", &self.tape.len())
            .finish()
    }
}

/// Content stays out of logs: only type and place are shown.
impl fmt::Debug for Value<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Value").field("kind", &self.kind()).field("span", &self.span()).finish()
    }
}

fn check_length(bytes: usize) -> Result<(), JsonError> {
    if bytes > MAX_BYTES {
        return Err(JsonError::TooLarge(MAX_BYTES));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
