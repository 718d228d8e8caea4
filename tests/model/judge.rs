//! The sequential model, asked at every commit point: whenever a machine decides something, in the
//! very access that decided it.

use std::collections::VecDeque;

use onceward::claim::invariant::{RecordView, StateView, p4_quotas_nest};
use onceward::claim::protocol::{
    CallId, CoordinatorDecision, EvictAnswer, Outcome, RequestId, ShardDecision, ToCoordinator,
    ToShard, Verdict, Waiter,
};
use onceward::claim::shard::Shard;
use onceward::claim::{
    CapacityLimit, CompletionSeq, Fence, Millis, Settled, SlotKey, TombstoneReason,
};

use crate::Store;
use crate::coverage::Event;
use crate::naive::{Answer, End, Record, agrees, begin_on};
use crate::seat::Part;
use crate::state::{Claim, Progress, State, in_order};
use onceward::claim::coordinator::Coordinator;

/// Requests of the coordinator per client, beyond which it runs in circles.
const PATIENCE: u64 = 16;

/// A slot number of a scope and principal that nobody else has, for a permit that nobody holds.
const GHOSTS: u8 = 128;

impl State {
    pub fn judge_shard(&mut self, store: &Store, part: &Part<Shard>, decision: &ShardDecision) {
        match decision {
            ShardDecision::Begun { call, outcome } => {
                self.begun(store, *call, outcome, part.evicted);
            }
            ShardDecision::Settled { call, settled } => {
                self.settled(store, &part.machine, *call, *settled);
            }
            ShardDecision::Send(ToCoordinator::Evicted { request, answer }) => {
                self.evicted(store, *request, *answer, part.evicted);
            }
            ShardDecision::Send(_) | ShardDecision::TickAgain => {}
        }
    }

    /// A begin is answered: what was committed before, or what is committed now.
    fn begun(&mut self, store: &Store, call: CallId, outcome: &Outcome, victim: Option<SlotKey>) {
        let client = call.0 as usize;
        match self.clients[client].progress {
            _ if *outcome == Outcome::Unavailable => return self.unavailable(store, client),
            Progress::Committed(answer) => {
                if !agrees(outcome, answer) {
                    self.note("model", format!("{outcome:?} after {answer:?} was committed"));
                }
            }
            Progress::Asked => {
                self.commit(store, call, outcome, victim);
                let own = victim.is_some() && matches!(outcome, Outcome::First(_));
                store.coverage.note(Event::OwnEviction, own);
            }
            progress => self.note("P5", format!("{call:?} is answered after {progress:?}")),
        }
        self.clients[client].progress = Progress::Answered;
        if let Outcome::First(fence) | Outcome::Redispatched { fence, .. } = *outcome {
            self.clients[client].claim = Claim::Held(fence);
        }
        let redispatched = matches!(outcome, Outcome::Redispatched { .. });
        store.coverage.note(Event::Redispatched, redispatched);
        store.coverage.note(Event::OtherRoute, *outcome == Outcome::OtherRoute);
        store.coverage.note(Event::First, matches!(outcome, Outcome::First(_)));
        store.coverage.note(Event::Replay, matches!(outcome, Outcome::Replay(_)));
        store.coverage.note(Event::Refused, matches!(outcome, Outcome::Capacity(_)));
    }

    /// A client reads the index: a hit is decided there and then.
    pub fn hit(&mut self, store: &Store, client: usize) {
        store.coverage.note(Event::Hit, true);
        let begin = store.setting.begin(client);
        let Some(entry) = self.memory.index.get(&begin.slot) else {
            return;
        };
        let outcome = entry.answer(&begin);
        let call = CallId(client as u64);
        self.clients[client].asked_at = self.now;
        self.commit(store, call, &outcome, None);
        self.clients[client].progress = Progress::Answered;
    }

    /// Without a coordinator nothing is decided; a permit that was taken meanwhile stays taken.
    fn unavailable(&mut self, store: &Store, client: usize) {
        store.coverage.note(Event::Unavailable, true);
        if self.coordinator.machine.is_some() {
            self.note("P5", format!("client {client} is turned away without a reason"));
        }
        self.haunt(client);
        self.clients[client].progress = Progress::Lost;
    }

    fn settled(&mut self, store: &Store, machine: &Shard, call: CallId, settled: Settled) {
        let client = call.0 as usize;
        let (end, next) = match self.clients[client].claim {
            Claim::Settling(fence, end) => (end, Claim::Settled(fence)),
            _ => (End::Complete, Claim::Over),
        };
        let slot = store.setting.begin(client).slot;
        let order = machine.records().iter().find_map(|record| match record.state {
            StateView::Completed { seq, .. } if record.slot == slot => Some(seq.0),
            _ => None,
        });
        let (now, order) = (machine.now().0, order.unwrap_or(0));
        let done = store.naive.settle(&mut self.model, now, call.0, end, order);
        if done != (settled == Settled::Done) {
            self.note("model", format!("{settled:?} for the settle of client {client}"));
        }
        self.clients[client].claim = if store.setting.twice { next } else { Claim::Over };
    }

