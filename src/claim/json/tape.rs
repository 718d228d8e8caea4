//! The node of a tape. The nodes of a container's content follow its own; the name of a member
//! is a string node right before the member's value.

use std::ops::Range;

use super::{Kind, Text};

/// One value, or the name of a member.
#[derive(Clone, Copy)]
pub(super) struct Node {
    /// Offset of its first byte in the source.
    pub start: u32,
    /// Offset after its last byte.
    pub end: u32,
    /// Index on the tape of the first node after its subtree.
    pub next: u32,
    pub tag: Tag,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    Null,
    Bool,
    Number,
    /// A string without a backslash: its content stands in the source as it is.
    Plain,
    /// A string with at least one escape.
    Escaped,
    Array,
    Object,
}

impl Tag {
    pub const fn kind(self) -> Kind {
        match self {
            Self::Null => Kind::Null,
            Self::Bool => Kind::Bool,
            Self::Number => Kind::Number,
            Self::Plain | Self::Escaped => Kind::String,
            Self::Array => Kind::Array,
            Self::Object => Kind::Object,
        }
    }
}

impl Node {
    pub const fn span(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The content between the quotes of a string.
    pub fn text<'a>(&self, source: &'a str) -> Text<'a> {
        let inside = self.start as usize + 1..self.end as usize - 1;
        Text::new(&source[inside], self.tag == Tag::Escaped)
    }
}
