//! The properties of STORE section 2, P1 to P6, as predicates over plain values. Every checker
//! calls these: property tests, interleavings, model checker.
//!
//! `before` and `after` are all records of the store around one commit point, in any order and with
//! expired ones that were not swept; a record that expired counts for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::counts::Counts;
use super::protocol::{CallId, Outcome};
use super::{
    Begin, CapacityLimit, CompletionSeq, DispatchHash, Fence, Limits, Millis, PrincipalId, Reply,
    RequestHash, ScopeId, Settled, SlotKey, TombstoneReason,
};

/// One record, as it can be seen from outside.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordView {
    /// Its slot.
    pub slot: SlotKey,
    /// Its scope.
    pub scope: ScopeId,
    /// Its principal.
    pub principal: PrincipalId,
    /// What was asked.
    pub hash: RequestHash,
    /// The generation of its claim, where the store still knows it: a completed record need not.
    pub fence: Option<Fence>,
    /// Where its call went, where that was declared.
    pub dispatch: Option<DispatchHash>,
    /// Its state.
    pub state: StateView,
}

/// The state of a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StateView {
    /// Being executed.
    InFlight {
        /// It came by a redispatch.
        again: bool,
    },
    /// Holds a reply.
    Completed {
        /// Its place in the order of completions.
        seq: CompletionSeq,
        /// From when on it is gone.
        expires: Millis,
        /// The reply.
        reply: Arc<Reply>,
    },
    /// Holds a reason.
    Tombstone {
        /// Why nothing is replayed.
        reason: TombstoneReason,
        /// From when on it is gone.
        expires: Millis,
    },
}

impl RecordView {
    /// Whether the record counts at `now`.
    pub fn stands(&self, now: Millis) -> bool {
        match self.state {
            StateView::InFlight { .. } => true,
            StateView::Completed { expires, .. } | StateView::Tombstone { expires, .. } => {
                now < expires
            }
        }
    }

    fn is_in_flight(&self) -> bool {
        matches!(self.state, StateView::InFlight { .. })
    }

    fn completion(&self) -> Option<CompletionSeq> {
        match self.state {
            StateView::Completed { seq, .. } => Some(seq),
            StateView::InFlight { .. } | StateView::Tombstone { .. } => None,
        }
    }
}

/// The counters that a machine keeps for a principal, or for a scope of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupView {
    /// The principal.
    pub principal: PrincipalId,
    /// The scope, or `None` for the principal as a whole.
    pub scope: Option<ScopeId>,
    /// Records.
    pub records: u32,
    /// Records in flight.
    pub in_flight: u32,
    /// Tombstones held.
    pub tombstones: u32,
}

/// A property that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{property}: {detail}")]
pub struct Violation {
    /// Which property.
    pub property: &'static str,
    /// What was found instead.
    pub detail: String,
}

fn ensure(
    holds: bool,
    property: &'static str,
    detail: impl FnOnce() -> String,
) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { property, detail: detail() }) }
}

/// P1: at most one execution per slot while a record stands. Around one step a standing record
/// leaves its slot only by release (in flight), by eviction (completed), or not at all
/// (tombstone); and no slot is taken again in the step that emptied it.
///
/// Redispatch is excepted by name: `redispatched` are the begins that the step answered with one,
/// each of which may take the tombstone that it declares.
///
/// # Errors
///
/// The slot for which it does not hold.
pub fn p1_one_execution(
    before: &[RecordView],
    after: &[RecordView],
    now: Millis,
    redispatched: &[Begin],
) -> Result<(), Violation> {
    let found: BTreeMap<_, _> = after.iter().map(|record| (record.slot, record)).collect();
    ensure(found.len() == after.len(), "P1", || "a slot holds two records".into())?;
    for record in before.iter().filter(|record| record.stands(now)) {
        match (found.get(&record.slot), &record.state) {
            (Some(next), _) => {
                let declared =
                    || redispatched.iter().any(|begin| is_redispatch(record, next, begin));
                ensure(is_same(record, next) || declared(), "P1", || {
                    format!("{:?} was taken again while its record stood", record.slot)
                })?;
            }
            (None, StateView::Tombstone { .. }) => ensure(false, "P1", || {
                format!("the tombstone of {:?} is gone before its time", record.slot)
            })?,
            (None, StateView::InFlight { again: true }) => {
                ensure(false, "P1", || format!("the redispatched {:?} was freed", record.slot))?
            }
            (None, StateView::InFlight { again: false } | StateView::Completed { .. }) => {}
        }
    }
    Ok(())
}

