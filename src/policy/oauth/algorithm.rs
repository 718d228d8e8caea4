//! The signature algorithms that a token may be signed with.

use super::super::words::Word;

/// An asymmetric signature algorithm of JSON Web Signature (RFC 7518, 3.1; RFC 8037). Symmetric
/// ones and `none` do not exist here, so no token can ask for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519, under either of its names: `EdDSA`, or `Ed25519` (RFC 9864).
    EdDsa,
}

impl Algorithm {
    /// By the name in a token's or a key's `alg`, which is compared with case (RFC 7515, 4.1.1).
    pub fn of(name: &str) -> Option<Self> {
        let known = Self::WORDS.iter().find(|(word, _)| *word == name);
        known.map(|(_, algorithm)| *algorithm)
    }

    /// Its first name.
    pub fn name(self) -> &'static str {
        let known = Self::WORDS.iter().find(|(_, algorithm)| *algorithm == self);
        known.map_or("", |(word, _)| word)
    }
}

impl Word for Algorithm {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("RS256", Self::Rs256),
        ("RS384", Self::Rs384),
        ("RS512", Self::Rs512),
        ("PS256", Self::Ps256),
        ("PS384", Self::Ps384),
        ("PS512", Self::Ps512),
        ("ES256", Self::Es256),
        ("ES384", Self::Es384),
        ("EdDSA", Self::EdDsa),
        ("Ed25519", Self::EdDsa),
    ];
}
