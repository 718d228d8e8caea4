//! The real shard machine over the ledger's atomics, as its actor runs it: one owner each, a step
//! at a time.

use std::sync::Arc;

use bytes::Bytes;
use onceward::claim::invariant::{RecordView, StateView};
use onceward::claim::protocol::{
    CallId, EvictAnswer, Outcome, RequestId, ShardDecision, ToCoordinator, ToShard, Waiter,
};
use onceward::claim::shard::Shard;
use onceward::claim::shared::Index;
use onceward::claim::{
    Begin, CompletionSeq, Dispatch, Fence, Limits, Millis, PrincipalId, Reply, RequestHash,
    ScopeId, Settlement, SlotKey,
};
use onceward::ledger::{Ledger, ShardLedger};

use super::home_with;

/// Limits that bind in the store as a whole, or in a scope.
pub fn limits(entries: u32, in_flight: u32, scope_entries: u32) -> Limits {
    Limits {
        entries,
        in_flight,
        principal_entries: entries,
        principal_in_flight: in_flight,
        scope_entries,
        scope_in_flight: in_flight,
        scope_tombstones: entries + in_flight,
        ..Limits::default()
    }
}

/// A begin on slot `slot` of the one principal that lives in a shard.
pub fn begin(shard: u8, slot: u8) -> Begin {
    Begin {
        slot: SlotKey::from_bytes([slot; 32]),
        scope: ScopeId::from_bytes([shard; 32]),
        principal: PrincipalId::from_bytes([shard; 32]),
        hash: RequestHash::from_bytes([0; 32]),
        dispatch: Dispatch::UNDECLARED,
    }
}

/// A shard with its side of the ledger.
pub struct Machine<I> {
    shard: Shard,
    home: ShardLedger<I>,
}

impl<I: Index> Machine<I> {
    pub fn new(ledger: &Arc<Ledger>, shard: usize, limits: Limits, index: I) -> Self {
        Self { shard: Shard::new(limits), home: home_with(ledger, shard, index) }
    }

    fn step(&mut self, message: ToShard) -> Option<ShardDecision> {
        let mut out = Vec::new();
        self.shard.step(Millis(0), message, &mut self.home, &mut out);
        out.pop()
    }

    /// What a begin found; `None` where it asks the coordinator.
    pub fn begin(&mut self, begin: Begin) -> Option<Outcome> {
        match self.step(ToShard::Begin { call: CallId(0), begin }) {
            Some(ShardDecision::Begun { outcome, .. }) => Some(outcome),
            Some(ShardDecision::Send(ToCoordinator::Ask(_))) => None,
            other => panic!("{other:?} instead of an answer"),
        }
    }

    pub fn first(&mut self, begin: Begin) -> Fence {
        match self.begin(begin) {
            Some(Outcome::First(fence)) => fence,
            other => panic!("{other:?} instead of a first"),
        }
    }

    pub fn complete(&mut self, begin: Begin, fence: Fence) {
        let reply = Reply::new(200, None, Bytes::new(), 0).expect("an empty body fits");
        let settlement = Settlement::Complete(Arc::new(reply));
        self.step(ToShard::Settle { call: CallId(1), slot: begin.slot, fence, settlement });
    }

    pub fn evict(
        &mut self,
        request: RequestId,
        waiter: Waiter,
        bound: CompletionSeq,
    ) -> EvictAnswer {
        match self.step(ToShard::Evict { request, waiter, bound }) {
            Some(ShardDecision::Send(ToCoordinator::Evicted { answer, .. })) => answer,
            other => panic!("{other:?} instead of an answer"),
        }
    }

    /// The number of its oldest completed record.
    pub fn oldest(&self) -> Option<CompletionSeq> {
        let completed = |record: RecordView| match record.state {
            StateView::Completed { seq, .. } => Some(seq),
            StateView::InFlight { .. } | StateView::Tombstone { .. } => None,
        };
        self.shard.records().into_iter().filter_map(completed).min()
    }
}
