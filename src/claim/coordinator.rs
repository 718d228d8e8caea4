//! The machine of the coordinator: admission at a full store, across shards (STORE section 3).
//!
//! It serves one waiter at a time, in the order in which they asked. A waiter waits only for an
//! outstanding answer, never for a condition: while the queue is not empty, either a request is out
//! or another step of the coordinator is on its way.

use std::collections::VecDeque;

use super::counts::Full;
use super::protocol::{
    CoordinatorDecision, EvictAnswer, Incarnation, RequestId, ShardId, ToCoordinator, ToShard,
    Verdict, Waiter,
};
use super::shared::Shared;
use super::{CapacityLimit, CompletionSeq, Millis};

/// Begins that may wait at the coordinator. One more is answered unavailable. At most one begin of
/// a principal waits here; the others of its principal queue in its shard.
pub const MAX_WAITING: usize = 4096;

/// A request that is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Outstanding {
    request: RequestId,
    shard: ShardId,
    /// Whom an eviction is for; a sweep is for nobody.
    waiter: Option<Waiter>,
}

/// The machine of the coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Coordinator {
    /// The life of each shard, `None` once it has died.
    shards: Vec<Option<Incarnation>>,
    queue: VecDeque<Waiter>,
    outstanding: Option<Outstanding>,
    next_request: u64,
    /// Whether [`ToCoordinator::Again`] is on its way.
    again: bool,
}

impl Coordinator {
    /// A coordinator of `shards` shards, each in its first life.
    pub fn new(shards: usize) -> Self {
        Self {
            shards: vec![Some(Incarnation::default()); shards],
            queue: VecDeque::new(),
            outstanding: None,
            next_request: 0,
            again: false,
        }
    }

    /// Takes one step; decisions are appended to `out`.
    pub fn step(
        &mut self,
        now: Millis,
        message: ToCoordinator,
        shared: &mut impl Shared,
        out: &mut Vec<CoordinatorDecision>,
    ) {
        match message {
            ToCoordinator::Ask(waiter) => self.on_ask(waiter, out),
            ToCoordinator::Evicted { request, answer } => {
                self.on_evicted(request, answer, shared, out);
            }
            ToCoordinator::Swept { request } => {
                self.take_outstanding(request);
            }
            ToCoordinator::Down { shard, incarnation } => self.on_down(shard, incarnation),
            ToCoordinator::Again => self.again = false,
        }
        self.serve(now, shared, out);
    }

