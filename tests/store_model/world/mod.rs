//! Shards, coordinator and clients with explicit queues: one per sender and receiver, each first in
//! first out, as the mailboxes of actors are.

mod clients;
mod commit;

use std::collections::{BTreeMap, VecDeque};

use onceward::claim::coordinator::Coordinator;
use onceward::claim::invariant::{
    RecordView, p1_one_execution, p2_within_caps, p5_every_begin_answered, recount_store,
};
use onceward::claim::protocol::{
    CallId, CoordinatorDecision, EvictAnswer, Incarnation, Outcome, RequestId, ShardDecision,
    ShardId, ToCoordinator, ToShard, Verdict, Waiter,
};
use onceward::claim::shard::Shard;
use onceward::claim::shared::Shared;
use onceward::claim::{Begin, CapacityLimit, Fence, Limits, Millis, Settled, SlotKey};
use onceward::ledger::PlainLedger;

use crate::dispatches::DISPATCHES;
use crate::naive::{
    Answer, End, Naive, Record, SCOPES_PER_PRINCIPAL, SLOTS_PER_SCOPE, State, agrees, begin_on,
};
use crate::shard::{completed, fence_of, same_index, settlement};

/// Deliveries after which an end without rest is a livelock.
const PATIENCE: usize = 20_000;

/// Four principals of two scopes each.
const SLOTS: u8 = 32;

/// A deterministic generator, so that a failing seed can be run again.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Asked,
    /// Decided for all to see; its caller has not heard yet.
    Committed(Answer),
    Answered,
    /// Its shard died.
    Lost,
}

#[derive(Debug)]
struct Call {
    begin: Begin,
    shard: usize,
    asked_at: u64,
    progress: Progress,
}

#[derive(Debug, Clone, Copy)]
struct Ticket {
    call: u64,
    begin: Begin,
    fence: Fence,
    shard: usize,
    settled: bool,
}

pub struct World {
    random: Random,
    now: u64,
    naive: Naive,
    model: Vec<Record>,
    order: u64,
    shards: Vec<Option<Shard>>,
    coordinator: Coordinator,
    ledger: PlainLedger,
    /// Clients are many: their messages may overtake one another.
    clients: Vec<Vec<ToShard>>,
    orders: Vec<VecDeque<ToShard>>,
    reports: Vec<VecDeque<ToCoordinator>>,
    again: VecDeque<ToCoordinator>,
    requests: BTreeMap<RequestId, Waiter>,
    calls: BTreeMap<CallId, Call>,
    answered: Vec<CallId>,
    tickets: Vec<Ticket>,
    /// Settles on their way, by call: of which ticket, and how.
    settles: BTreeMap<CallId, (usize, End)>,
    next_call: u64,
    /// Replies of dead shards that are left in the read index.
    left_in_index: usize,
    redispatches: u64,
}

impl World {
    pub fn new(seed: u64, shards: usize, limits: Limits) -> Self {
        assert_eq!(limits.validate(), Ok(()));
        Self {
            random: Random::new(seed),
            now: 0,
            naive: Naive { limits },
            model: Vec::new(),
            order: 0,
            shards: (0..shards).map(|_| Some(Shard::new(limits))).collect(),
            coordinator: Coordinator::new(shards),
            ledger: PlainLedger::new(&limits, shards),
            clients: vec![Vec::new(); shards],
            orders: vec![VecDeque::new(); shards],
            reports: vec![VecDeque::new(); shards],
            again: VecDeque::new(),
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
            answered: Vec::new(),
            tickets: Vec::new(),
            settles: BTreeMap::new(),
            next_call: 0,
            left_in_index: 0,
            redispatches: 0,
        }
    }

    fn call_id(&mut self) -> CallId {
        self.next_call += 1;
        CallId(self.next_call)
    }

    fn shard_of(&self, slot: u8) -> usize {
        usize::from(slot / SLOTS_PER_SCOPE / SCOPES_PER_PRINCIPAL) % self.shards.len()
    }

    pub fn advance(&mut self, by: u64) {
        self.now += by;
    }

