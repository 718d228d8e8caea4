//! The text of a line: a JSON object, written field by field.
//!
//! Every exchange writes one, so it is not left to a general serializer.

use std::fmt;
use std::io::Write;

/// Bytes of UTF-8 that a value keeps; a longer one is cut at a character and ends in `…`.
pub const MAX_VALUE_BYTES: usize = 256;

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
    pub(super) fn string(&mut self, name: &str, value: &str) {
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
    pub(super) fn optional(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.string(name, value);
        }
    }

    /// A string of a type's own, which is printable ASCII without quotes and backslashes.
    pub(super) fn plain(&mut self, name: &str, value: fmt::Arguments<'_>) {
        self.name(name);
        self.0.push(b'"');
        self.put(value);
        self.0.push(b'"');
    }

    /// A number.
    pub(super) fn number(&mut self, name: &str, value: fmt::Arguments<'_>) {
        self.name(name);
        self.put(value);
    }

    /// The line, its line feed included.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"}\n");
        self.0
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.0.push(b'"');
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
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
