//! What one exploration is bounded by.

use onceward::claim::protocol::ShardId;
use onceward::claim::{Begin, Dispatch, Limits, Millis};

use crate::naive::{End, SCOPES_PER_PRINCIPAL, SLOTS_PER_SCOPE, begin_on};

/// Where others may come in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grain {
    /// Between any two messages.
    Message,
    /// Between any two accesses to shared memory, too.
    Access,
}

/// A setting: everything in it happens in every order, or does not happen.
#[derive(Debug, Clone)]
pub struct Setting {
    pub name: &'static str,
    pub grain: Grain,
    pub shards: usize,
    pub limits: Limits,
    /// Each begins once, at any time: on this slot, with this request.
    pub clients: &'static [(u8, u8)],
    /// Where each client's call goes; those beyond the last declare nothing.
    pub dispatches: &'static [Dispatch],
    /// How a claim may end, any of them; a dropped ticket ends as unknown, a caller that left
    /// before its answer came as released.
    pub ends: &'static [End],
    /// How often the clock may advance, by one each time.
    pub ticks: u8,
    /// How many shards may die.
    pub deaths: u8,
    /// Whether the coordinator may die.
    pub orphans: bool,
    /// Whether it is told of the death of a living shard in a life that is not its own.
    pub rumour: bool,
    /// Whether a ticket may be used again after its settle.
    pub twice: bool,
    /// Whether clients may look into the read index first.
    pub hits: bool,
}

impl Setting {
    pub fn begin(&self, client: usize) -> Begin {
        let (slot, hash) = self.clients[client];
        let dispatch = self.dispatches.get(client).copied().unwrap_or(Dispatch::UNDECLARED);
        Begin { dispatch, ..begin_on(slot, hash) }
    }

    pub fn shard_of(&self, client: usize) -> ShardId {
        let principal = self.clients[client].0 / SLOTS_PER_SCOPE / SCOPES_PER_PRINCIPAL;
        ShardId(usize::from(principal) % self.shards)
    }
}

/// Caps of the store, of a principal, of a scope, and of a scope's tombstones; each pair is
/// records and records in flight.
pub fn caps(
    (entries, in_flight): (u32, u32),
    (principal_entries, principal_in_flight): (u32, u32),
    (scope_entries, scope_in_flight): (u32, u32),
    scope_tombstones: u32,
) -> Limits {
    Limits {
        ttl: Millis(2),
        tombstone_ttl: Millis(2),
        entries,
        in_flight,
        principal_entries,
        principal_in_flight,
        scope_entries,
        scope_in_flight,
        scope_tombstones,
        reply_bytes: 64,
    }
}

/// The caps of the store alone: those of principals and scopes are as wide.
pub fn store_caps(entries: u32, in_flight: u32) -> Limits {
    let pair = (entries, in_flight);
    caps(pair, pair, pair, entries.max(in_flight) + 2)
}