    /// Delivers one of the messages under way.
    pub fn deliver_one(&mut self) -> bool {
        let shards = self.shards.len();
        let ready: Vec<usize> = (0..=3 * shards)
            .filter(|queue| match queue / shards {
                0 => !self.clients[queue % shards].is_empty(),
                1 => !self.orders[queue % shards].is_empty(),
                2 => !self.reports[queue % shards].is_empty(),
                _ => !self.again.is_empty(),
            })
            .collect();
        if ready.is_empty() {
            return false;
        }
        let queue = ready[self.random.below(ready.len() as u64) as usize];
        let at = queue % shards;
        let to_shard = match queue / shards {
            0 => {
                let any = self.random.below(self.clients[at].len() as u64) as usize;
                Some(self.clients[at].swap_remove(any))
            }
            1 => self.orders[at].pop_front(),
            _ => None,
        };
        if let Some(message) = to_shard {
            self.step_shard(at, message);
        } else {
            let report = if queue / shards == 2 {
                self.reports[at].pop_front()
            } else {
                self.again.pop_front()
            };
            self.step_coordinator(report.expect("the queue was not empty"));
        }
        true
    }

    fn step_shard(&mut self, at: usize, message: ToShard) {
        let Some(shard) = &mut self.shards[at] else {
            return;
        };
        let before = shard.records();
        let mut out = Vec::new();
        shard.step(Millis(self.now), message, &mut self.ledger.shard(ShardId(at)), &mut out);
        let after = shard.records();
        let redispatched: Vec<_> = out.iter().filter_map(|one| self.redispatched(one)).collect();
        self.redispatches += redispatched.len() as u64;
        p1_one_execution(&before, &after, Millis(self.now), &redispatched).unwrap();
        for decision in out {
            match decision {
                ShardDecision::Begun { call, outcome } => self.begun(at, call, &outcome),
                ShardDecision::Settled { call, settled } => self.settled(call, settled),
                ShardDecision::Send(report) => {
                    if let ToCoordinator::Evicted { request, answer } = report {
                        self.evicted(request, answer);
                    }
                    self.reports[at].push_back(report);
                }
                ShardDecision::TickAgain => unreachable!("a handful of records fits one tick"),
            }
        }
    }

    /// The begin that a decision answers with a redispatch.
    fn redispatched(&self, decision: &ShardDecision) -> Option<Begin> {
        match decision {
            ShardDecision::Begun { call, outcome: Outcome::Redispatched { .. } } => {
                Some(self.calls[call].begin)
            }
            _ => None,
        }
    }

    /// A begin is answered: what was committed before, or what is committed now.
    fn begun(&mut self, shard: usize, call: CallId, outcome: &Outcome) {
        let answer = match self.calls[&call].progress {
            Progress::Committed(answer) => answer,
            Progress::Asked => self.commit_now(call, outcome),
            progress => panic!("{call:?} is answered twice, after {progress:?}"),
        };
        assert!(agrees(outcome, answer), "{outcome:?} instead of {answer:?}");
        let entry = self.calls.get_mut(&call).expect("it was asked");
        entry.progress = Progress::Answered;
        self.answered.push(call);
        if let Some(fence) = fence_of(outcome) {
            let begin = entry.begin;
            self.tickets.push(Ticket { call: call.0, begin, fence, shard, settled: false });
            if self.random.below(8) == 0 {
                // Its caller has left: what was never handed out is released.
                self.settle(self.tickets.len() - 1, End::Release);
            }
        }
    }

    fn settled(&mut self, call: CallId, settled: Settled) {
        let (ticket, end) = self.settles[&call];
        let claim = self.tickets[ticket].call;
        let order = self.order;
        self.order += 1;
        let done = self.naive.settle(&mut self.model, self.now, claim, end, order);
        assert_eq!(settled == Settled::Done, done, "the settle of claim {claim}");
    }

    /// An owner has decided on a waiter's behalf: a commit point.
    fn evicted(&mut self, request: RequestId, answer: EvictAnswer) {
        let waiter = self.requests[&request];
        let outcome = match answer {
            EvictAnswer::Evicted | EvictAnswer::Admitted => Outcome::First(Fence(0)),
            EvictAnswer::InFlightFull => Outcome::Capacity(CapacityLimit::StoreInFlight),
            EvictAnswer::Stale => return,
        };
        // A waiter whose shard died meanwhile gets its permit all the same, for a moment.
        let refused_dead = self.calls[&waiter.call].progress == Progress::Lost
            && answer == EvictAnswer::InFlightFull;
        if !refused_dead {
            self.commit_since_asked(waiter.call, &outcome);
        }
    }

