//! A state of the whole store and its clients, and what can happen next.

use std::collections::BTreeSet;
use std::hash::Hash;

use onceward::claim::coordinator::Coordinator;
use onceward::claim::invariant::{p1_one_execution, p6_stale_changes_nothing};
use onceward::claim::protocol::{
    CallId, CoordinatorDecision, Incarnation, Outcome, RequestId, ShardDecision, ShardId,
    ToCoordinator, ToShard, Waiter,
};
use onceward::claim::shard::Shard;
use onceward::claim::{Fence, Millis, Settled, SlotKey};

use crate::coverage::Event;
use crate::memory::{Memory, Published};
use crate::naive::{Answer, End, Record};
use crate::seat::{Part, Seal, Seat};
use crate::setting::{Grain, Setting};
use crate::{Store, settlement};

/// What became of a client's begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Progress {
    Idle,
    Asked,
    /// Decided for all to see; its caller has not heard yet.
    Committed(Answer),
    Answered,
    /// Its shard or the coordinator died: it was told so, and nothing was decided.
    Lost,
}

/// What became of a client's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Claim {
    None,
    Held(Fence),
    Settling(Fence, End),
    Settled(Fence),
    Over,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Client {
    pub progress: Progress,
    pub claim: Claim,
    pub asked_at: u64,
}

/// What does not hold: which property, and how.
pub type Wrong = (&'static str, String);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub now: u64,
    ticks: u8,
    deaths: u8,
    orphans: bool,
    pub shards: Vec<Seat<Shard, ToShard>>,
    pub coordinator: Seat<Coordinator, ToCoordinator>,
    /// A shard that died and has not said so yet, and how far it is.
    dying: Option<(usize, u8)>,
    pub memory: Memory,
    pub model: Vec<Record>,
    pub clients: Vec<Client>,
    /// The coordinator's last eviction request.
    pub request: Option<(RequestId, Waiter)>,
    pub wrong: Option<Wrong>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A client's begin reaches its shard.
    Begin(usize),
    /// A client finds its answer in the read index.
    Hit(usize),
    /// A client's settle reaches its shard.
    Settle(usize, End),
    /// So does one by a ticket that was used.
    SettleAgain(usize),
    /// A shard takes the next message of the coordinator.
    Deliver(usize),
    /// A shard's timer fires while something is due.
    Sweep(usize),
    /// The coordinator takes its next message.
    Coordinate,
    /// A shard takes its next access to shared memory.
    ShardGoesOn(usize),
    /// So does the coordinator.
    CoordinatorGoesOn,
    /// The clock advances.
    Tick,
    /// A shard dies between two messages; its mailbox goes with it.
    Die(usize),
    /// A dead shard takes its next access.
    Abandon,
    /// The coordinator dies.
    Orphan,
}

const NOTHING: Published = Published { oldest: None, next_expiry: Millis::NEVER };

impl State {
    pub fn new(setting: &Setting) -> Self {
        assert_eq!(setting.limits.validate(), Ok(()));
        let client = Client { progress: Progress::Idle, claim: Claim::None, asked_at: 0 };
        let mut coordinator = Seat::new(Coordinator::new(setting.shards));
        if setting.rumour {
            let (shard, incarnation) = (ShardId(0), Incarnation(1));
            coordinator.mailbox.push_back(ToCoordinator::Down { shard, incarnation });
        }
        Self {
            now: 0,
            ticks: setting.ticks,
            deaths: setting.deaths,
            orphans: setting.orphans,
            shards: (0..setting.shards).map(|_| Seat::new(Shard::new(setting.limits))).collect(),
            coordinator,
            dying: None,
            memory: Memory::new(&setting.limits, setting.shards),
            model: Vec::new(),
            clients: vec![client; setting.clients.len()],
            request: None,
            wrong: None,
        }
    }

    pub fn is_alive(&self, shard: usize) -> bool {
        self.shards[shard].machine.is_some()
    }

    /// Whether nobody is in the middle of anything.
    pub fn is_between_steps(&self) -> bool {
        let in_step = self.shards.iter().any(|seat| seat.step.is_some());
        !in_step && self.coordinator.step.is_none() && self.dying.is_none()
    }

