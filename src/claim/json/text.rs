//! Strings as they stand in the source: unescaped and compared without copies where they hold no
//! escape.

use std::borrow::Cow;
use std::cmp::Ordering;

/// The content of a string between its quotes, every escape already checked by the scan.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    raw: &'a str,
    escaped: bool,
}

/// Why the bytes after a backslash are no escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadEscape {
    Malformed,
    LoneSurrogate,
}

impl<'a> Text<'a> {
    pub const fn new(raw: &'a str, escaped: bool) -> Self {
        Self { raw, escaped }
    }

    /// What it means: borrowed exactly where the source holds no escape.
    #[inline]
    pub fn unescape(self) -> Cow<'a, str> {
        if self.escaped { Cow::Owned(self.decode()) } else { Cow::Borrowed(self.raw) }
    }

    /// Whether it means `other`.
    pub fn is(self, other: &str) -> bool {
        if !self.escaped {
            return self.raw == other;
        }
        let mut rest = other;
        self.pieces().all(|piece| {
            let after = match piece {
                Piece::Plain(run) => rest.strip_prefix(run),
                Piece::Escape(character) => rest.strip_prefix(character),
            };
            rest = after.unwrap_or_default();
            after.is_some()
        }) && rest.is_empty()
    }

    fn decode(self) -> String {
        let mut whole = String::with_capacity(self.raw.len());
        for piece in self.pieces() {
            match piece {
                Piece::Plain(run) => whole.push_str(run),
                Piece::Escape(character) => whole.push(character),
            }
        }
        whole
    }

    fn pieces(self) -> impl Iterator<Item = Piece<'a>> {
        Pieces { rest: self.raw }
    }
}

/// Something under a member name, with what makes comparing names cheap beside it.
pub(in crate::claim) struct Named<'a, T> {
    /// The first eight bytes of the name as a big-endian number, padded with zeros: where two
    /// differ, they differ as the names do.
    prefix: u64,
    /// The unescaped name.
    pub name: Cow<'a, str>,
    /// What it names.
    pub item: T,
}

impl<'a, T> Named<'a, T> {
    pub fn new(name: Cow<'a, str>, item: T) -> Self {
        Self { prefix: prefix(&name), name, item }
    }

    /// The order of the UTF-8 bytes of the names.
    pub fn order(&self, other: &Self) -> Ordering {
        self.prefix.cmp(&other.prefix).then_with(|| self.name.cmp(&other.name))
    }

    pub fn same_name<U>(&self, other: &Named<'_, U>) -> bool {
        self.prefix == other.prefix && self.name == other.name
    }
}

#[inline]
fn prefix(name: &str) -> u64 {
    if let Some(first) = name.as_bytes().first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let places = (0..u64::BITS).step_by(8).rev();
    name.bytes().zip(places).fold(0, |prefix, (byte, place)| prefix | u64::from(byte) << place)
}

/// A part of a string.
enum Piece<'a> {
    /// A run that stands for itself.
    Plain(&'a str),
    /// What one escape (or one pair of surrogate escapes) means.
    Escape(char),
}

struct Pieces<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let Some(escape) = self.rest.strip_prefix('\\') else {
            let run = self.rest.find('\\').unwrap_or(self.rest.len());
            let (plain, rest) = self.rest.split_at(run);
            self.rest = rest;
            return (!plain.is_empty()).then_some(Piece::Plain(plain));
        };
        match decode_escape(escape.as_bytes()) {
            Ok((character, length)) => {
                self.rest = &escape[length..];
                Some(Piece::Escape(character))
            }
            Err(_) => unreachable!("a text exists only after the scan decoded its escapes"),
        }
    }
}

/// Reads an escape from the bytes after its backslash: the character that it means and how many
/// of the bytes it takes. A pair of surrogates is one escape.
pub(super) fn decode_escape(bytes: &[u8]) -> Result<(char, usize), BadEscape> {
    let character = match bytes.first().ok_or(BadEscape::Malformed)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return decode_unicode(&bytes[1..]),
        _ => return Err(BadEscape::Malformed),
    };
    Ok((character, 1))
}

/// Reads what follows `\u`. The length includes the `u`.
fn decode_unicode(digits: &[u8]) -> Result<(char, usize), BadEscape> {
    const ONE_UNIT: usize = "uXXXX".len();
    const TWO_UNITS: usize = "uXXXX\\uXXXX".len();
    let (unit, rest) = hex_unit(digits).ok_or(BadEscape::Malformed)?;
    let following = rest.strip_prefix(b"\\u").and_then(hex_unit).map_or(0, |(unit, _)| unit);
    match char::decode_utf16([unit, following]).next() {
        Some(Ok(character)) if character.len_utf16() == 1 => Ok((character, ONE_UNIT)),
        Some(Ok(character)) => Ok((character, TWO_UNITS)),
        _ => Err(BadEscape::LoneSurrogate),
    }
}

fn hex_unit(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (digits, rest) = bytes.split_first_chunk::<4>()?;
    let mut unit = 0;
    for digit in digits {
        let value = char::from(*digit).to_digit(16)?;
        unit = unit << 4 | u16::try_from(value).ok()?;
    }
    Some((unit, rest))
}

/// The offset of the first byte from `at` on that a string cannot hold as itself: a quote, a
/// backslash or a control character; the length of `bytes` if there is none. Eight bytes a step.
pub(in crate::claim) fn end_of_plain_run(bytes: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let stops = bytes_below(word, 0x20) | bytes_equal(word, b'"') | bytes_equal(word, b'\\');
        if stops != 0 {
            return at + stops.trailing_zeros() as usize / 8;
        }
        at += chunk.len();
    }
    let plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    at + bytes[at..].iter().take_while(|byte| plain(byte)).count()
}

const LOW_BITS: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGH_BITS: u64 = u64::from_ne_bytes([0x80; 8]);

/// Sets the high bit of every byte of `word` below `limit` (at most 0x80). A borrow can set more
/// bits, but only above the first right one, and only the lowest is used.
const fn bytes_below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(LOW_BITS * limit as u64) & !word & HIGH_BITS
}

/// Sets the high bit of every byte of `word` that equals `byte`, as [`bytes_below`] does.
const fn bytes_equal(word: u64, byte: u8) -> u64 {
    bytes_below(word ^ (LOW_BITS * byte as u64), 1)
}
