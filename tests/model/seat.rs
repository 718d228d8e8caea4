//! An actor: its machine, its mailbox, and the step that it is in.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use onceward::claim::coordinator::Coordinator;
use onceward::claim::invariant::{GroupView, RecordView};
use onceward::claim::protocol::{
    CoordinatorDecision, ShardDecision, ShardId, ToCoordinator, ToShard,
};
use onceward::claim::shard::Shard;
use onceward::claim::{Millis, SlotKey};

use crate::memory::{Access, Memory, Paused, Published, Seen};

/// What the model needs of a machine.
pub trait Machine: Clone + Eq + Hash {
    type Message: Clone;
    type Decision;

    fn run(
        &mut self,
        now: Millis,
        message: Self::Message,
        access: &mut Access<'_>,
        out: &mut Vec<Self::Decision>,
    );

    /// Whether a decision puts something into the mailbox of the coordinator, where it matters who
    /// comes first.
    fn tells_coordinator(decision: &Self::Decision) -> bool;
}

impl Machine for Shard {
    type Message = ToShard;
    type Decision = ShardDecision;

    fn run(
        &mut self,
        now: Millis,
        message: ToShard,
        access: &mut Access<'_>,
        out: &mut Vec<ShardDecision>,
    ) {
        self.step(now, message, access, out);
    }

    fn tells_coordinator(decision: &ShardDecision) -> bool {
        matches!(decision, ShardDecision::Send(_))
    }
}

impl Machine for Coordinator {
    type Message = ToCoordinator;
    type Decision = CoordinatorDecision;

    fn run(
        &mut self,
        now: Millis,
        message: ToCoordinator,
        access: &mut Access<'_>,
        out: &mut Vec<CoordinatorDecision>,
    ) {
        self.step(now, message, access, out);
    }

    fn tells_coordinator(decision: &CoordinatorDecision) -> bool {
        matches!(decision, CoordinatorDecision::Again)
    }
}

/// A machine at rest, with its hash, so that it is walked once and not for every state it is in.
#[derive(Debug)]
pub struct Sealed<M> {
    pub machine: M,
    pub records: Vec<RecordView>,
    pub groups: Vec<GroupView>,
    hash: u64,
}

impl<M: Hash> Sealed<M> {
    fn new(machine: M, records: Vec<RecordView>, groups: Vec<GroupView>) -> Self {
        let mut hasher = DefaultHasher::new();
        machine.hash(&mut hasher);
        Self { hash: hasher.finish(), machine, records, groups }
    }
}

impl<M: Eq> PartialEq for Sealed<M> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.machine == other.machine
    }
}

impl<M: Eq> Eq for Sealed<M> {}

impl<M> Hash for Sealed<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// Machines with and without records.
pub trait Seal: Sized {
    fn seal(self) -> Arc<Sealed<Self>>;
}

impl Seal for Shard {
    fn seal(self) -> Arc<Sealed<Self>> {
        let (records, groups) = (self.records(), self.groups());
        Arc::new(Sealed::new(self, records, groups))
    }
}

impl Seal for Coordinator {
    fn seal(self) -> Arc<Sealed<Self>> {
        Arc::new(Sealed::new(self, Vec::new(), Vec::new()))
    }
}

/// A step that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step<T> {
    pub message: T,
    /// The clock, as read when the message was taken.
    pub now: Millis,
    /// What was published when the step began.
    own: Published,
    log: Vec<Seen>,
    /// How many of its decisions were looked at.
    decided: usize,
}

/// One actor. Without a machine it is dead.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seat<M: Machine + Seal, T> {
    pub machine: Option<Arc<Sealed<M>>>,
    pub mailbox: VecDeque<T>,
    pub step: Option<Step<T>>,
}

/// What one part of a step came to.
pub struct Part<M: Machine> {
    /// The machine as it is by now.
    pub machine: M,
    /// What it decided in this part.
    pub decided: Vec<M::Decision>,
    /// The record that it evicted in this part.
    pub evicted: Option<SlotKey>,
    /// All that it decided, when this was the last part.
    pub finished: Option<Vec<M::Decision>>,
}

impl<M, T> Seat<M, T>
where
    M: Machine<Message = T> + Seal,
    M::Decision: Clone,
    T: Clone,
{
    pub fn new(machine: M) -> Self {
        Self { machine: Some(machine.seal()), mailbox: VecDeque::new(), step: None }
    }

    /// Whether a message can be taken.
    pub fn is_free(&self) -> bool {
        self.machine.is_some() && self.step.is_none()
    }

    pub fn begin_step(&mut self, message: T, now: Millis, own: Published) {
        self.step = Some(Step { message, now, own, log: Vec::new(), decided: 0 });
    }

    /// Takes up to `accesses` more accesses of the step that it is in.
    pub fn go_on(
        &mut self,
        shard: Option<ShardId>,
        memory: &mut Memory,
        read: &BTreeSet<SlotKey>,
        accesses: usize,
    ) -> Part<M> {
        let step = self.step.as_mut().expect("only who is in a step goes on");
        let sealed = self.machine.as_ref().expect("only the living are in a step");
        let mut machine = sealed.machine.clone();
        let mut out = Vec::new();
        let mut access = Access::new(shard, memory, &mut step.log, step.own, read, accesses);
        let run = catch_unwind(AssertUnwindSafe(|| {
            machine.run(step.now, step.message.clone(), &mut access, &mut out);
            if out.iter().any(M::tells_coordinator) {
                access.before_sending();
            }
        }));
        let finished = match run {
            Ok(()) => true,
            Err(thrown) if thrown.is::<Paused>() => false,
            Err(panic) => resume_unwind(panic),
        };
        let evicted = access.evicted();
        let decided = out[step.decided..].to_vec();
        step.decided = out.len();
        Part { machine, decided, evicted, finished: finished.then_some(out) }
    }
}