    pub fn actions(&self, setting: &Setting, actions: &mut Vec<Action>) {
        if self.wrong.is_some() {
            return;
        }
        for shard in 0..self.shards.len() {
            self.shard_actions(shard, actions);
        }
        if self.coordinator.step.is_some() {
            actions.push(Action::CoordinatorGoesOn);
        } else if self.coordinator.machine.is_some() {
            if !self.coordinator.mailbox.is_empty() {
                actions.push(Action::Coordinate);
            }
            if self.orphans {
                actions.push(Action::Orphan);
            }
        }
        if self.dying.is_some() {
            actions.push(Action::Abandon);
        }
        if self.ticks > 0 && self.steps_are_of_this_tick() {
            actions.push(Action::Tick);
        }
        for client in 0..self.clients.len() {
            self.client_actions(setting, client, actions);
        }
    }

    /// Whether no step began before the last tick. No step outlives a lifetime, which is two ticks.
    fn steps_are_of_this_tick(&self) -> bool {
        let now = Millis(self.now);
        let shards = self.shards.iter().filter_map(|seat| seat.step.as_ref().map(|step| step.now));
        shards.chain(self.coordinator.step.as_ref().map(|step| step.now)).all(|began| began == now)
    }

    fn shard_actions(&self, shard: usize, actions: &mut Vec<Action>) {
        let seat = &self.shards[shard];
        if seat.step.is_some() {
            actions.push(Action::ShardGoesOn(shard));
        } else if seat.machine.is_some() {
            if !seat.mailbox.is_empty() {
                actions.push(Action::Deliver(shard));
            }
            if self.memory.published[shard].next_expiry <= Millis(self.now) {
                actions.push(Action::Sweep(shard));
            }
            if self.deaths > 0 && self.dying.is_none() {
                actions.push(Action::Die(shard));
            }
        }
    }

    fn client_actions(&self, setting: &Setting, client: usize, actions: &mut Vec<Action>) {
        let Client { progress, claim, .. } = self.clients[client];
        let free = self.shards[setting.shard_of(client).0].is_free();
        if progress == Progress::Idle {
            if free {
                actions.push(Action::Begin(client));
            }
            let entry = self.memory.index.get(&setting.begin(client).slot);
            if setting.hits && entry.is_some_and(|entry| Millis(self.now) < entry.expires) {
                actions.push(Action::Hit(client));
            }
        }
        match claim {
            Claim::Held(_) if free => {
                actions.extend(setting.ends.iter().map(|end| Action::Settle(client, *end)));
            }
            Claim::Settled(_) if free && setting.twice => {
                actions.push(Action::SettleAgain(client));
            }
            _ => {}
        }
    }

    /// What an action leads to.
    pub fn after(&self, store: &Store, action: Action) -> Self {
        let mut next = self.clone();
        match action {
            Action::Begin(client) => next.ask(store, client),
            Action::Hit(client) => next.hit(store, client),
            Action::Settle(client, end) => next.settle(store, client, end),
            Action::SettleAgain(client) => next.settle(store, client, End::Complete),
            Action::Deliver(shard) => {
                if let Some(message) = next.shards[shard].mailbox.pop_front() {
                    next.shard_takes(store, shard, message);
                }
            }
            Action::Sweep(shard) => next.shard_takes(store, shard, ToShard::Tick),
            Action::Coordinate => {
                if let Some(message) = next.coordinator.mailbox.pop_front() {
                    next.coordinator_takes(store, message);
                }
            }
            Action::ShardGoesOn(shard) => next.shard_goes_on(store, shard, 1),
            Action::CoordinatorGoesOn => next.coordinator_goes_on(store, 1, false),
            Action::Tick => {
                next.now += 1;
                next.ticks -= 1;
            }
            Action::Die(shard) => next.die(store, shard),
            Action::Abandon => next.abandon(),
            Action::Orphan => next.orphan(store),
        }
        next.look(store);
        next
    }

    /// Notes the first thing that is wrong.
    pub fn note(&mut self, property: &'static str, detail: String) {
        self.wrong.get_or_insert((property, detail));
    }

