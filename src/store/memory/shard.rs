//! The actor of one shard: a shell that gives the machine its clock and its messages, and carries
//! out what it decides. Its handlers are synchronous; it waits for nobody.

use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::coordinator::CoordinatorInput;
use super::delivery::Delivery;
use super::directory::Directory;
use super::read_index::ReadIndex;
use super::receipts::{ClaimOf, Receipts};
use super::supervision::Health;
use crate::claim::protocol::{
    CallId, Incarnation, Outcome, ShardDecision, ShardId, ToCoordinator, ToShard,
};
use crate::claim::shard::Shard;
use crate::claim::shared::Home;
use crate::claim::{Begin, Fence, Limits, Settled, Settlement, SlotKey, TombstoneReason};
use crate::ledger::ShardLedger;
use crate::mailbox::{Actor, Next};
use crate::store::receipt::ReceiptOutcome;
use crate::store::{Clock, Notes, Receipt};

/// What a shard actor is sent.
#[derive(Debug)]
pub(super) enum ShardInput {
    Begin {
        begin: Begin,
        /// What the claim's receipt will be.
        receipt: Option<Arc<Receipt>>,
        reply: oneshot::Sender<Delivery>,
        /// Given back when the message leaves the mailbox.
        in_mailbox: OwnedSemaphorePermit,
    },
    Settle {
        slot: SlotKey,
        fence: Fence,
        settlement: Settlement,
        /// What the claim's receipt is told.
        notes: Notes,
        reply: Option<oneshot::Sender<Settled>>,
    },
    Protocol(ToShard),
    /// Say so once no begin waits.
    Drain(oneshot::Sender<()>),
    Stop(oneshot::Sender<()>),
    /// Say what you hold, to whom wants to know, and fail.
    #[cfg(test)]
    Crash(Option<std::sync::mpsc::Sender<Vec<crate::claim::invariant::RecordView>>>),
    /// Say that you stand still, and do so until the other end is gone.
    #[cfg(test)]
    Stall(std::sync::mpsc::Sender<()>, std::sync::mpsc::Receiver<()>),
}

/// Whom a call answers.
#[derive(Debug)]
enum Caller {
    Begin { slot: SlotKey, receipt: Option<Arc<Receipt>>, reply: oneshot::Sender<Delivery> },
    Settle { closing: Closing, reply: Option<oneshot::Sender<Settled>> },
}

/// What the receipt of a claim is told when the claim has settled.
#[derive(Debug)]
struct Closing {
    fence: Fence,
    notes: Notes,
    outcome: ReceiptOutcome,
}

/// The shell of one shard.
pub(super) struct ShardActor {
    machine: Shard,
    home: ShardLedger<Arc<ReadIndex>>,
    shard: ShardId,
    clock: Arc<dyn Clock>,
    health: Arc<Health>,
    receipts: Arc<Receipts>,
    directory: Weak<Directory>,
    next_call: u64,
    /// Those whose begin waits for the coordinator.
    callers: HashMap<CallId, Caller>,
    draining: Vec<oneshot::Sender<()>>,
    stopped: bool,
    /// Kept for its allocation; empty between two steps.
    decisions: Vec<ShardDecision>,
}

impl ShardActor {
    pub(super) fn new(
        limits: Limits,
        home: ShardLedger<Arc<ReadIndex>>,
        clock: Arc<dyn Clock>,
        health: Arc<Health>,
        receipts: Arc<Receipts>,
        directory: Weak<Directory>,
    ) -> Self {
        Self {
            machine: Shard::new(limits),
            shard: home.shard(),
            home,
            clock,
            health,
            receipts,
            directory,
            next_call: 0,
            callers: HashMap::new(),
            draining: Vec::new(),
            stopped: false,
            decisions: Vec::new(),
        }
    }

    fn call(&mut self) -> CallId {
        let call = CallId(self.next_call);
        self.next_call += 1;
        call
    }

    /// Takes a step that `caller` asked for. Most are answered in it, without being remembered.
    fn step_for(&mut self, call: CallId, caller: Caller, message: ToShard) {
        let mut caller = Some(caller);
        let mut take = |asked| if asked == call { caller.take() } else { None };
        self.decide(message, &mut take);
        if let Some(caller) = caller {
            self.callers.insert(call, caller);
        }
    }

    fn step(&mut self, message: ToShard) {
        self.decide(message, &mut |_| None);
        if self.machine.is_idle() {
            for done in self.draining.drain(..) {
                // Whoever drains may have given up.
                let _ = done.send(());
            }
        }
    }

    fn decide(&mut self, message: ToShard, current: &mut dyn FnMut(CallId) -> Option<Caller>) {
        let mut decisions = std::mem::take(&mut self.decisions);
        self.machine.step(self.clock.now(), message, &mut self.home, &mut decisions);
        for decision in decisions.drain(..) {
            self.carry_out(decision, current);
        }
        self.decisions = decisions;
    }

