//! The records of a shard and the groups they count for.
//!
//! What a million records take decides the layout. A record is small and in an arena; what it is
//! the record of stands beside it: in an arena of claims, few of which are open at a time, until it
//! is completed, and then in the completion, which the read index shares.

use std::sync::Arc;

use slab::Slab;

use super::group::{Group, GroupId, Groups, Level, ROOT, Tally};
use super::list::{Links, List, RecordId};
use super::slots::{Slots, Tag};
use crate::claim::{
    Begin, Claim, Completion, CompletionSeq, Fence, Millis, PrincipalId, Reply, ScopeId, SlotKey,
    TombstoneReason,
};

/// A place in the arena of claims that are not completed; at most one for each record.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaimId(u32);

/// A claim that is not completed, and its generation: who may settle it.
#[derive(Debug, Clone)]
struct Open {
    claim: Claim,
    fence: Fence,
}

/// What a record is.
#[derive(Debug, Clone)]
pub(super) enum State {
    InFlight {
        claim: ClaimId,
        /// It came by a redispatch: what went before is unknown.
        again: bool,
    },
    Completed {
        seq: CompletionSeq,
        completion: Arc<Completion>,
    },
    Tombstone {
        claim: ClaimId,
        reason: TombstoneReason,
        expires: Millis,
    },
}

/// One record.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) state: State,
    pub(super) links: [Links; 3],
    scope: GroupId,
    tag: Tag,
}

/// What a record takes in the arena, in bytes: docs and benchmarks count with it.
const _: () = assert!(size_of::<Record>() == 56);

impl Record {
    /// From its expiry on a record counts nowhere.
    pub(super) fn is_due(&self, now: Millis) -> bool {
        self.expires() <= now
    }

    fn expires(&self) -> Millis {
        match &self.state {
            State::InFlight { .. } => Millis::NEVER,
            State::Completed { completion, .. } => completion.expires,
            State::Tombstone { expires, .. } => *expires,
        }
    }
}