    fn ask(&mut self, store: &Store, client: usize) {
        let asked = &mut self.clients[client];
        (asked.progress, asked.asked_at) = (Progress::Asked, self.now);
        let begin = store.setting.begin(client);
        let message = ToShard::Begin { call: CallId(client as u64), begin };
        self.shard_takes(store, store.setting.shard_of(client).0, message);
    }

    fn settle(&mut self, store: &Store, client: usize, end: End) {
        let fence = match self.clients[client].claim {
            Claim::Held(fence) | Claim::Settled(fence) => fence,
            claim => unreachable!("{claim:?} cannot be settled"),
        };
        self.clients[client].claim = Claim::Settling(fence, end);
        let slot = store.setting.begin(client).slot;
        let settlement = settlement(client as u64, end);
        let message = ToShard::Settle { call: CallId(client as u64), slot, fence, settlement };
        self.shard_takes(store, store.setting.shard_of(client).0, message);
    }

    fn shard_takes(&mut self, store: &Store, shard: usize, message: ToShard) {
        let own = self.memory.published[shard];
        self.shards[shard].begin_step(message, Millis(self.now), own);
        match store.setting.grain {
            Grain::Message => {
                while self.shards[shard].step.is_some() {
                    self.shard_goes_on(store, shard, 1);
                }
            }
            // Where the clock can still advance, it may between its reading and the first access.
            Grain::Access => self.shard_goes_on(store, shard, usize::from(self.ticks == 0)),
        }
    }

    fn coordinator_takes(&mut self, store: &Store, message: ToCoordinator) {
        self.coordinator.begin_step(message, Millis(self.now), NOTHING);
        let at_once = self.ticks == 0 || matches!(message, ToCoordinator::Evicted { .. });
        match store.setting.grain {
            Grain::Message => {
                self.coordinator_goes_on(store, 1, true);
                while self.coordinator.step.is_some() {
                    self.coordinator_goes_on(store, 1, false);
                }
            }
            Grain::Access => self.coordinator_goes_on(store, usize::from(at_once), true),
        }
    }

    /// The slots that a client may still look up in the index.
    fn read(&self, setting: &Setting) -> BTreeSet<SlotKey> {
        let may_look = |(_, client): &(usize, &Client)| client.progress == Progress::Idle;
        let clients = self.clients.iter().enumerate().filter(|_| setting.hits).filter(may_look);
        clients.map(|(client, _)| setting.begin(client).slot).collect()
    }

    fn shard_goes_on(&mut self, store: &Store, shard: usize, accesses: usize) {
        let read = self.read(&store.setting);
        let id = Some(ShardId(shard));
        let part = self.shards[shard].go_on(id, &mut self.memory, &read, accesses);
        for decision in &part.decided {
            self.judge_shard(store, &part, decision);
        }
        if let Some(all) = part.finished {
            self.shard_is_done(store, shard, part.machine, all);
        }
    }

    fn shard_is_done(
        &mut self,
        store: &Store,
        shard: usize,
        machine: Shard,
        decisions: Vec<ShardDecision>,
    ) {
        let seat = &mut self.shards[shard];
        let (Some(step), Some(before)) = (seat.step.take(), seat.machine.take()) else {
            unreachable!("a step was under way");
        };
        let after = machine.seal();
        let clock = after.machine.now();
        seat.machine = Some(after.clone());
        let taken_again = decisions.iter().filter_map(|decision| match decision {
            ShardDecision::Begun { call, outcome: Outcome::Redispatched { .. } } => {
                Some(store.setting.begin(call.0 as usize))
            }
            _ => None,
        });
        let taken_again: Vec<_> = taken_again.collect();
        let (records, next) = (&before.records, &after.records);
        if let Err(violation) = p1_one_execution(records, next, clock, &taken_again) {
            self.note(violation.property, violation.detail);
        }
        for decision in decisions {
            match decision {
                ShardDecision::Settled { settled, .. } => {
                    store.coverage.note(Event::StaleSettle, settled == Settled::Stale);
                    let (before, after) = (&before.records, &after.records);
                    if let Err(violation) = p6_stale_changes_nothing(before, after, settled) {
                        self.note(violation.property, violation.detail);
                    }
                }
                ShardDecision::Send(report) => self.tell_coordinator(report),
                ShardDecision::Begun { .. } => {}
                ShardDecision::TickAgain => {
                    self.note("rest", format!("a handful of records fits {:?}", step.message));
                }
            }
        }
    }

