//! The hash of maps that are keyed by digests.
//!
//! The keys are SHA-256 digests, so their own bytes are the hash: nothing is computed. Who wants
//! keys to collide must search SHA-256 for it, and holds no more records than a principal's cap.

use std::hash::{BuildHasherDefault, Hasher};

/// The hash of a digest: its first eight bytes.
pub type DigestHash = BuildHasherDefault<DigestHasher>;

/// Takes the first eight bytes of each digest written to it; several digests are mixed.
#[derive(Debug, Clone, Copy, Default)]
pub struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut first = [0u8; 8];
        let taken = bytes.len().min(8);
        first[..taken].copy_from_slice(&bytes[..taken]);
        self.0 = self.0.rotate_left(23) ^ u64::from_le_bytes(first);
    }

    /// The length prefix of a byte array, the same for every digest.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::DigestHash;
    use crate::claim::{ScopeId, SlotKey};

    #[test]
    fn a_digest_is_its_own_hash_and_two_are_mixed() {
        let mut bytes = [0u8; 32];
        bytes[..8].copy_from_slice(&0x0102_0304_0506_0708u64.to_le_bytes());
        let hash = DigestHash::default();
        assert_eq!(hash.hash_one(SlotKey::from_bytes(bytes)), 0x0102_0304_0506_0708);
        let zero = ScopeId::from_bytes([0; 32]);
        let other = ScopeId::from_bytes(bytes);
        assert_ne!(hash.hash_one((zero, other)), hash.hash_one((other, zero)));
        let ones = ScopeId::from_bytes([0xff; 32]);
        assert_ne!(hash.hash_one((ones, zero)), hash.hash_one((ones, other)), "each counts");
    }
}