/// Whether a record is that of the same claim: by its fence, and where completed, by its place in
/// the order of completions too.
fn is_same(record: &RecordView, next: &RecordView) -> bool {
    let fence = match (record.fence, next.fence) {
        (Some(fence), Some(other)) => fence == other,
        _ => true,
    };
    match (record.completion(), next.completion()) {
        (Some(seq), other) => other == Some(seq) && fence,
        (None, None) => record.fence == next.fence,
        // What memory completes was in flight; what lapsed was not, and must prove its claim.
        (None, Some(_)) => fence && (record.is_in_flight() || next.fence.is_some()),
    }
}

/// Whether a begin may have turned a record into the next one: a tombstone of an unknown outcome,
/// under the same hashes, and declared.
fn is_redispatch(record: &RecordView, next: &RecordView, begin: &Begin) -> bool {
    let unknown =
        matches!(record.state, StateView::Tombstone { reason: TombstoneReason::Unknown, .. });
    let same = |view: &RecordView| {
        (view.slot, view.hash, view.dispatch) == (begin.slot, begin.hash, begin.dispatch.hash)
    };
    let again = next.state == StateView::InFlight { again: true };
    begin.dispatch.redispatch && unknown && again && same(record) && same(next)
}

/// P2: no count is above its cap: records and in flight of every scope, principal and the store,
/// tombstones and reservations of every scope.
///
/// # Errors
///
/// The count that is.
pub fn p2_within_caps(records: &[RecordView], limits: &Limits) -> Result<(), Violation> {
    for group in recount(records) {
        let (entries, in_flight) = match group.scope {
            Some(_) => (limits.scope_entries, limits.scope_in_flight),
            None => (limits.principal_entries, limits.principal_in_flight),
        };
        let reserved = group.tombstones + group.in_flight;
        let holds = group.records <= entries
            && group.in_flight <= in_flight
            && (group.scope.is_none() || reserved <= limits.scope_tombstones);
        ensure(holds, "P2", || format!("{group:?} is above its caps"))?;
    }
    let counts = recount_store(records);
    let holds = counts.records <= limits.entries && counts.in_flight <= limits.in_flight;
    ensure(holds, "P2", || format!("{counts:?} is above the store's caps"))
}

/// P3: the counters are what a recount of the records gives; `granted` permits belong to begins
/// that were admitted, and whose shard has not heard of it yet.
///
/// # Errors
///
/// The counter and the recount that differ.
pub fn p3_counters_match(
    records: &[RecordView],
    groups: &[GroupView],
    counts: Counts,
    granted: u32,
) -> Result<(), Violation> {
    let expected: BTreeSet<_> = recount(records).into_iter().collect();
    let found: BTreeSet<_> = groups.iter().copied().collect();
    ensure(expected == found, "P3", || format!("counted {found:?}, recounted {expected:?}"))?;
    let mut store = recount_store(records);
    store.records += granted;
    store.in_flight += granted;
    ensure(store == counts, "P3", || format!("counted {counts:?}, recounted {store:?}"))
}

/// P4: quotas nest. A begin evicts at most one record, the oldest completed one of the innermost
/// quota that is full, and is refused only by a cap that its own scope, its own principal or the
/// store has reached.
///
/// # Errors
///
/// The eviction or refusal that was not due.
pub fn p4_quotas_nest(
    before: &[RecordView],
    after: &[RecordView],
    limits: &Limits,
    now: Millis,
    begin: &Begin,
    outcome: &Outcome,
) -> Result<(), Violation> {
    let standing: Vec<_> = before.iter().filter(|record| record.stands(now)).collect();
    let kept: BTreeSet<_> = after.iter().map(|record| record.slot).collect();
    let victims: Vec<_> = standing.iter().filter(|r| !kept.contains(&r.slot)).collect();
    let rooms = Rooms::of(&standing, limits, begin);
    let expected = match outcome {
        Outcome::First(_) => rooms.full().map(|level| level.oldest),
        _ => None,
    };
    let found: Vec<_> = victims.iter().map(|record| record.completion()).collect();
    let wanted: Vec<_> = expected.into_iter().collect();
    ensure(found == wanted, "P4", || format!("evicted {found:?} instead of {wanted:?}"))?;
    if let Outcome::Capacity(limit) = outcome {
        let in_place = standing.iter().any(|record| record.slot == begin.slot);
        ensure(!in_place || limit.is_of_flight(), "P4", || {
            format!("{limit:?} refuses what needs no room")
        })?;
        let due = rooms.refuses(*limit, &standing, limits, begin);
        ensure(due, "P4", || format!("refused by {limit:?}, which is not reached"))?;
    }
    Ok(())
}