/// The arenas and their maps.
#[derive(Debug, Clone)]
pub(super) struct Table {
    records: Slab<Record>,
    claims: Slab<Open>,
    slots: Slots,
    groups: Groups,
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            records: Slab::new(),
            claims: Slab::new(),
            slots: Slots::default(),
            groups: Groups::new(),
        }
    }

    pub(super) fn find(&self, slot: &SlotKey) -> Option<RecordId> {
        let tag = Tag::of(slot);
        self.slots.find(tag, |id| {
            let record = self.record(id);
            record.tag == tag && self.claim(record).slot == *slot
        })
    }

    pub(super) fn record(&self, id: RecordId) -> &Record {
        &self.records[id.index()]
    }

    /// What a record is the record of.
    pub(super) fn claim<'t>(&'t self, record: &'t Record) -> &'t Claim {
        match &record.state {
            State::InFlight { claim, .. } | State::Tombstone { claim, .. } => {
                &self.claims[claim.0 as usize].claim
            }
            State::Completed { completion, .. } => &completion.claim,
        }
    }

    /// The generation of a record's claim; a completed one has none any more.
    pub(super) fn fence(&self, record: &Record) -> Option<Fence> {
        match record.state {
            State::InFlight { claim, .. } | State::Tombstone { claim, .. } => {
                Some(self.claims[claim.0 as usize].fence)
            }
            State::Completed { .. } => None,
        }
    }

    /// The counts of the group that a begin would count against.
    pub(super) fn tally(&self, level: Level, begin: &Begin) -> Tally {
        self.groups.find(level, begin).map_or_else(Tally::default, |group| group.tally)
    }

    /// The counts of the scope and of the principal that a begin would count against.
    pub(super) fn tallies_of(&self, begin: &Begin) -> [Tally; 2] {
        self.groups.tallies_of(begin)
    }

    /// The oldest completed record of such a group.
    pub(super) fn oldest(&self, level: Level, begin: &Begin) -> Option<RecordId> {
        self.groups.find(level, begin).and_then(|group| group.completed.head())
    }

    /// A record of such a group that has expired.
    pub(super) fn due(&self, level: Level, begin: &Begin, now: Millis) -> Option<RecordId> {
        let group = self.groups.find(level, begin)?;
        self.first_due([group.completed, group.tombstones], now)
    }

    /// A tombstone of such a group that has expired.
    pub(super) fn due_tombstone(
        &self,
        level: Level,
        begin: &Begin,
        now: Millis,
    ) -> Option<RecordId> {
        let group = self.groups.find(level, begin)?;
        self.first_due([group.tombstones], now)
    }

    /// The oldest completed record of the shard and its number.
    pub(super) fn shard_oldest(&self) -> Option<(RecordId, CompletionSeq)> {
        let id = self.groups.get(ROOT).completed.head()?;
        match self.record(id).state {
            State::Completed { seq, .. } => Some((id, seq)),
            State::InFlight { .. } | State::Tombstone { .. } => None,
        }
    }

    /// A record of the shard that has expired.
    pub(super) fn shard_due(&self, now: Millis) -> Option<RecordId> {
        let root = self.groups.get(ROOT);
        self.first_due([root.completed, root.tombstones], now)
    }

    /// When the next record expires.
    pub(super) fn next_expiry(&self) -> Millis {
        let root = self.groups.get(ROOT);
        [root.completed, root.tombstones]
            .into_iter()
            .filter_map(|list| list.head())
            .map(|id| self.record(id).expires())
            .fold(Millis::NEVER, Ord::min)
    }

    /// A new record in flight on a free slot.
    pub(super) fn insert(&mut self, begin: &Begin, fence: Fence) {
        let scope = self.groups.join(begin);
        for id in self.groups.around(scope) {
            let tally = &mut self.groups.get_mut(id).tally;
            tally.records += 1;
            tally.in_flight += 1;
        }
        let open = Open { claim: Claim::of(begin), fence };
        let claim = ClaimId(self.claims.insert(open) as u32);
        let tag = Tag::of(&begin.slot);
        let (state, links) = (State::InFlight { claim, again: false }, [Links::default(); 3]);
        let record = self.records.insert(Record { state, links, scope, tag });
        let records = &self.records;
        let tag_of = |id: RecordId| records[id.index()].tag;
        self.slots.insert(tag, RecordId::from_index(record), tag_of);
    }

    /// A record in flight becomes a completed one, the newest everywhere; any other stays.
    pub(super) fn complete(
        &mut self,
        id: RecordId,
        seq: CompletionSeq,
        expires: Millis,
        reply: Arc<Reply>,
    ) {
        if let State::InFlight { claim, .. } = self.record(id).state {
            let claim = self.claims.remove(claim.0 as usize).claim;
            let completion = Arc::new(Completion { claim, expires, reply });
            self.settle(id, State::Completed { seq, completion }, |group| &mut group.completed);
        }
    }

    /// A record in flight becomes a tombstone, the newest everywhere; any other stays.
    pub(super) fn tombstone(&mut self, id: RecordId, reason: TombstoneReason, expires: Millis) {
        if let State::InFlight { claim, .. } = self.record(id).state {
            let state = State::Tombstone { claim, reason, expires };
            self.settle(id, state, |group| {
                group.tally.tombstones += 1;
                &mut group.tombstones
            });
        }
    }

    /// A tombstone is in flight again, its claim `claim` under another fence. Says the fence that
    /// it had.
    pub(super) fn redispatch(&mut self, id: RecordId, claim: ClaimId, fence: Fence) -> Fence {
        for (level, group) in self.groups_of(id) {
            let group = self.groups.get_mut(group);
            group.tally.tombstones -= 1;
            group.tally.in_flight += 1;
            group.tombstones.remove(&mut self.records, level, id);
        }
        self.records[id.index()].state = State::InFlight { claim, again: true };
        std::mem::replace(&mut self.claims[claim.0 as usize].fence, fence)
    }

    /// Takes a record out, and with it the groups that it leaves empty.
    pub(super) fn remove(&mut self, id: RecordId) -> State {
        for (level, group_id) in self.groups_of(id) {
            let group = self.groups.get_mut(group_id);
            group.tally.records -= 1;
            match self.records[id.index()].state {
                State::InFlight { .. } => group.tally.in_flight -= 1,
                State::Completed { .. } => group.completed.remove(&mut self.records, level, id),
                State::Tombstone { .. } => {
                    group.tally.tombstones -= 1;
                    group.tombstones.remove(&mut self.records, level, id);
                }
            }
            self.groups.remove_empty(group_id);
        }
        let record = self.records.remove(id.index());
        self.slots.remove(record.tag, id);
        if let State::InFlight { claim, .. } | State::Tombstone { claim, .. } = record.state {
            self.claims.remove(claim.0 as usize);
        }
        record.state
    }

    /// Every record in flight with whom it counts for, in no order.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = &Record> {
        self.records
            .iter()
            .map(|(_, record)| record)
            .filter(|record| matches!(record.state, State::InFlight { .. }))
    }

    /// The completed records, the oldest first.
    pub(super) fn completed(&self) -> impl Iterator<Item = &Record> {
        self.groups.get(ROOT).completed.iter(&self.records, Level::Shard)
    }

    /// The tombstones, the oldest first.
    pub(super) fn tombstones(&self) -> impl Iterator<Item = &Record> {
        self.groups.get(ROOT).tombstones.iter(&self.records, Level::Shard)
    }

    /// Whom a record counts for.
    pub(super) fn owner(&self, record: &Record) -> (PrincipalId, ScopeId) {
        self.groups.owner(record.scope)
    }

    /// The counts of every scope and of every principal, in no order.
    pub(super) fn tallies(&self) -> impl Iterator<Item = (Option<ScopeId>, PrincipalId, Tally)> {
        self.groups.tallies()
    }

    fn groups_of(&self, id: RecordId) -> impl Iterator<Item = (Level, GroupId)> + use<> {
        Level::ALL.into_iter().zip(self.groups.around(self.record(id).scope))
    }

    fn first_due<const N: usize>(&self, lists: [List; N], now: Millis) -> Option<RecordId> {
        lists.into_iter().filter_map(|list| list.head()).find(|id| self.record(*id).is_due(now))
    }

    fn settle(&mut self, id: RecordId, state: State, list: impl Fn(&mut Group) -> &mut List) {
        self.records[id.index()].state = state;
        for (level, group) in self.groups_of(id) {
            let group = self.groups.get_mut(group);
            group.tally.in_flight -= 1;
            list(group).push_back(&mut self.records, level, id);
        }
    }
}
