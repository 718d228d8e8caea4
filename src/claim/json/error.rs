//! Why a text was refused.

use super::MAX_DEPTH;

/// What is wrong with a text, and the offset in bytes where; always the sender's fault. The text
/// itself is never quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Nothing but white space.
    #[error("the text is empty; byte {0}")]
    Empty(usize),
    /// Longer than [`MAX_BYTES`](super::MAX_BYTES).
    #[error("the text is longer than {0} bytes; send a shorter one")]
    TooLarge(usize),
    /// A byte that no UTF-8 text holds there.
    #[error("invalid UTF-8 at byte {0}; encode the text as UTF-8")]
    Utf8(usize),
    /// U+FEFF before the value.
    #[error("byte order mark at byte {0}; send the text without it")]
    ByteOrderMark(usize),
    /// A byte that JSON does not allow there.
    #[error("unexpected byte at {0}; the text is not JSON")]
    Unexpected(usize),
    /// A number that JSON does not allow, such as `01` or `1.`.
    #[error("malformed number at byte {0}")]
    Number(usize),
    /// A backslash with something after it that is no escape.
    #[error("malformed escape in a string at byte {0}")]
    Escape(usize),
    /// Half of a surrogate pair, which is no character.
    #[error("lone surrogate in a string at byte {0}; send the pair or the character itself")]
    LoneSurrogate(usize),
    /// A character below U+0020 that stands in a string as itself.
    #[error("control character in a string at byte {0}; escape it")]
    ControlCharacter(usize),
    /// The text ends inside a value.
    #[error("the text ends at byte {0}, inside a value")]
    Truncated(usize),
    /// Something other than white space after the value.
    #[error("data after the value at byte {0}; send one value")]
    TrailingData(usize),
    /// More than [`MAX_DEPTH`] arrays and objects open at once.
    #[error("nested deeper than {MAX_DEPTH} at byte {0}")]
    TooDeep(usize),
    /// A member name that its object already holds, compared after unescaping.
    #[error("member name repeated at byte {0}; give every member of an object its own name")]
    DuplicateName(usize),
}

impl JsonError {
    /// Where the fault is: an offset in bytes from the start of the text.
    pub const fn offset(self) -> usize {
        match self {
            Self::Empty(at)
            | Self::TooLarge(at)
            | Self::Utf8(at)
            | Self::ByteOrderMark(at)
            | Self::Unexpected(at)
            | Self::Number(at)
            | Self::Escape(at)
            | Self::LoneSurrogate(at)
            | Self::ControlCharacter(at)
            | Self::Truncated(at)
            | Self::TrailingData(at)
            | Self::TooDeep(at)
            | Self::DuplicateName(at) => at,
        }
    }
}