    /// An owner has decided on a waiter's behalf: a commit point.
    fn evicted(
        &mut self,
        store: &Store,
        request: RequestId,
        answer: EvictAnswer,
        victim: Option<SlotKey>,
    ) {
        let Some((_, waiter)) = self.request.filter(|(asked, _)| *asked == request) else {
            return self.note("rest", format!("{request:?} is answered and was not asked"));
        };
        let (event, outcome) = match answer {
            EvictAnswer::Evicted => (Event::RemoteEviction, Outcome::First(Fence(0))),
            EvictAnswer::Admitted => (Event::RemoteRoom, Outcome::First(Fence(0))),
            EvictAnswer::InFlightFull => {
                (Event::RefusedWaiter, Outcome::Capacity(CapacityLimit::StoreInFlight))
            }
            EvictAnswer::Stale => return store.coverage.note(Event::NotTheOldest, true),
        };
        store.coverage.note(event, true);
        let client = waiter.call.0 as usize;
        let lost = self.clients[client].progress == Progress::Lost;
        // A waiter whose shard died meanwhile gets its permit all the same, for a moment.
        if !(lost && answer == EvictAnswer::InFlightFull) {
            self.commit(store, waiter.call, &outcome, victim);
        }
        if lost && self.is_alive(store.setting.shard_of(client).0) {
            self.haunt(client);
        }
    }

    /// Decides a begin in the model too. What expired while it was being decided may still have
    /// counted, each record by itself; nothing else is left open.
    fn commit(&mut self, store: &Store, call: CallId, outcome: &Outcome, victim: Option<SlotKey>) {
        let client = call.0 as usize;
        let asked_at = self.clients[client].asked_at;
        let begin = store.setting.begin(client);
        let ended = |record: &Record| record.stands(asked_at) && !record.stands(self.now);
        let open: Vec<_> = self.model.iter().filter(|r| ended(r)).map(|r| r.claim).collect();
        let mut tried = String::new();
        for choice in 0..1u32 << open.len() {
            let counts = |record: &Record| {
                let place = open.iter().position(|claim| *claim == record.claim);
                place.is_none_or(|place| choice >> place & 1 == 1)
            };
            let (mut model, gone): (Vec<_>, Vec<_>) = self.model.iter().cloned().partition(counts);
            let before = views(store, &model);
            let after: Vec<_> = before.iter().filter(|r| Some(r.slot) != victim).cloned().collect();
            let answer = store.naive.begin(&mut model, asked_at, &begin, call.0);
            let (limits, now) = (&store.setting.limits, Millis(asked_at));
            let p4 = p4_quotas_nest(&before, &after, limits, now, &begin, outcome);
            let same_victim = match answer {
                Answer::First { evicted } => evicted == victim,
                _ => true,
            };
            if agrees(outcome, answer) && same_victim && p4.is_ok() {
                let taken: Vec<_> = model.iter().map(|record| record.begin.slot).collect();
                model.extend(gone.into_iter().filter(|r| !taken.contains(&r.begin.slot)));
                self.model = in_order(model);
                if self.clients[client].progress == Progress::Asked {
                    self.clients[client].progress = Progress::Committed(answer);
                }
                return;
            }
            tried += &format!(" {answer:?} {p4:?} with {choice:b} of {open:?};");
        }
        let property = if tried.contains("P4") { "P4" } else { "model" };
        self.note(property, format!("client {client}: {outcome:?}, {victim:?} evicted;{tried}"));
    }

    pub fn judge_coordinator(&mut self, store: &Store, part: &Part<Coordinator>) {
        for decision in &part.decided {
            match decision {
                CoordinatorDecision::Again => store.coverage.note(Event::LookAgain, true),
                CoordinatorDecision::Send { message, .. } => self.sent(store, message),
            }
        }
    }

    fn sent(&mut self, store: &Store, message: &ToShard) {
        let request = match message {
            ToShard::Answer { waiter, verdict } => return self.answer(store, *waiter, *verdict),
            ToShard::Evict { request, waiter, .. } => {
                self.request = Some((*request, *waiter));
                request
            }
            ToShard::Sweep { request, .. } => {
                store.coverage.note(Event::SweepRequest, true);
                request
            }
            _ => return,
        };
        if request.0 > PATIENCE * self.clients.len() as u64 {
            self.note("steady", format!("the coordinator asks for the {}th time", request.0));
        }
    }

    /// An owner has admitted a waiter, and the coordinator does not pass it on: the waiter's shard
    /// has died, and the first access of the step, which is in its first part, gives the permit back.
    pub fn note_given_back(&mut self, message: ToCoordinator, part: &Part<Coordinator>) {
        let ToCoordinator::Evicted { request, answer } = message else {
            return;
        };
        let Some((_, waiter)) = self.request.filter(|(asked, _)| *asked == request) else {
            return;
        };
        let passed_on = part.decided.iter().any(|decision| {
            matches!(decision, CoordinatorDecision::Send {
                message: ToShard::Answer { waiter: answered, .. }, ..
            } if *answered == waiter)
        });
        let admitted = matches!(answer, EvictAnswer::Evicted | EvictAnswer::Admitted);
        if admitted && !passed_on {
            self.model.retain(|record| record.claim != waiter.call.0);
        }
    }

