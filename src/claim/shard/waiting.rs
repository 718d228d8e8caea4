//! Begins that wait for room in a full store.
//!
//! While a begin of a principal waits at the coordinator, that principal's other begins on free
//! slots, and its redispatches, queue behind it: the waiting one is not in the local counts yet, and
//! they would pass a cap or evict wrongly. Begins on the waiting slot itself are among them. What a
//! standing record answers, and settles, go on.

use std::collections::VecDeque;

use super::begin::Admission;
use super::{MAX_QUEUED_PER_PRINCIPAL, Shard};
use crate::claim::Begin;
use crate::claim::protocol::{CallId, Outcome, ShardDecision, ToCoordinator, Verdict, Waiter};
use crate::claim::shared::Home;

/// A begin at the coordinator and those behind it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Waiting {
    pub(super) call: CallId,
    pub(super) begin: Begin,
    pub(super) queue: VecDeque<(CallId, Begin)>,
}

impl Shard {
    /// Queues a begin that no record answers behind one of its principal that waits, if one does. Its
    /// answer, or its place in the queue, is then settled.
    pub(super) fn queue_behind_waiter(
        &mut self,
        call: CallId,
        begin: &Begin,
        out: &mut Vec<ShardDecision>,
    ) -> bool {
        let Some(waiting) = self.waiting.get_mut(&begin.principal) else {
            return false;
        };
        if waiting.queue.len() < MAX_QUEUED_PER_PRINCIPAL {
            waiting.queue.push_back((call, *begin));
        } else {
            out.push(unavailable(call));
        }
        true
    }

    /// Asks the coordinator for room.
    pub(super) fn wait(
        &mut self,
        call: CallId,
        begin: Begin,
        home: &impl Home,
        out: &mut Vec<ShardDecision>,
    ) {
        self.wait_before(call, begin, VecDeque::new(), home, out);
    }

    /// The coordinator has answered; then those behind the waiter are looked at afresh, in their
    /// order, until one of them must wait.
    pub(super) fn on_answer(
        &mut self,
        waiter: Waiter,
        verdict: Verdict,
        home: &mut impl Home,
        out: &mut Vec<ShardDecision>,
    ) {
        let waits = self.waiting.get(&waiter.principal).is_some_and(|w| w.call == waiter.call);
        let waiting = waits.then(|| self.waiting.remove(&waiter.principal)).flatten();
        let Some(Waiting { call, begin, mut queue }) = waiting else {
            // Nobody waits for this permit: it must not be lost.
            if verdict == Verdict::Admitted {
                home.release();
            }
            return;
        };
        let outcome = match verdict {
            Verdict::Admitted => Outcome::First(self.start(&begin)),
            Verdict::Refused(limit) => Outcome::Capacity(limit),
            Verdict::Unavailable => Outcome::Unavailable,
        };
        out.push(ShardDecision::Begun { call, outcome });
        while let Some((call, begin)) = queue.pop_front() {
            let found = self.look(&begin, home);
            match self.decide(found, &begin, home) {
                Admission::Answer(outcome) => out.push(ShardDecision::Begun { call, outcome }),
                Admission::Wait => return self.wait_before(call, begin, queue, home, out),
            }
        }
    }

    /// Nobody can find room in a full store any more.
    pub(super) fn on_orphaned(&mut self, out: &mut Vec<ShardDecision>) {
        self.orphaned = true;
        for Waiting { call, queue, .. } in std::mem::take(&mut self.waiting).into_values() {
            out.push(unavailable(call));
            out.extend(queue.into_iter().map(|(call, _)| unavailable(call)));
        }
    }

    fn wait_before(
        &mut self,
        call: CallId,
        begin: Begin,
        queue: VecDeque<(CallId, Begin)>,
        home: &impl Home,
        out: &mut Vec<ShardDecision>,
    ) {
        if self.orphaned {
            out.push(unavailable(call));
            out.extend(queue.into_iter().map(|(call, _)| unavailable(call)));
            return;
        }
        let waiter = Waiter { shard: home.shard(), call, principal: begin.principal };
        self.waiting.insert(begin.principal, Waiting { call, begin, queue });
        out.push(ShardDecision::Send(ToCoordinator::Ask(waiter)));
    }
}

fn unavailable(call: CallId) -> ShardDecision {
    ShardDecision::Begun { call, outcome: Outcome::Unavailable }
}
