//! The machine of one shard: it owns its principals' records, their quotas and their order of
//! eviction (STORE sections 2 and 3).
//!
//! It is pure: the present and a message come in, decisions go out as values. What it shares with
//! the other machines it reaches through [`Home`]. Every step is O(1) amortised in the number of
//! records; the constants are named here.

mod begin;
mod evict;
mod group;
mod list;
mod settle;
mod slots;
mod snapshot;
mod sweep;
mod table;
mod waiting;

use std::collections::BTreeMap;

use super::protocol::{ShardDecision, ToShard};
use super::shared::Home;
use super::{Limits, Millis, PrincipalId};
use table::Table;
use waiting::Waiting;

/// Expired records that a begin sweeps beyond those it must, so that a backlog shrinks under load.
pub const SWEEP_PER_BEGIN: u32 = 4;

/// Expired records that one tick, or one request of the coordinator, sweeps at most.
pub const SWEEP_BATCH: u32 = 256;

/// Begins of one principal that may queue behind one that waits for room in the store. One more is
/// answered unavailable: to call it a lack of capacity would be to claim that a cap refused it.
pub const MAX_QUEUED_PER_PRINCIPAL: usize = 256;

/// The machine of one shard.
///
/// Two machines are equal, and hash alike, when they would behave alike: the arrangement of their
/// arenas does not count.
#[derive(Debug, Clone)]
pub struct Shard {
    limits: Limits,
    now: Millis,
    next_fence: u64,
    table: Table,
    /// By principal: there are few, and their order must not be arbitrary.
    waiting: BTreeMap<PrincipalId, Waiting>,
    orphaned: bool,
}

impl Shard {
    /// An empty shard.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            now: Millis(0),
            next_fence: 0,
            table: Table::new(),
            waiting: BTreeMap::new(),
            orphaned: false,
        }
    }

    /// Takes one step. `now` is clamped so that it never runs backwards; decisions are appended to
    /// `out` in the order in which they are to be carried out.
    pub fn step(
        &mut self,
        now: Millis,
        message: ToShard,
        home: &mut impl Home,
        out: &mut Vec<ShardDecision>,
    ) {
        self.now = self.now.max(now);
        match message {
            ToShard::Begin { call, begin } => self.on_begin(call, begin, home, out),
            ToShard::Settle { call, slot, fence, settlement } => {
                let settled = self.settle(slot, fence, settlement, home);
                out.push(ShardDecision::Settled { call, settled });
            }
            ToShard::Evict { request, bound, .. } => self.on_evict(request, bound, home, out),
            ToShard::Sweep { request, now } => self.on_sweep(request, now, home, out),
            ToShard::Answer { waiter, verdict } => self.on_answer(waiter, verdict, home, out),
            ToShard::Tick => self.on_tick(home, out),
            ToShard::Orphaned => self.on_orphaned(out),
        }
        let oldest = self.table.shard_oldest().map(|(_, seq)| seq);
        home.publish(oldest, self.table.next_expiry());
    }

    /// Whether no begin waits for an answer.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests;
