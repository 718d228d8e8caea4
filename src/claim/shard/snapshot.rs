//! A shard's state as plain values: for the invariants, and for what compares machines.

use std::hash::{Hash, Hasher};

use super::Shard;
use super::table::{Record, State};
use crate::claim::Millis;
use crate::claim::invariant::{GroupView, RecordView, StateView};

impl Shard {
    /// The records that stand, expired ones that were not swept included: those in flight by
    /// slot, then the completed ones and then the tombstones, each the oldest first.
    pub fn records(&self) -> Vec<RecordView> {
        let mut records: Vec<_> = self.table.in_flight().map(|r| self.view(r)).collect();
        records.sort_unstable_by_key(|record| record.slot);
        let settled = self.table.completed().chain(self.table.tombstones());
        records.extend(settled.map(|record| self.view(record)));
        records
    }

    /// The counters of every principal and scope, in an order of their names.
    pub fn groups(&self) -> Vec<GroupView> {
        let mut groups: Vec<_> = self
            .table
            .tallies()
            .map(|(scope, principal, tally)| GroupView {
                principal,
                scope,
                records: tally.records,
                in_flight: tally.in_flight,
                tombstones: tally.tombstones,
            })
            .collect();
        groups.sort_unstable_by_key(|group| (group.principal, group.scope));
        groups
    }

    /// The shard's clock.
    pub fn now(&self) -> Millis {
        self.now
    }

    fn view(&self, record: &Record) -> RecordView {
        let (principal, scope) = self.table.owner(record);
        let claim = self.table.claim(record);
        RecordView {
            slot: claim.slot,
            scope,
            principal,
            hash: claim.hash,
            fence: self.table.fence(record),
            dispatch: claim.dispatch.as_deref().copied(),
            state: match &record.state {
                State::InFlight { again, .. } => StateView::InFlight { again: *again },
                State::Completed { seq, completion } => {
                    let reply = completion.reply.clone();
                    StateView::Completed { seq: *seq, expires: completion.expires, reply }
                }
                State::Tombstone { reason, expires, .. } => {
                    StateView::Tombstone { reason: *reason, expires: *expires }
                }
            },
        }
    }
}

impl PartialEq for Shard {
    fn eq(&self, other: &Self) -> bool {
        self.limits == other.limits
            && self.now == other.now
            && self.next_fence == other.next_fence
            && self.orphaned == other.orphaned
            && self.waiting == other.waiting
            && self.records() == other.records()
    }
}

impl Eq for Shard {}

impl Hash for Shard {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.limits.hash(state);
        self.now.hash(state);
        self.next_fence.hash(state);
        self.orphaned.hash(state);
        self.waiting.hash(state);
        self.records().hash(state);
    }
}
