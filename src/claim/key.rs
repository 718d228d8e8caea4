//! The `Idempotency-Key` (CONTRACT section 3, "Key sources").

use std::fmt;

use super::ids::Hex;

/// The longest key in bytes.
pub const MAX_KEY_BYTES: usize = 255;

/// What every key of the `idt` format begins with.
const IDT_PREFIX: &str = "idt_";

/// Hex digits of an `idt` key after its prefix.
const IDT_DIGITS: usize = 32;

/// Which keys a server takes (`idempotency.format` of its policy).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyFormat {
    /// 1 to [`MAX_KEY_BYTES`] visible ASCII characters.
    #[default]
    Any,
    /// `idt_` and 32 lower-case hex digits.
    Idt,
}

/// A valid key. Whoever reads it may replay a reply, so it shows itself in no log.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Box<str>);

/// Which rule a key breaks; the client's fault. The key is never quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No characters.
    #[error("the idempotency key is empty; send 1 to {MAX_KEY_BYTES} visible ASCII characters")]
    Empty,
    /// More than [`MAX_KEY_BYTES`].
    #[error("the idempotency key is longer than {MAX_KEY_BYTES} characters; send a shorter one")]
    TooLong,
    /// A byte outside 0x21 to 0x7E.
    #[error(
        "the idempotency key holds something other than visible ASCII at byte {0}; use characters from `!` to `~`"
    )]
    NotVisibleAscii(usize),
    /// Not what [`KeyFormat::Idt`] demands.
    #[error("the idempotency key must be `idt_` and {IDT_DIGITS} lower-case hex digits")]
    NotIdt,
}

impl Key {
    /// Reads a key: a header's value without the optional white space around it, or the string
    /// that a key pointer names. Nothing is trimmed, and quotes are part of the key.
    ///
    /// # Errors
    ///
    /// The first rule that is broken.
    pub fn parse(bytes: &[u8], format: KeyFormat) -> Result<Self, KeyError> {
        if bytes.is_empty() {
            return Err(KeyError::Empty);
        }
        if bytes.len() > MAX_KEY_BYTES {
            return Err(KeyError::TooLong);
        }
        if let Some(at) = bytes.iter().position(|byte| !byte.is_ascii_graphic()) {
            return Err(KeyError::NotVisibleAscii(at));
        }
        let text = str::from_utf8(bytes)
            .map_err(|error| KeyError::NotVisibleAscii(error.valid_up_to()))?;
        if format == KeyFormat::Idt && !is_idt(text) {
            return Err(KeyError::NotIdt);
        }
        Ok(Self(text.into()))
    }

    /// A new `idt` key, made of 16 random bytes.
    pub fn minted(random: [u8; 16]) -> Self {
        let number = u128::from_be_bytes(random);
        Self(format!("{IDT_PREFIX}{number:032x}").into())
    }

    /// The `idt` key that stands for a digest: its first 32 hex digits.
    pub(super) fn from_digest(digest: &[u8; 32]) -> Self {
        Self(format!("{IDT_PREFIX}{:.IDT_DIGITS$}", Hex(digest)).into())
    }

    /// The key itself: for hashing, and for an upstream that asks for it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(redacted)")
    }
}

fn is_idt(text: &str) -> bool {
    text.strip_prefix(IDT_PREFIX).is_some_and(|digits| {
        digits.len() == IDT_DIGITS
            && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_visible_ascii_or_refused() {
        for byte in 0..=u8::MAX {
            let visible = (0x21..=0x7e).contains(&byte);
            let parsed = Key::parse(&[b'k', byte], KeyFormat::Any);
            let expected = if visible { Ok(()) } else { Err(KeyError::NotVisibleAscii(1)) };
            assert_eq!(parsed.map(|_| ()), expected, "{byte:#04x}");
        }
    }

    #[test]
    fn the_length_is_bounded() {
        let longest = [b'k'; 255];
        assert_eq!(Key::parse(b"", KeyFormat::Any), Err(KeyError::Empty));
        assert_eq!(
            Key::parse(&longest, KeyFormat::Any).map(|key| key.as_str().len()),
            Ok(longest.len())
        );
        assert_eq!(Key::parse(&[b'k'; 256], KeyFormat::Any), Err(KeyError::TooLong));
    }

    #[test]
    fn an_idt_key_has_all_its_digits_and_no_more() {
        let digits = "5c1f2a9b0e4d7c6a3b8f1d2e5a4c7b90";
        let parse = |text: String| Key::parse(text.as_bytes(), KeyFormat::Idt).map(|_| ());
        assert_eq!(parse(format!("idt_{digits}")), Ok(()));
        let broken = [&digits[1..], "", &format!("{digits}0"), &digits.replace('b', "g")];
        for digits in broken {
            assert_eq!(parse(format!("idt_{digits}")), Err(KeyError::NotIdt), "{digits}");
        }
    }

    #[test]
    fn neither_debug_nor_errors_show_the_key() {
        let key = Key::parse(b"very-secret", KeyFormat::Any).expect("valid");
        assert_eq!(format!("{key:?}"), "Key(redacted)");
        let broken: [(&[u8], KeyFormat); 3] = [
            (b"very secret", KeyFormat::Any),
            (&[b's'; 256], KeyFormat::Any),
            (b"idt_secret", KeyFormat::Idt),
        ];
        for (bytes, format) in broken {
            let error = Key::parse(bytes, format).expect_err("broken");
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("secret") && !shown.contains("sss"), "{shown}");
        }
    }

    #[test]
    fn a_minted_key_is_an_idt_key() {
        let mut digest = [0xff; 32];
        digest[0] = 0x0a;
        let key = Key::from_digest(&digest);
        assert_eq!(key.as_str(), format!("idt_0a{}", "f".repeat(30)));
        assert_eq!(Key::parse(key.as_str().as_bytes(), KeyFormat::Idt), Ok(key));
    }
}
