//! What a begin is asked with, beside what the model decides by.

use sha2::{Digest, Sha256};

use super::receipt::Opening;
use crate::claim::Begin;

/// A begin and what belongs to it.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// Which records it counts among, and what its own is called.
    pub domain: Domain<'a>,
    /// What the model decides by.
    pub begin: Begin,
    /// What the receipt says of the call; `None` keeps no receipt.
    pub opening: Option<Box<Opening>>,
}

impl<'a> Asked<'a> {
    /// A begin at a server, without a receipt.
    pub fn at(server_uid: &'a str, begin: Begin) -> Self {
        Self { domain: Domain::Server(server_uid), begin, opening: None }
    }
}

/// Whose records are kept and bounded together. A store that is shared keeps each domain apart; one
/// in memory does not care. Server uids and workspace ids never meet, equal or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Domain<'a> {
    /// A server's uid (scope `session`).
    Server(&'a str),
    /// A workspace (scope `workspace`).
    Workspace {
        /// Its id.
        id: &'a str,
        /// What EFFECTS section 4 calls a record after the domain: connection, tool digest, key and
        /// round. The one place where a store sees a raw key.
        record: &'a str,
    },
}

impl Domain<'_> {
    /// A number that tells domains apart, and nothing about them.
    pub fn number(&self) -> u64 {
        let (kind, name) = match self {
            Self::Server(uid) => (b's', uid),
            Self::Workspace { id, .. } => (b'w', id),
        };
        let digest = Sha256::new().chain_update([kind]).chain_update(name).finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        u64::from_be_bytes(first)
    }
}
