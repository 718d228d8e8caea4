//! What the machines share, and each access to it as a point where others may come in between.
//!
//! A machine's step is a function of the machine, its message and what it sees in shared memory.
//! So a step can be taken access by access without touching the machine: it is run again from its
//! beginning with what it saw so far, takes one access more, and is left where it asks for the
//! next. The accesses are those of `onceward::ledger`, one for each atomic operation; loom checks
//! that the atomics give what is assumed here, a single order of all accesses.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::Arc;

use onceward::claim::counts::{Counts, Full, InFlightFull, Room, StoreCaps};
use onceward::claim::protocol::ShardId;
use onceward::claim::shared::{Home, Shared};
use onceward::claim::{Completion, CompletionSeq, Limits, Millis, SlotKey};

/// What one shard publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Published {
    pub oldest: Option<CompletionSeq>,
    pub next_expiry: Millis,
}

/// All that is shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Memory {
    caps: StoreCaps,
    pub counts: Counts,
    completions: u64,
    pub published: Vec<Published>,
    /// The completed records that each shard counts beside the word, for its own death.
    own_completed: Vec<u32>,
    pub index: BTreeMap<SlotKey, Arc<Completion>>,
}

impl Memory {
    pub fn new(limits: &Limits, shards: usize) -> Self {
        Self {
            caps: limits.into(),
            counts: Counts::default(),
            completions: 0,
            published: vec![Published { oldest: None, next_expiry: Millis::NEVER }; shards],
            own_completed: vec![0; shards],
            index: BTreeMap::new(),
        }
    }

    /// A shard has died: the first of three accesses, in the order of `ShardLedger::abandon`.
    pub fn forget(&mut self, shard: usize) {
        self.counts = self.counts.forget(std::mem::take(&mut self.own_completed[shard]));
    }
}

/// What an access saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seen {
    Nothing,
    Counts(Counts),
    Start(Result<(), Full>),
    Evict(Result<(), InFlightFull>),
    Room(Result<Room, InFlightFull>),
    Redispatch(Result<(), InFlightFull>),
    Seq(CompletionSeq),
    Oldest(Option<CompletionSeq>),
    Expiry(Millis),
}

/// Thrown where a step is left.
pub struct Paused;

/// One run of a step.
pub struct Access<'m> {
    shard: Option<ShardId>,
    /// Slots that somebody may still look up in the index.
    read: &'m BTreeSet<SlotKey>,
    run: RefCell<Run<'m>>,
}

struct Run<'m> {
    memory: &'m mut Memory,
    log: &'m mut Vec<Seen>,
    at: usize,
    /// How many accesses may be taken beyond those in the log.
    left: usize,
    /// What this shard last published, as at this point of its step.
    own: Published,
    hidden: Option<SlotKey>,
    evicted: Option<SlotKey>,
}

impl<'m> Access<'m> {
    /// A run that takes up to `left` accesses beyond those in `log`. `own` is what the shard had
    /// published when its step began.
    pub fn new(
        shard: Option<ShardId>,
        memory: &'m mut Memory,
        log: &'m mut Vec<Seen>,
        own: Published,
        read: &'m BTreeSet<SlotKey>,
        left: usize,
    ) -> Self {
        let run = Run { memory, log, at: 0, left, own, hidden: None, evicted: None };
        Self { shard, read, run: RefCell::new(run) }
    }

    /// The record that was evicted by an access beyond the log.
    pub fn evicted(&self) -> Option<SlotKey> {
        self.run.borrow().evicted
    }

    /// An access before which others may come in.
    fn access(&self, act: impl FnOnce(&mut Memory) -> Seen) -> Seen {
        self.take(true, act)
    }

    /// The point before the messages of a step are sent.
    pub fn before_sending(&self) {
        self.access(|_| Seen::Nothing);
    }

    fn take(&self, alone: bool, act: impl FnOnce(&mut Memory) -> Seen) -> Seen {
        let mut run = self.run.borrow_mut();
        if let Some(seen) = run.log.get(run.at).copied() {
            run.at += 1;
            return seen;
        }
        if alone && run.left == 0 {
            drop(run);
            resume_unwind(Box::new(Paused));
        }
        run.left -= usize::from(alone);
        let seen = act(run.memory);
        run.log.push(seen);
        run.at += 1;
        if matches!(seen, Seen::Evict(Ok(())) | Seen::Room(Ok(Room::Evicted))) {
            run.evicted = run.hidden;
        }
        seen
    }

    fn me(&self) -> ShardId {
        self.shard.expect("only shards have a home")
    }

    fn set_oldest(&self, oldest: Option<CompletionSeq>) {
        if self.run.borrow().own.oldest != oldest {
            let me = self.me().0;
            self.access(|memory| {
                memory.published[me].oldest = oldest;
                Seen::Nothing
            });
            self.run.borrow_mut().own.oldest = oldest;
        }
    }