    /// The coordinator has decided, or passes on what an owner decided.
    fn answer(&mut self, store: &Store, waiter: Waiter, verdict: Verdict) {
        let client = waiter.call.0 as usize;
        let outcome = match verdict {
            Verdict::Admitted => Outcome::First(Fence(0)),
            Verdict::Refused(limit) => Outcome::Capacity(limit),
            Verdict::Unavailable => {
                return self.note("P5", "the coordinator's queue is longer than this".into());
            }
        };
        let committed = self.model.iter().any(|record| record.claim == waiter.call.0);
        let decides = match self.clients[client].progress {
            Progress::Asked => true,
            Progress::Lost => verdict == Verdict::Admitted && !committed,
            _ => false,
        };
        if decides {
            store.coverage.note(Event::CoordinatorRoom, verdict == Verdict::Admitted);
            store.coverage.note(Event::RefusedWaiter, verdict != Verdict::Admitted);
            self.commit(store, waiter.call, &outcome, None);
        }
    }

    /// A message that a dead shard will not read: a permit that it tells of is lost.
    pub fn lose_answer(&mut self, message: &ToShard) {
        if let ToShard::Answer { waiter, verdict: Verdict::Admitted } = message {
            self.lose_claim(waiter.call);
        }
    }

    /// The records of a shard that died count for ever, and those of admitted begins that it did
    /// not hear of; whom it did not answer is told so.
    pub fn lose_shard(
        &mut self,
        store: &Store,
        victim: usize,
        records: &[RecordView],
        mailbox: VecDeque<ToShard>,
    ) {
        use crate::naive::State as In;
        for record in records {
            let Some(lost) = self.model.iter_mut().find(|r| r.begin.slot == record.slot) else {
                self.note("model", format!("{record:?} is not in the model"));
                continue;
            };
            lost.state = In::Lost { in_flight: lost.state == In::InFlight };
        }
        for message in &mailbox {
            self.lose_answer(message);
        }
        for client in 0..self.clients.len() {
            if store.setting.shard_of(client).0 == victim {
                let client = &mut self.clients[client];
                if matches!(client.progress, Progress::Idle | Progress::Asked) {
                    client.progress = Progress::Lost;
                }
                client.claim = Claim::Over;
            }
        }
    }

    /// The record of a claim whose shard can no longer hear of it.
    fn lose_claim(&mut self, call: CallId) {
        for record in self.model.iter_mut().filter(|record| record.claim == call.0) {
            record.state = crate::naive::State::Lost { in_flight: true };
        }
    }

    /// A report that nobody will read: the permit that it tells of is lost.
    pub fn lose_report(&mut self, report: ToCoordinator) {
        let ToCoordinator::Evicted { request, answer } = report else {
            return;
        };
        let admitted = matches!(answer, EvictAnswer::Evicted | EvictAnswer::Admitted);
        if let Some((_, waiter)) = self.request.filter(|(asked, _)| *asked == request && admitted) {
            self.haunt(waiter.call.0 as usize);
        }
    }

    /// A permit taken for a client that will never hear of it counts for ever, and holds no slot.
    fn haunt(&mut self, client: usize) {
        for record in self.model.iter_mut().filter(|record| record.claim == client as u64) {
            record.begin = begin_on(GHOSTS + client as u8 * 8, 0);
            record.state = crate::naive::State::Lost { in_flight: true };
        }
    }
}

/// The model's records as the invariants see records. What a dead shard holds is not evictable.
pub fn views(store: &Store, model: &[Record]) -> Vec<RecordView> {
    use crate::naive::State as In;
    let tombstone = |unknown, expires| StateView::Tombstone {
        reason: match unknown {
            true => TombstoneReason::Unknown,
            false => TombstoneReason::NotReplayable,
        },
        expires,
    };
    model
        .iter()
        .map(|record| RecordView {
            slot: record.begin.slot,
            scope: record.begin.scope,
            principal: record.begin.principal,
            hash: record.begin.hash,
            dispatch: record.begin.dispatch.hash,
            fence: Some(Fence(record.claim)),
            state: match record.state {
                In::InFlight | In::Lost { in_flight: true } => {
                    StateView::InFlight { again: record.again }
                }
                In::Lost { in_flight: false } => tombstone(true, Millis::NEVER),
                In::Tombstone { unknown, expires } => tombstone(unknown, Millis(expires)),
                In::Completed { order, expires } => StateView::Completed {
                    seq: CompletionSeq(order),
                    expires: Millis(expires),
                    reply: store.reply.clone(),
                },
            },
        })
        .collect()
}
