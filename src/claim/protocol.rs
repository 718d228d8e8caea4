//! What is said to and by the machines: begins and settles, and the messages between shards and
//! the coordinator (STORE section 3). All of it plain data.

use std::sync::Arc;

use super::{
    CapacityLimit, CompletionSeq, DispatchHash, Fence, Millis, PrincipalId, Reply, RequestHash,
    ScopeId, SlotKey, TombstoneReason,
};

/// What a begin is asked for. No raw key: a store sees digests only. The principal is a function
/// of the scope and of the slot: both digests cover it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Begin {
    /// The slot.
    pub slot: SlotKey,
    /// Whose innermost quota it counts against.
    pub scope: ScopeId,
    /// Whose middle quota it counts against.
    pub principal: PrincipalId,
    /// What was asked; another hash on a held slot is a conflict.
    pub hash: RequestHash,
    /// Where the call would go.
    pub dispatch: Dispatch,
}

/// Where the call of a begin would go, for tools that declare it (EFFECTS section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dispatch {
    /// Binding and target; `None` for a tool without an effect spec.
    pub hash: Option<DispatchHash>,
    /// When a record of another one is in the way.
    pub pin: Pin,
    /// Whether a tombstone of an unknown outcome may be taken again under the same hashes
    /// (`on_unknown: redispatch`).
    pub redispatch: bool,
}

impl Dispatch {
    /// Of a tool that declares nothing.
    pub const UNDECLARED: Self = Self { hash: None, pin: Pin::Free, redispatch: false };
}

/// When a record that was claimed for another [`DispatchHash`] refuses a begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Pin {
    /// Never; only a redispatch compares (scope `session`).
    #[default]
    Free,
    /// While it has no reply: a completed record is replayed with its old route (capabilities).
    Open,
    /// Always (scope `workspace`).
    Always,
}

/// How a claim ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Settlement {
    /// The reply is kept and replayed.
    Complete(Arc<Reply>),
    /// Nothing is replayed and nothing executed while the tombstone stands.
    Tombstone(TombstoneReason),
    /// The slot is free again: nothing was executed.
    Release,
}

/// The answer to a settle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Settled {
    /// The record changed as asked.
    Done,
    /// The ticket is no longer the record's; nothing changed.
    Stale,
}

/// The shell's name for one begin or settle that awaits its answer; unique within its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// The place of a shard, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub usize);

/// One life of a shard; a shard that is rebuilt gets another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Incarnation(pub u32);

/// A request of the coordinator, so that only its own answer ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A begin that waits at the coordinator for room in the store. It holds no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The shard that asks.
    pub shard: ShardId,
    /// Its call.
    pub call: CallId,
    /// Its principal; at most one begin of a principal waits at the coordinator.
    pub principal: PrincipalId,
}

/// What a shard is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ToShard {
    /// Take a slot, or say what holds it.
    Begin {
        /// Whom to answer.
        call: CallId,
        /// What is asked.
        begin: Begin,
    },
    /// End a claim.
    Settle {
        /// Whom to answer.
        call: CallId,
        /// The claimed slot.
        slot: SlotKey,
        /// The generation of the claim.
        fence: Fence,
        /// How it ends.
        settlement: Settlement,
    },
    /// The coordinator: admit a waiter in the place of your oldest completed record, if that one's
    /// number is at most `bound`.
    Evict {
        /// Which request is to be answered.
        request: RequestId,
        /// On whose behalf.
        waiter: Waiter,
        /// What no other shard's oldest can be below.
        bound: CompletionSeq,
    },
    /// The coordinator: sweep what was due at `now`.
    Sweep {
        /// Which request is to be answered.
        request: RequestId,
        /// The coordinator's clock, so that what it saw due is due here too.
        now: Millis,
    },
    /// The coordinator: what became of a waiting begin.
    Answer {
        /// Whose begin.
        waiter: Waiter,
        /// What became of it.
        verdict: Verdict,
    },
    /// A timer: sweep a batch.
    Tick,
    /// The coordinator is lost: whoever waits or would wait is answered unavailable.
    Orphaned,
}

/// What the coordinator is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToCoordinator {
    /// A begin needs room in a full store.
    Ask(Waiter),
    /// The answer to [`ToShard::Evict`].
    Evicted {
        /// Which request.
        request: RequestId,
        /// What came of it.
        answer: EvictAnswer,
    },
    /// The answer to [`ToShard::Sweep`].
    Swept {
        /// Which request.
        request: RequestId,
    },
    /// A shard has died.
    Down {
        /// Which shard.
        shard: ShardId,
        /// Which of its lives ended.
        incarnation: Incarnation,
    },
    /// Its own: look again.
    Again,
}

/// What came of an eviction on a waiter's behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EvictAnswer {
    /// The waiter is admitted, in the place of the oldest record.
    Evicted,
    /// The waiter is admitted; there was room by then, and nothing was evicted.
    Admitted,
    /// The in-flight cap of the store is reached.
    InFlightFull,
    /// The oldest is not known to be the store's oldest any more: look again.
    Stale,
}

/// What became of a waiting begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It has a permit of the store.
    Admitted,
    /// This cap refuses it.
    Refused(CapacityLimit),
    /// Nobody can decide it now.
    Unavailable,
}

/// What a begin found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The slot was free and is now in flight under this fence.
    First(Fence),
    /// The slot held a tombstone of an unknown outcome, and is in flight again: a redispatch.
    Redispatched {
        /// The generation of the new claim.
        fence: Fence,
        /// The generation of the claim that ended as unknown.
        before: Fence,
    },
    /// Completed under the same hash.
    Replay(Arc<Reply>),
    /// Any record under another hash.
    Conflict,
    /// A record under the same hash that was claimed for another destination ([`Pin`]).
    OtherRoute,
    /// In flight under the same hash.
    InFlight,
    /// A tombstone under the same hash.
    Tombstone(TombstoneReason),
    /// No room.
    Capacity(CapacityLimit),
    /// Too many wait, or the coordinator is lost; nothing was decided.
    Unavailable,
}

/// What a shard decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ShardDecision {
    /// A begin is answered.
    Begun {
        /// Whose.
        call: CallId,
        /// What it found.
        outcome: Outcome,
    },
    /// A settle is answered.
    Settled {
        /// Whose.
        call: CallId,
        /// What came of it.
        settled: Settled,
    },
    /// Tell the coordinator.
    Send(ToCoordinator),
    /// More is due than one sweep takes: tick again soon.
    TickAgain,
}

/// What the coordinator decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CoordinatorDecision {
    /// Tell a shard.
    Send {
        /// Which shard.
        shard: ShardId,
        /// What.
        message: ToShard,
    },
    /// Deliver [`ToCoordinator::Again`] to the coordinator, after what has already arrived.
    Again,
}