    fn set_next_expiry(&self, next_expiry: Millis) {
        if self.run.borrow().own.next_expiry != next_expiry {
            let me = self.me().0;
            self.access(|memory| {
                memory.published[me].next_expiry = next_expiry;
                Seen::Nothing
            });
            self.run.borrow_mut().own.next_expiry = next_expiry;
        }
    }

    fn lower_next_expiry(&self, expires: Millis) {
        let next = self.run.borrow().own.next_expiry.min(expires);
        self.set_next_expiry(next);
    }
}

macro_rules! saw {
    ($seen:expr, $kind:ident) => {
        match $seen {
            Seen::$kind(value) => value,
            other => panic!("a step that is run again takes another way: {other:?}"),
        }
    };
}

impl Shared for Access<'_> {
    fn counts(&self) -> Counts {
        saw!(self.access(|memory| Seen::Counts(memory.counts)), Counts)
    }

    fn start(&mut self) -> Result<(), Full> {
        let act = |memory: &mut Memory| {
            let next = memory.counts.start(memory.caps);
            Seen::Start(next.map(|next| memory.counts = next))
        };
        saw!(self.access(act), Start)
    }

    fn release(&mut self) {
        self.access(|memory| {
            memory.counts = memory.counts.release();
            Seen::Nothing
        });
    }

    fn next_completion(&self) -> CompletionSeq {
        saw!(self.access(|memory| Seen::Seq(CompletionSeq(memory.completions))), Seq)
    }

    fn shards(&self) -> usize {
        self.run.borrow().memory.published.len()
    }

    fn oldest(&self, shard: ShardId) -> Option<CompletionSeq> {
        saw!(self.access(|memory| Seen::Oldest(memory.published[shard.0].oldest)), Oldest)
    }

    fn next_expiry(&self, shard: ShardId) -> Millis {
        saw!(self.access(|memory| Seen::Expiry(memory.published[shard.0].next_expiry)), Expiry)
    }
}

impl Home for Access<'_> {
    fn shard(&self) -> ShardId {
        self.me()
    }

    fn evict(&mut self) -> Result<(), InFlightFull> {
        let me = self.me().0;
        let act = |memory: &mut Memory| {
            let next = memory.counts.evict(memory.caps);
            Seen::Evict(next.map(|next| {
                memory.counts = next;
                memory.own_completed[me] -= 1;
            }))
        };
        saw!(self.access(act), Evict)
    }

    fn start_or_evict(&mut self) -> Result<Room, InFlightFull> {
        let me = self.me().0;
        let act = |memory: &mut Memory| {
            let next = memory.counts.start_or_evict(memory.caps);
            Seen::Room(next.map(|(next, room)| {
                memory.counts = next;
                memory.own_completed[me] -= u32::from(room == Room::Evicted);
                room
            }))
        };
        saw!(self.access(act), Room)
    }

    fn redispatch(&mut self) -> Result<(), InFlightFull> {
        let act = |memory: &mut Memory| {
            let next = memory.counts.redispatch(memory.caps);
            Seen::Redispatch(next.map(|next| memory.counts = next))
        };
        saw!(self.access(act), Redispatch)
    }

    fn complete(&mut self, expires: Millis) -> CompletionSeq {
        let me = self.me().0;
        if self.run.borrow().own.oldest.is_none() {
            let bound = self.next_completion();
            self.set_oldest(Some(bound));
        }
        self.lower_next_expiry(expires);
        let draw = |memory: &mut Memory| {
            memory.completions += 1;
            Seen::Seq(CompletionSeq(memory.completions - 1))
        };
        let seq = saw!(self.access(draw), Seq);
        self.access(|memory| {
            memory.counts = memory.counts.complete();
            memory.own_completed[me] += 1;
            Seen::Nothing
        });
        seq
    }

    fn tombstone(&mut self, expires: Millis) {
        self.lower_next_expiry(expires);
        self.access(|memory| {
            memory.counts = memory.counts.tombstone();
            Seen::Nothing
        });
    }

    fn sweep(&mut self, records: u32, completed: u32) {
        let me = self.me().0;
        self.access(|memory| {
            memory.counts = memory.counts.sweep(records, completed);
            memory.own_completed[me] -= completed;
            Seen::Nothing
        });
    }

    fn publish(&mut self, oldest: Option<CompletionSeq>, next_expiry: Millis) {
        self.set_oldest(oldest);
        self.set_next_expiry(next_expiry);
    }

    /// Not a point of its own: who misses an entry asks the shard, as anybody may at any time.
    fn show(&mut self, completion: &Arc<Completion>) {
        self.take(false, |memory| {
            memory.index.insert(completion.claim.slot, Arc::clone(completion));
            Seen::Nothing
        });
    }

    fn hide(&mut self, slot: SlotKey) {
        self.take(self.read.contains(&slot), |memory| {
            memory.index.remove(&slot);
            Seen::Nothing
        });
        self.run.borrow_mut().hidden = Some(slot);
    }
}