    /// Whether nobody waits here.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.outstanding.is_none()
    }

    fn on_ask(&mut self, waiter: Waiter, out: &mut Vec<CoordinatorDecision>) {
        if self.queue.len() < MAX_WAITING {
            self.queue.push_back(waiter);
        } else {
            out.push(answer(waiter, Verdict::Unavailable));
        }
    }

    fn on_evicted(
        &mut self,
        request: RequestId,
        answered: EvictAnswer,
        shared: &mut impl Shared,
        out: &mut Vec<CoordinatorDecision>,
    ) {
        let waiter = self.take_outstanding(request).and_then(|outstanding| outstanding.waiter);
        let verdict = match answered {
            EvictAnswer::Evicted | EvictAnswer::Admitted => Verdict::Admitted,
            EvictAnswer::InFlightFull => Verdict::Refused(CapacityLimit::StoreInFlight),
            EvictAnswer::Stale => return,
        };
        match waiter {
            Some(waiter) if self.queue.front() == Some(&waiter) => {
                self.queue.pop_front();
                out.push(answer(waiter, verdict));
            }
            // The waiter's shard died meanwhile: no record will ever hold this permit.
            _ if verdict == Verdict::Admitted => shared.release(),
            _ => {}
        }
    }

    /// A shard has died. Its waiters are forgotten: whom they would answer died with it. A request
    /// that it will never answer is over, and its waiter is served afresh.
    fn on_down(&mut self, shard: ShardId, incarnation: Incarnation) {
        match self.shards.get_mut(shard.0) {
            Some(life) if *life == Some(incarnation) => *life = None,
            _ => return,
        }
        self.queue.retain(|waiter| waiter.shard != shard);
        if self.outstanding.is_some_and(|request| request.shard == shard) {
            self.outstanding = None;
        }
    }

    /// Ends the outstanding request, if it is this one.
    fn take_outstanding(&mut self, request: RequestId) -> Option<Outstanding> {
        self.outstanding.take_if(|outstanding| outstanding.request == request)
    }

    /// Serves the head of the queue until it must wait for an answer.
    ///
    /// What is due is looked for before the counts are read, so that a refusal rests on one reading
    /// (R at its cap, C = 0) after nothing was due.
    fn serve(&mut self, now: Millis, shared: &mut impl Shared, out: &mut Vec<CoordinatorDecision>) {
        while self.outstanding.is_none()
            && !self.again
            && let Some(&waiter) = self.queue.front()
        {
            let due = self.living().find(|shard| shared.next_expiry(*shard) <= now);
            let verdict = match (shared.start(), due) {
                (Ok(()), _) => Verdict::Admitted,
                (Err(Full::InFlight), _) => Verdict::Refused(CapacityLimit::StoreInFlight),
                (Err(Full::Entries { .. }), Some(shard)) => {
                    let message = |request| ToShard::Sweep { request, now };
                    return self.request(shard, None, message, out);
                }
                (Err(Full::Entries { completed: 0 }), None) => {
                    Verdict::Refused(CapacityLimit::StoreEntries)
                }
                (Err(Full::Entries { .. }), None) => {
                    return self.request_eviction(waiter, shared, out);
                }
            };
            self.queue.pop_front();
            out.push(answer(waiter, verdict));
        }
    }

    /// Asks the owner of the oldest completed record to admit the waiter in its place. Where no
    /// shard publishes one, those that were counted are on their way out: look again.
    fn request_eviction(
        &mut self,
        waiter: Waiter,
        shared: &impl Shared,
        out: &mut Vec<CoordinatorDecision>,
    ) {
        match self.oldest(shared) {
            Some((shard, bound)) => {
                let message = |request| ToShard::Evict { request, waiter, bound };
                self.request(shard, Some(waiter), message, out);
            }
            None => {
                self.again = true;
                out.push(CoordinatorDecision::Again);
            }
        }
    }

    /// The living shard that publishes the least, and what no other shard can be below: see
    /// [`super::shared::bound_of_others`], of which this is one scan for all.
    fn oldest(&self, shared: &impl Shared) -> Option<(ShardId, CompletionSeq)> {
        let counter = shared.next_completion();
        let mut least: Option<(CompletionSeq, ShardId)> = None;
        let mut bound = counter;
        for shard in self.living() {
            let Some(oldest) = shared.oldest(shard) else {
                continue;
            };
            match least {
                Some((seq, _)) if seq <= oldest => bound = bound.min(oldest),
                _ => {
                    if let Some((seq, _)) = least.replace((oldest, shard)) {
                        bound = bound.min(seq);
                    }
                }
            }
        }
        least.map(|(_, shard)| (shard, bound))
    }

    fn living(&self) -> impl Iterator<Item = ShardId> {
        let alive = |(index, life): (usize, &Option<Incarnation>)| life.map(|_| ShardId(index));
        self.shards.iter().enumerate().filter_map(alive)
    }

    fn request(
        &mut self,
        shard: ShardId,
        waiter: Option<Waiter>,
        message: impl FnOnce(RequestId) -> ToShard,
        out: &mut Vec<CoordinatorDecision>,
    ) {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.outstanding = Some(Outstanding { request, shard, waiter });
        out.push(CoordinatorDecision::Send { shard, message: message(request) });
    }
}