    fn step_coordinator(&mut self, message: ToCoordinator) {
        let mut out = Vec::new();
        self.coordinator.step(Millis(self.now), message, &mut self.ledger, &mut out);
        self.forget_refused_admission(message, &out);
        for decision in out {
            match decision {
                CoordinatorDecision::Again => self.again.push_back(ToCoordinator::Again),
                CoordinatorDecision::Send { shard, message } => {
                    if let ToShard::Answer { waiter, verdict } = &message {
                        self.answer(*waiter, *verdict);
                    }
                    if let ToShard::Evict { request, waiter, .. } = &message {
                        self.requests.insert(*request, *waiter);
                    }
                    if self.shards[shard.0].is_some() {
                        self.orders[shard.0].push_back(message);
                    }
                }
            }
        }
    }

    /// An owner has admitted a waiter, and the coordinator does not pass it on: the waiter's shard
    /// has died, and the permit was given back.
    fn forget_refused_admission(&mut self, message: ToCoordinator, out: &[CoordinatorDecision]) {
        let ToCoordinator::Evicted { request, answer } = message else {
            return;
        };
        let waiter = self.requests[&request];
        let passed_on = out.iter().any(|decision| {
            matches!(decision, CoordinatorDecision::Send {
                message: ToShard::Answer { waiter: answered, .. }, ..
            } if *answered == waiter)
        });
        if matches!(answer, EvictAnswer::Evicted | EvictAnswer::Admitted) && !passed_on {
            self.model.retain(|record| record.claim != waiter.call.0);
        }
    }

    /// The coordinator has decided, or passes on what an owner decided.
    fn answer(&mut self, waiter: Waiter, verdict: Verdict) {
        let outcome = match verdict {
            Verdict::Admitted => Outcome::First(Fence(0)),
            Verdict::Refused(limit) => Outcome::Capacity(limit),
            Verdict::Unavailable => panic!("the coordinator's queue is longer than this"),
        };
        let committed = self.model.iter().any(|record| record.claim == waiter.call.0);
        match self.calls[&waiter.call].progress {
            Progress::Asked => {
                self.commit_now(waiter.call, &outcome);
            }
            Progress::Lost if verdict == Verdict::Admitted && !committed => {
                self.commit_now(waiter.call, &outcome);
            }
            _ => {}
        }
        if self.shards[waiter.shard.0].is_none() && verdict == Verdict::Admitted {
            lose(&mut self.model, waiter.call);
        }
    }

    /// Delivers everything, settles everything, and finds nothing left. Says how many redispatches
    /// there were.
    pub fn finish(mut self) -> u64 {
        self.come_to_rest();
        while let Some(open) = self.tickets.iter().position(|ticket| !ticket.settled) {
            self.settle(open, End::Complete);
            self.come_to_rest();
        }
        let lost = |call: &Call| self.shards[call.shard].is_none();
        let expected = |(call, entry): (&CallId, &Call)| {
            (!lost(entry) || entry.progress == Progress::Answered).then_some(*call)
        };
        let asked: Vec<_> = self.calls.iter().filter_map(expected).collect();
        p5_every_begin_answered(&asked, &self.answered).unwrap();
        assert!(self.coordinator.is_idle(), "the coordinator waits for something");
        assert!(self.shards.iter().flatten().all(Shard::is_idle), "a shard waits for something");
        self.now += 100;
        for at in 0..self.shards.len() {
            self.step_shard(at, ToShard::Tick);
        }
        self.check();
        assert_eq!(self.records(), [], "everything has settled and expired");
        assert!(self.shards.iter().any(Option::is_none) || self.ledger.counts().records == 0);
        self.redispatches
    }

    fn come_to_rest(&mut self) {
        for _ in 0..PATIENCE {
            if !self.deliver_one() {
                return;
            }
            self.check();
        }
        panic!("no rest after {PATIENCE} deliveries");
    }
}

/// The record of a claim whose shard can no longer hear of it.
fn lose(model: &mut [Record], call: CallId) {
    for record in model.iter_mut().filter(|record| record.claim == call.0) {
        record.state = State::Lost { in_flight: true };
    }
}
