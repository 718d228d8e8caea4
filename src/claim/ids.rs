//! The identifiers of the core, each a type of its own so that none can stand in for another.

use std::fmt;

macro_rules! digest {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            /// Wraps the 32 bytes of a SHA-256 digest.
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// The 32 bytes of the digest.
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// Reads what [`Display`](fmt::Display) writes: 64 lower-case hex digits.
            pub fn parse(text: &str) -> Option<Self> {
                parse_hex(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            /// Lower-case hex; a precision (`{:.16}`) cuts it to that many characters.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&Hex(&self.0), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:.16})"), self)
            }
        }
    };
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// 32 bytes as lower-case hex, written at once; a precision cuts it to that many characters.
pub(super) struct Hex<'b>(pub(super) &'b [u8; 32]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 0x0f)];
        }
        let wanted = f.precision().unwrap_or(text.len()).min(text.len());
        f.write_str(std::str::from_utf8(&text[..wanted]).map_err(|_| fmt::Error)?)
    }
}

fn parse_hex(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte);
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(bytes)
}

digest! {
    /// What addresses a slot: the scoped key hash (CONTRACT section 3, "Hashes").
    SlotKey
}
digest! {
    /// Principal plus session within a domain; the innermost quota (CONTRACT section 2).
    ScopeId
}
digest! {
    /// The verified caller within a domain; the middle quota (CONTRACT section 2).
    PrincipalId
}
digest! {
    /// The fingerprint of what was asked for; another one under the same key is a conflict.
    RequestHash
}
digest! {
    /// The fingerprint of where a call goes and how its key gets there: the tool's declared binding
    /// and the non-secret facts of its target (EFFECTS section 4).
    DispatchHash
}

/// The generation of a claim. A settle that carries another one is stale and changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

/// The global order of completions: the oldest completed record has the smallest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompletionSeq(pub u64);

/// A point in time or a length of time, in milliseconds of a monotonic clock whose zero is the
/// start of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// Later than every real instant.
    pub const NEVER: Self = Self(u64::MAX);

    /// This instant plus a length of time; stops at [`Millis::NEVER`] instead of wrapping.
    pub const fn plus(self, length: Self) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}

#[cfg(test)]
mod tests {
    use super::SlotKey;

    #[test]
    fn display_is_lower_case_hex_and_precision_truncates() {
        let mut bytes = [0u8; 32];
        bytes[0] = 0xa6;
        bytes[1] = 0xfc;
        bytes[31] = 0x0f;
        let key = SlotKey::from_bytes(bytes);
        assert_eq!(format!("{key:.4}"), "a6fc");
        assert_eq!(format!("{key}"), format!("a6fc{}0f", "00".repeat(29)));
    }

    #[test]
    fn what_display_writes_is_read_and_nothing_else() {
        let text = format!("a6fc{}0f", "00".repeat(29));
        let key = SlotKey::parse(&text).expect("64 digits");
        assert_eq!((key.as_bytes()[..2].to_vec(), key.as_bytes()[31]), (vec![0xa6, 0xfc], 0x0f));
        for bad in [&text[1..], &format!("{text}0"), &text.to_uppercase(), &"é".repeat(32), ""] {
            assert_eq!(SlotKey::parse(bad), None, "{bad}");
        }
    }
}