    fn tell_coordinator(&mut self, report: ToCoordinator) {
        if self.coordinator.machine.is_some() {
            self.coordinator.mailbox.push_back(report);
        } else {
            self.lose_report(report);
        }
    }

    fn coordinator_goes_on(&mut self, store: &Store, accesses: usize, first: bool) {
        let read = BTreeSet::new();
        let part: Part<Coordinator> =
            self.coordinator.go_on(None, &mut self.memory, &read, accesses);
        if let Some(step) = self.coordinator.step.as_ref() {
            let message = step.message;
            if first {
                self.note_given_back(message, &part);
            }
            self.judge_coordinator(store, &part);
        }
        let Some(decisions) = part.finished else {
            return;
        };
        self.coordinator.step = None;
        self.coordinator.machine = Some(part.machine.seal());
        for decision in decisions {
            match decision {
                CoordinatorDecision::Again => {
                    // A cycle of states, which the search would not call a failure.
                    if store.setting.grain == Grain::Message {
                        self.note("steady", "it looks again though nobody is in a step".into());
                    }
                    self.tell_coordinator(ToCoordinator::Again);
                }
                CoordinatorDecision::Send { shard, message } => {
                    if self.is_alive(shard.0) {
                        self.shards[shard.0].mailbox.push_back(message);
                    } else {
                        self.lose_answer(&message);
                    }
                }
            }
        }
    }

    /// A shard dies: its state and its mailbox are gone, what it had sent arrives.
    fn die(&mut self, store: &Store, victim: usize) {
        store.coverage.note(Event::Death, true);
        self.deaths -= 1;
        let seat = &mut self.shards[victim];
        let messages = std::mem::take(&mut seat.mailbox);
        let Some(sealed) = seat.machine.take() else {
            unreachable!("only the living die");
        };
        self.lose_shard(store, victim, &sealed.records, messages);
        self.dying = Some((victim, 0));
        if store.setting.grain == Grain::Message {
            while self.dying.is_some() {
                self.abandon();
            }
        }
    }

    /// The accesses of `ShardLedger::abandon`, then the message.
    fn abandon(&mut self) {
        let Some((victim, stage)) = self.dying.take() else {
            return;
        };
        match stage {
            0 => self.memory.forget(victim),
            1 => self.memory.published[victim].oldest = None,
            2 => self.memory.published[victim].next_expiry = Millis::NEVER,
            _ => {
                let incarnation = Incarnation::default();
                return self
                    .tell_coordinator(ToCoordinator::Down { shard: ShardId(victim), incarnation });
            }
        }
        self.dying = Some((victim, stage + 1));
    }

    /// The coordinator dies: its mailbox is gone, and every shard is told.
    fn orphan(&mut self, store: &Store) {
        store.coverage.note(Event::Orphaned, true);
        self.orphans = false;
        self.coordinator.machine = None;
        for message in std::mem::take(&mut self.coordinator.mailbox) {
            self.lose_report(message);
        }
        for seat in self.shards.iter_mut().filter(|seat| seat.machine.is_some()) {
            seat.mailbox.push_back(ToShard::Orphaned);
        }
    }

    /// Whether a client has nothing more to do or to hear.
    pub fn is_over(&self, setting: &Setting, client: usize) -> bool {
        let Client { progress, claim, .. } = self.clients[client];
        let settled = match claim {
            Claim::None | Claim::Over => true,
            Claim::Settled(_) => !setting.twice,
            Claim::Held(_) | Claim::Settling(..) => false,
        };
        let dead = !self.is_alive(setting.shard_of(client).0);
        settled && (dead || matches!(progress, Progress::Answered | Progress::Lost))
    }
}

/// The model keeps its records in the order of their claims, so that equal ones are equal.
pub fn in_order(mut model: Vec<Record>) -> Vec<Record> {
    model.sort_unstable_by_key(|record| record.claim);
    model
}
