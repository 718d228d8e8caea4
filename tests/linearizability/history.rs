//! What was asked of a store and what it said, with when.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use onceward::claim::{CapacityLimit, Dispatch};
use onceward::store::Clock;

use crate::clock::ManualClock;
use crate::naive::End;

/// What a caller can tell of the answer to a begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// A redispatch is one too.
    First,
    /// The reply of this claim.
    Replay(u64),
    Conflict,
    OtherRoute,
    InFlight,
    Tombstone {
        unknown: bool,
    },
    Capacity(CapacityLimit),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A begin on a slot with a request, by number; the operation's own number is its claim's.
    Begin { slot: u8, hash: u8, dispatch: Dispatch },
    /// The settle of a claim.
    Settle { claim: u64, end: End },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Begun(Told),
    /// Whether it changed anything.
    Settled(bool),
    /// Nobody waited for one: the operation takes effect at any time from its call on, or never.
    /// A begin that was given up is released if it wins its claim.
    None,
}

/// One operation. Times are places in the order of all calls and returns; clocks are those of the
/// store, read before the call and after the return.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    pub number: u64,
    pub call: Call,
    pub answer: Answer,
    pub called: u64,
    pub returned: u64,
    pub clock: (u64, u64),
}

impl Operation {
    /// Whether another one was called or returned between this one's call and its return.
    pub fn overlaps(&self) -> bool {
        self.returned - self.called > 1
    }
}

/// When an operation without an answer returns.
pub const NEVER: u64 = u64::MAX;

/// Takes down operations from many threads.
pub struct Recorder<'c> {
    clock: &'c ManualClock,
    time: AtomicU64,
    number: AtomicU64,
    operations: Mutex<Vec<Operation>>,
}

/// A call under way.
pub struct Pending {
    pub number: u64,
    call: Call,
    called: u64,
    clock: u64,
}

impl<'c> Recorder<'c> {
    pub fn new(clock: &'c ManualClock) -> Self {
        let (time, number) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { clock, time, number, operations: Mutex::default() }
    }

    pub fn call(&self, call: Call) -> Pending {
        let number = self.number.fetch_add(1, Ordering::SeqCst);
        let clock = self.clock.now().0;
        Pending { number, call, called: self.time.fetch_add(1, Ordering::SeqCst), clock }
    }

    pub fn returned(&self, pending: Pending, answer: Answer) {
        let returned = self.time.fetch_add(1, Ordering::SeqCst);
        let clock = (pending.clock, self.clock.latest());
        self.keep(pending, answer, returned, clock);
    }

    /// Nobody waits for the answer.
    pub fn given_up(&self, pending: Pending) {
        let clock = (pending.clock, NEVER);
        self.keep(pending, Answer::None, NEVER, clock);
    }

    fn keep(&self, pending: Pending, answer: Answer, returned: u64, clock: (u64, u64)) {
        let Pending { number, call, called, .. } = pending;
        let operation = Operation { number, call, answer, called, returned, clock };
        self.operations.lock().expect("no recorder panics").push(operation);
    }

    /// The history, in the order of its calls.
    pub fn history(self) -> Vec<Operation> {
        let now = self.clock.now().0;
        let mut operations = self.operations.into_inner().expect("no recorder panics");
        for operation in &mut operations {
            operation.clock.1 = operation.clock.1.min(now);
        }
        operations.sort_unstable_by_key(|operation| operation.called);
        operations
    }
}
