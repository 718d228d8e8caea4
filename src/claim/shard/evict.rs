//! The owner's side of an eviction for somebody else.

use super::begin::Taken;
use super::{SWEEP_PER_BEGIN, Shard};
use crate::claim::CompletionSeq;
use crate::claim::counts::Room;
use crate::claim::protocol::{EvictAnswer, RequestId, ShardDecision, ToCoordinator};
use crate::claim::shared::Home;

impl Shard {
    /// Commits an eviction on a waiter's behalf. Where something has expired it is swept instead,
    /// and the coordinator looks again: an expired record is no victim.
    pub(super) fn on_evict(
        &mut self,
        request: RequestId,
        bound: CompletionSeq,
        home: &mut impl Home,
        out: &mut Vec<ShardDecision>,
    ) {
        let answer = if self.sweep_due(SWEEP_PER_BEGIN, home) > 0 {
            EvictAnswer::Stale
        } else {
            match self.take_oldest(bound, home) {
                Taken::Room(Room::Evicted) => EvictAnswer::Evicted,
                Taken::Room(Room::Free) => EvictAnswer::Admitted,
                Taken::InFlightFull => EvictAnswer::InFlightFull,
                Taken::NotTheOldest => EvictAnswer::Stale,
            }
        };
        out.push(ShardDecision::Send(ToCoordinator::Evicted { request, answer }));
    }
}