fn answer(waiter: Waiter, verdict: Verdict) -> CoordinatorDecision {
    CoordinatorDecision::Send { shard: waiter.shard, message: ToShard::Answer { waiter, verdict } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::protocol::CallId;
    use crate::claim::shared::Home;
    use crate::claim::{Limits, PrincipalId};
    use crate::ledger::PlainLedger;

    /// A store of two records, full: number 0 is completed in shard 0, number 1 in shard 1.
    fn full() -> (Coordinator, PlainLedger) {
        let limits = Limits { entries: 2, in_flight: 2, ..Limits::default() };
        let mut ledger = PlainLedger::new(&limits, 3);
        for shard in [ShardId(0), ShardId(1)] {
            ledger.start().expect("there is room");
            ledger.shard(shard).complete(Millis(100));
        }
        (Coordinator::new(3), ledger)
    }

    fn waiter(shard: usize, call: u64) -> Waiter {
        let principal = PrincipalId::from_bytes([shard as u8; 32]);
        Waiter { shard: ShardId(shard), call: CallId(call), principal }
    }

    fn step(
        coordinator: &mut Coordinator,
        ledger: &mut PlainLedger,
        now: u64,
        message: ToCoordinator,
    ) -> Vec<CoordinatorDecision> {
        let mut out = Vec::new();
        coordinator.step(Millis(now), message, ledger, &mut out);
        out
    }

    fn evict(shard: usize, request: u64, waiter: Waiter, bound: u64) -> CoordinatorDecision {
        let (request, bound) = (RequestId(request), CompletionSeq(bound));
        let message = ToShard::Evict { request, waiter, bound };
        CoordinatorDecision::Send { shard: ShardId(shard), message }
    }

    fn down(shard: usize, incarnation: u32) -> ToCoordinator {
        ToCoordinator::Down { shard: ShardId(shard), incarnation: Incarnation(incarnation) }
    }

    #[test]
    fn the_oldest_shard_is_asked_with_the_least_of_the_others_as_its_bound() {
        let (mut coordinator, mut ledger) = full();
        let waiter = waiter(2, 1);
        let out = step(&mut coordinator, &mut ledger, 0, ToCoordinator::Ask(waiter));
        assert_eq!(out, [evict(0, 0, waiter, 1)]);
        assert!(!coordinator.is_idle());
        let answer = EvictAnswer::Evicted;
        let evicted = ToCoordinator::Evicted { request: RequestId(0), answer };
        ledger.shard(ShardId(0)).evict().expect("a place in flight");
        let out = step(&mut coordinator, &mut ledger, 0, evicted);
        assert_eq!(out, [super::answer(waiter, Verdict::Admitted)]);
        assert!(coordinator.is_idle());
    }

    #[test]
    fn what_is_due_is_swept_before_anything_is_evicted_or_refused() {
        let (mut coordinator, mut ledger) = full();
        let waiter = waiter(2, 1);
        let out = step(&mut coordinator, &mut ledger, 100, ToCoordinator::Ask(waiter));
        let message = ToShard::Sweep { request: RequestId(0), now: Millis(100) };
        assert_eq!(out, [CoordinatorDecision::Send { shard: ShardId(0), message }]);
        ledger.shard(ShardId(0)).sweep(1, 1);
        let swept = ToCoordinator::Swept { request: RequestId(0) };
        let out = step(&mut coordinator, &mut ledger, 100, swept);
        assert_eq!(out, [super::answer(waiter, Verdict::Admitted)]);
    }

    #[test]
    fn an_answer_to_another_request_ends_nothing() {
        let (mut coordinator, mut ledger) = full();
        let first = waiter(2, 1);
        step(&mut coordinator, &mut ledger, 0, ToCoordinator::Ask(first));
        let swept = ToCoordinator::Swept { request: RequestId(7) };
        assert_eq!(step(&mut coordinator, &mut ledger, 0, swept), []);
        let stale = ToCoordinator::Evicted { request: RequestId(0), answer: EvictAnswer::Stale };
        let out = step(&mut coordinator, &mut ledger, 0, stale);
        assert_eq!(out, [evict(0, 1, first, 1)], "stale: it looks again");
    }

    #[test]
    fn when_the_asked_shard_dies_the_next_oldest_is_asked() {
        let (mut coordinator, mut ledger) = full();
        let waiter = waiter(2, 1);
        step(&mut coordinator, &mut ledger, 0, ToCoordinator::Ask(waiter));
        ledger.abandon(ShardId(0));
        assert_eq!(step(&mut coordinator, &mut ledger, 0, down(0, 1)), [], "another life");
        let out = step(&mut coordinator, &mut ledger, 0, down(0, 0));
        assert_eq!(out, [evict(1, 1, waiter, 2)]);
        assert_eq!(step(&mut coordinator, &mut ledger, 0, down(0, 0)), [], "twice is once");
    }

    #[test]
    fn when_the_asking_shard_dies_its_admission_is_given_back() {
        let (mut coordinator, mut ledger) = full();
        let gone = waiter(2, 1);
        step(&mut coordinator, &mut ledger, 0, ToCoordinator::Ask(gone));
        let next = waiter(1, 2);
        assert_eq!(step(&mut coordinator, &mut ledger, 0, ToCoordinator::Ask(next)), []);
        assert_eq!(step(&mut coordinator, &mut ledger, 0, down(2, 0)), []);
        ledger.shard(ShardId(0)).evict().expect("a place in flight");
        let answer = EvictAnswer::Evicted;
        let evicted = ToCoordinator::Evicted { request: RequestId(0), answer };
        let out = step(&mut coordinator, &mut ledger, 0, evicted);
        assert_eq!(out, [super::answer(next, Verdict::Admitted)], "the next takes the place");
        assert_eq!((ledger.counts().records, ledger.counts().in_flight), (2, 1));
    }

    #[test]
    fn when_the_asking_shard_dies_its_refusal_gives_nothing_back() {
        let (mut coordinator, mut ledger) = full();
        let gone = waiter(2, 1);
        step(&mut coordinator, &mut ledger, 0, ToCoordinator::Ask(gone));
        step(&mut coordinator, &mut ledger, 0, down(2, 0));
        assert!(!coordinator.is_idle(), "nobody waits, but a request is out");
        // Two others take the places in flight before the owner gets to it.
        for shard in [ShardId(0), ShardId(1)] {
            ledger.shard(shard).evict().expect("a place in flight");
        }
        let counts = ledger.counts();
        let answer = EvictAnswer::InFlightFull;
        let evicted = ToCoordinator::Evicted { request: RequestId(0), answer };
        assert_eq!(step(&mut coordinator, &mut ledger, 0, evicted), []);
        assert_eq!(ledger.counts(), counts);
        assert!(coordinator.is_idle());
    }

    #[test]
    fn where_nobody_publishes_what_is_counted_it_looks_again() {
        let (mut coordinator, mut ledger) = full();
        for shard in [ShardId(0), ShardId(1)] {
            ledger.shard(shard).publish(None, Millis::NEVER);
        }
        let waiter = waiter(2, 1);
        let out = step(&mut coordinator, &mut ledger, 0, ToCoordinator::Ask(waiter));
        assert_eq!(out, [CoordinatorDecision::Again]);
        assert!(!coordinator.is_idle(), "no request is out, but somebody waits");
        ledger.shard(ShardId(1)).publish(Some(CompletionSeq(1)), Millis(100));
        let out = step(&mut coordinator, &mut ledger, 0, ToCoordinator::Again);
        assert_eq!(out, [evict(1, 0, waiter, 2)]);
    }

    #[test]
    fn the_queue_is_bounded() {
        let (mut coordinator, mut ledger) = full();
        for call in 0..MAX_WAITING as u64 {
            step(&mut coordinator, &mut ledger, 0, ToCoordinator::Ask(waiter(2, call)));
        }
        let over = waiter(2, 1 << 40);
        let out = step(&mut coordinator, &mut ledger, 0, ToCoordinator::Ask(over));
        assert_eq!(out, [super::answer(over, Verdict::Unavailable)]);
    }
}