    fn carry_out(
        &mut self,
        decision: ShardDecision,
        current: &mut dyn FnMut(CallId) -> Option<Caller>,
    ) {
        match decision {
            ShardDecision::Begun { call, outcome } => {
                let caller = current(call).or_else(|| self.callers.remove(&call));
                self.answer_begin(caller, outcome);
            }
            ShardDecision::Settled { call, settled } => {
                if let Some(Caller::Settle { closing, reply }) = current(call) {
                    if settled == Settled::Done {
                        self.close(closing);
                    }
                    // A settle has landed whether or not anybody still waits to hear of it.
                    let _ = reply.map(|reply| reply.send(settled));
                }
            }
            ShardDecision::Send(message) => {
                if let Some(directory) = self.directory.upgrade() {
                    directory.tell_coordinator(CoordinatorInput::Protocol(message));
                }
            }
            ShardDecision::TickAgain => {
                if let Some(directory) = self.directory.upgrade() {
                    directory.tell_shard(self.shard.0, ShardInput::Protocol(ToShard::Tick));
                }
            }
        }
    }

    fn answer_begin(&self, caller: Option<Caller>, outcome: Outcome) {
        if let Some(Caller::Begin { slot, receipt, reply }) = caller
            && let Some(directory) = self.directory.upgrade()
        {
            let attempt = self.open(&outcome, receipt);
            // Not received, it comes back and is dropped here, which releases a claim.
            drop(reply.send(Delivery::new(outcome, slot, self.shard.0, attempt, directory)));
        }
    }

    /// Opens the receipt of a claim, or goes on with one. Says which attempt is reserved with it.
    fn open(&self, outcome: &Outcome, receipt: Option<Arc<Receipt>>) -> u32 {
        let now = self.machine.now();
        match *outcome {
            Outcome::First(fence) => {
                self.receipts.open(self.claim(fence), receipt, now);
                1
            }
            Outcome::Redispatched { fence, before } => {
                self.receipts.go_on(self.claim(fence), before, receipt, now)
            }
            _ => 1,
        }
    }

    fn close(&self, closing: Closing) {
        let Closing { fence, notes, outcome } = closing;
        self.receipts.settle(self.claim(fence), &notes, outcome);
    }

    fn claim(&self, fence: Fence) -> ClaimOf {
        ClaimOf { home: self.shard.0, fence }
    }
}

impl Actor for ShardActor {
    type Message = ShardInput;

    fn handle(&mut self, input: ShardInput) -> Next {
        match input {
            ShardInput::Begin { begin, receipt, reply, in_mailbox } => {
                drop(in_mailbox);
                let call = self.call();
                let caller = Caller::Begin { slot: begin.slot, receipt, reply };
                self.step_for(call, caller, ToShard::Begin { call, begin });
            }
            ShardInput::Settle { slot, fence, settlement, notes, reply } => {
                let call = self.call();
                let closing = Closing { fence, notes, outcome: outcome_of(&settlement) };
                let message = ToShard::Settle { call, slot, fence, settlement };
                self.step_for(call, Caller::Settle { closing, reply }, message);
            }
            ShardInput::Protocol(message) => self.step(message),
            ShardInput::Drain(done) => {
                self.draining.push(done);
                self.step(ToShard::Tick);
            }
            ShardInput::Stop(done) => {
                self.stopped = true;
                // Whoever stops the store may have given up.
                let _ = done.send(());
                return Next::End;
            }
            #[cfg(test)]
            ShardInput::Crash(census) => {
                if let Some(census) = census {
                    census.send(self.machine.records()).expect("the test listens");
                }
                panic!("a test asked this shard to fail");
            }
            #[cfg(test)]
            ShardInput::Stall(standing, until) => {
                standing.send(()).expect("the test listens");
                let _ = until.recv();
            }
        }
        Next::Continue
    }
}

/// What a receipt says of a claim that ends so, unless a redispatch went before.
fn outcome_of(settlement: &Settlement) -> ReceiptOutcome {
    match settlement {
        Settlement::Complete(_) => ReceiptOutcome::Completed,
        Settlement::Tombstone(TombstoneReason::Unknown) => ReceiptOutcome::Unknown,
        Settlement::Tombstone(TombstoneReason::NotReplayable) => ReceiptOutcome::NotReplayable,
        Settlement::Release => ReceiptOutcome::Released,
    }
}

/// Dropped without having been stopped, the shard has failed: a handler panicked. Its permits stay counted, its completed records leave the count of what can be evicted, and
/// its callers learn of it as their reply channels go with it.
impl Drop for ShardActor {
    fn drop(&mut self) {
        if self.stopped {
            return;
        }
        self.health.shard_is_down(self.shard.0);
        self.home.abandon();
        let down = ToCoordinator::Down { shard: self.shard, incarnation: Incarnation::default() };
        if let Some(directory) = self.directory.upgrade() {
            directory.tell_coordinator(CoordinatorInput::Protocol(down));
        }
    }
}
