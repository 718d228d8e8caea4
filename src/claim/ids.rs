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
        }

        impl fmt::Display for $name {
            /// Lower-case hex; a precision (`{:.16}`) cuts it to that many characters.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:.16})"), self)
            }
        }
    };
}

fn write_hex(bytes: &[u8; 32], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 0x0f)];
    }
    let wanted = f.precision().unwrap_or(text.len()).min(text.len());
    f.write_str(std::str::from_utf8(&text[..wanted]).map_err(|_| fmt::Error)?)
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
}