/// P5: every begin gets exactly one answer.
///
/// # Errors
///
/// The call that got none or several, or that nobody made.
pub fn p5_every_begin_answered(asked: &[CallId], answered: &[CallId]) -> Result<(), Violation> {
    let (mut asked, mut answered) = (asked.to_vec(), answered.to_vec());
    asked.sort_unstable();
    answered.sort_unstable();
    ensure(asked == answered, "P5", || format!("asked {asked:?}, answered {answered:?}"))
}

/// P6: a settle by an old ticket changes nothing.
///
/// # Errors
///
/// That a stale settle changed a record.
pub fn p6_stale_changes_nothing(
    before: &[RecordView],
    after: &[RecordView],
    settled: Settled,
) -> Result<(), Violation> {
    let holds = settled == Settled::Done || before == after;
    ensure(holds, "P6", || "a stale settle changed the records".into())
}

/// The store-wide counts, recounted.
pub fn recount_store(records: &[RecordView]) -> Counts {
    let count = |test: fn(&RecordView) -> bool| records.iter().filter(|r| test(r)).count() as u32;
    Counts {
        records: records.len() as u32,
        in_flight: count(RecordView::is_in_flight),
        completed: count(|record| record.completion().is_some()),
    }
}

/// The counters of every principal and scope, recounted.
fn recount(records: &[RecordView]) -> Vec<GroupView> {
    let mut groups = BTreeMap::new();
    for record in records {
        for scope in [None, Some(record.scope)] {
            let group = groups.entry((record.principal, scope)).or_insert(GroupView {
                principal: record.principal,
                scope,
                records: 0,
                in_flight: 0,
                tombstones: 0,
            });
            group.records += 1;
            match record.state {
                StateView::InFlight { .. } => group.in_flight += 1,
                StateView::Completed { .. } => {}
                StateView::Tombstone { .. } => group.tombstones += 1,
            }
        }
    }
    groups.into_values().collect()
}

/// How full one quota is.
struct RoomOf {
    limit: CapacityLimit,
    records: u32,
    cap: u32,
    oldest: Option<CompletionSeq>,
}

/// The record quotas of a begin, from the inside out.
struct Rooms([RoomOf; 3]);

impl Rooms {
    fn of(standing: &[&RecordView], limits: &Limits, begin: &Begin) -> Self {
        let room = |limit, cap, belongs: &dyn Fn(&RecordView) -> bool| {
            let records = standing.iter().filter(|record| belongs(record));
            RoomOf {
                limit,
                cap,
                records: records.clone().count() as u32,
                oldest: records.filter_map(|record| record.completion()).min(),
            }
        };
        Self([
            room(CapacityLimit::ScopeEntries, limits.scope_entries, &|r| r.scope == begin.scope),
            room(CapacityLimit::PrincipalEntries, limits.principal_entries, &|r| {
                r.principal == begin.principal
            }),
            room(CapacityLimit::StoreEntries, limits.entries, &|_| true),
        ])
    }

    /// The innermost quota that is full.
    fn full(&self) -> Option<&RoomOf> {
        self.0.iter().find(|room| room.records >= room.cap)
    }

    fn refuses(
        &self,
        limit: CapacityLimit,
        standing: &[&RecordView],
        limits: &Limits,
        begin: &Begin,
    ) -> bool {
        let count = |test: &dyn Fn(&RecordView) -> bool| {
            standing.iter().filter(|record| test(record)).count() as u32
        };
        match limit {
            CapacityLimit::ScopeInFlight => {
                count(&|r| r.is_in_flight() && r.scope == begin.scope) >= limits.scope_in_flight
            }
            CapacityLimit::PrincipalInFlight => {
                count(&|r| r.is_in_flight() && r.principal == begin.principal)
                    >= limits.principal_in_flight
            }
            CapacityLimit::StoreInFlight => count(&RecordView::is_in_flight) >= limits.in_flight,
            CapacityLimit::ScopeTombstones => {
                count(&|r| r.completion().is_none() && r.scope == begin.scope)
                    >= limits.scope_tombstones
            }
            CapacityLimit::ScopeEntries
            | CapacityLimit::PrincipalEntries
            | CapacityLimit::StoreEntries => {
                self.full().is_some_and(|room| room.limit == limit && room.oldest.is_none())
            }
        }
    }
}

#[cfg(test)]
mod tests;
