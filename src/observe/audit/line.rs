//! The text of a line: a JSON object, written field by field.
//!
//! Every exchange writes one, so it is not left to a general serializer.

use std::fmt;
use std::io::Write;

/// Bytes of UTF-8 that a value keeps; a longer one is cut at a character and ends in `…`.
pub const MAX_VALUE_BYTES: usize = 256;

/// Digits of the largest whole number.
const MAX_DIGITS: usize = 20;

/// The name of a field as it is written, quotes and colon included.
#[derive(Clone, Copy)]
pub(super) struct Name(pub(super) &'static str);

/// A [`Name`], put together when the program is built.
macro_rules! name {
    ($name:literal) => {
        $crate::observe::audit::line::Name(concat!("\"", $name, "\":"))
    };
}
pub(super) use name;

/// What most lines need.
const USUAL_LINE_BYTES: usize = 512;

/// An object that is being written: printable ASCII and nothing else, so that no value can forge a
/// line or steer a terminal.
pub(super) struct Line(Vec<u8>);

impl Line {
    /// An object without a field.
    pub(super) fn begin() -> Self {
        let mut text = Vec::with_capacity(USUAL_LINE_BYTES);
        text.push(b'{');
        Self(text)
    }

    /// A string, cut at [`MAX_VALUE_BYTES`].
    pub(super) fn string(&mut self, name: Name, value: &str) {
        self.name(name);
        self.0.push(b'"');
        if value.len() <= MAX_VALUE_BYTES {
            self.escaped(value);
        } else {
            self.escaped(&value[..value.floor_char_boundary(MAX_VALUE_BYTES)]);
            self.escaped("…");
        }
        self.0.push(b'"');
    }

    /// A string, if there is one.
    pub(super) fn optional(&mut self, name: Name, value: Option<&str>) {
        if let Some(value) = value {
            self.string(name, value);
        }
    }

    /// A string of a type's own, which is printable ASCII without quotes and backslashes.
    pub(super) fn plain(&mut self, name: Name, value: fmt::Arguments<'_>) {
        self.name(name);
        self.0.push(b'"');
        self.put(value);
        self.0.push(b'"');
    }

    /// A whole number.
    pub(super) fn number(&mut self, name: Name, value: u64) {
        self.name(name);
        self.digits(value, 1);
    }

    /// A number of thousandths, as whole ones and three decimals.
    pub(super) fn thousandths(&mut self, name: Name, value: u64) {
        self.name(name);
        self.digits(value / 1000, 1);
        self.0.push(b'.');
        self.digits(value % 1000, 3);
    }

    /// The line, its line feed included.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"}\n");
        self.0
    }

    fn name(&mut self, name: Name) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.0.extend_from_slice(name.0.as_bytes());
    }

    /// At least so many digits; the formatter of the standard library costs several times as much.
    fn digits(&mut self, mut value: u64, least: usize) {
        let mut digits = [b'0'; MAX_DIGITS];
        let mut start = MAX_DIGITS;
        while value > 0 {
            start -= 1;
            digits[start] = b'0' + (value % 10) as u8;
            value /= 10;
        }
        self.0.extend_from_slice(&digits[start.min(MAX_DIGITS - least)..]);
    }

    fn escaped(&mut self, value: &str) {
        // Without an early end, which would be a branch for each byte.
        if value.bytes().fold(true, |plain, byte| plain & is_plain(byte)) {
            return self.0.extend_from_slice(value.as_bytes());
        }
        for character in value.chars() {
            match u8::try_from(character) {
                Ok(byte) if is_plain(byte) => self.0.push(byte),
                Ok(byte @ (b'"' | b'\\')) => self.0.extend_from_slice(&[b'\\', byte]),
                _ => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        self.put(format_args!("\\u{unit:04x}"));
                    }
                }
            }
        }
    }

    fn put(&mut self, value: fmt::Arguments<'_>) {
        // A vector takes everything.
        let _ = self.0.write_fmt(value);
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Line)) -> String {
        let mut line = Line::begin();
        write(&mut line);
        String::from_utf8(line.end()).expect("text")
    }

    #[test]
    fn numbers_have_all_their_digits() {
        for (value, text) in [(0, "0"), (7, "7"), (200, "200"), (u64::MAX, "18446744073709551615")]
        {
            assert_eq!(
                written(|line| line.number(name!("n"), value)),
                format!("{{\"n\":{text}}}\n")
            );
        }
        for (value, text) in
            [(0, "0.000"), (7, "0.007"), (1234, "1.234"), (60_000_050, "60000.050")]
        {
            let line = written(|line| line.thousandths(name!("n"), value));
            assert_eq!(line, format!("{{\"n\":{text}}}\n"));
        }
    }
}
