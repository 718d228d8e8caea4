//! The memory store: shard actors that own the records, and a coordinator for a full store.
//!
//! The actors are thin shells around the machines of [`crate::claim`]; what they share is the
//! [`crate::ledger`] and the read index. Their senders run them ([`crate::mailbox`]). STORE section
//! 3 is the design.

mod coordinator;
mod delivery;
mod directory;
mod keeper;
mod random;
mod read_index;
mod receipts;
mod shard;
mod supervision;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};

use self::coordinator::{CoordinatorActor, CoordinatorInput};
use self::directory::Directory;
use self::keeper::Bell;
use self::read_index::ReadIndex;
use self::receipts::{ClaimOf, Receipts};
use self::shard::{ShardActor, ShardInput};
use self::supervision::Health;
use super::{
    Asked, Begin, Begun, Clock, Known, Occupancy, Receipt, ReceiptId, ReceiptPage, ReceiptQuery,
    ReceiptSettings, Settled, Store, StoreError, StoreFuture, Ticket,
};
use crate::claim::protocol::ShardId;
use crate::claim::{Limits, PrincipalId, Reply, Settlement, TombstoneReason};
use crate::ledger::{Ledger, ShardLedger};
use crate::patience::within;

/// How long a begin waits for its answer, time in the mailbox and at the coordinator included.
pub const BEGIN_WAIT: Duration = Duration::from_secs(5);

/// How long a settle waits for its answer. It lands all the same.
pub const SETTLE_WAIT: Duration = Duration::from_secs(5);

/// How long a stop waits for what was already sent.
pub const STOP_WAIT: Duration = Duration::from_secs(10);

/// Begins in the mailbox of one shard; one more waits outside, within [`BEGIN_WAIT`]. Settles are
/// not counted: there is at most one for each ticket out, and none may be lost.
pub const MAILBOX_BEGINS: usize = 1024;

/// A store in the memory of this process.
pub struct MemoryStore {
    ledger: Arc<Ledger>,
    index: Arc<ReadIndex>,
    clock: Arc<dyn Clock>,
    health: Arc<Health>,
    receipts: Arc<Receipts>,
    directory: Arc<Directory>,
    admissions: Box<[Arc<Semaphore>]>,
    keeper: Arc<Bell>,
}

impl MemoryStore {
    /// Starts the store. `shards` of 0 counts as 1.
    ///
    /// # Errors
    ///
    /// When the system gives no thread for what must happen while nobody calls.
    pub fn start(
        limits: Limits,
        receipts: ReceiptSettings,
        shards: usize,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Arc<Self>> {
        let shards = shards.max(1);
        let ledger = Ledger::new((&limits).into(), shards);
        let index = Arc::new(ReadIndex::for_entries(limits.entries));
        let health = Arc::new(Health::new(shards));
        let receipts = Arc::new(Receipts::new(receipts, Arc::clone(&clock)));
        let keeper = Arc::new(Bell::default());
        let directory = Arc::new_cyclic(|directory: &Weak<Directory>| {
            let own = || (Arc::clone(&clock), Arc::clone(&health), Weak::clone(directory));
            let shard = |shard| {
                let (clock, health, directory) = own();
                let index = Arc::clone(&index);
                let home = ShardLedger::new(Arc::clone(&ledger), ShardId(shard), index);
                ShardActor::new(limits, home, clock, health, Arc::clone(&receipts), directory)
            };
            let (clock, health, theirs) = own();
            let coordinator = CoordinatorActor::new(Arc::clone(&ledger), clock, health, theirs);
            Directory::new((0..shards).map(shard), coordinator, Arc::clone(&keeper))
        });
        keeper::start(Arc::clone(&keeper), Arc::downgrade(&directory), Arc::clone(&receipts))?;
        let admissions = (0..shards).map(|_| Arc::new(Semaphore::new(MAILBOX_BEGINS))).collect();
        Ok(Arc::new(Self { ledger, index, clock, health, receipts, directory, admissions, keeper }))
    }

    /// The shard of a principal. Not by its first bytes: those are its hash in the shard's maps,
    /// and all principals of a shard must not share them.
    fn shard_of(&self, principal: &PrincipalId) -> usize {
        let mut bytes = [0u8; 8];
        bytes.copy_from_slice(&principal.as_bytes()[8..16]);
        let shards = self.admissions.len() as u64;
        (u64::from_le_bytes(bytes) % shards) as usize
    }

    async fn begin(
        &self,
        begin: &Begin,
        receipt: Option<Arc<Receipt>>,
    ) -> Result<Begun, StoreError> {
        let shard = self.shard_of(&begin.principal);
        self.health.shard(shard)?;
        if let Some(known) = self.index.look_up(begin, &*self.clock) {
            return Ok(known.into());
        }
        match within(BEGIN_WAIT, self.ask(shard, begin, receipt)).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::Timeout),
        }
    }

    /// Asks the shard. Dropped before the answer was taken, a `First` among it is released.
    async fn ask(
        &self,
        shard: usize,
        begin: &Begin,
        receipt: Option<Arc<Receipt>>,
    ) -> Result<Begun, StoreError> {
        let admission = Arc::clone(&self.admissions[shard]);
        let in_mailbox = admission.acquire_owned().await.map_err(|_| self.health.why_gone())?;
        let (reply, answer) = oneshot::channel();
        let input = ShardInput::Begin { begin: *begin, receipt, reply, in_mailbox };
        self.directory.tell_shard(shard, input);
        let delivery = answer.await.map_err(|_| self.health.why_gone())?;
        delivery.accept(&self.health)
    }

    /// Settles a ticket. It is not bounded by the mailbox: were it dropped while it waited for
    /// room, its slot would stay in flight for ever.
    async fn settle(&self, ticket: Ticket, settlement: Settlement) -> Result<Settled, StoreError> {
        let (slot, fence, home, notes) = ticket.into_parts();
        let (reply, answer) = oneshot::channel();
        let input = ShardInput::Settle { slot, fence, settlement, notes, reply: Some(reply) };
        self.directory.tell_shard(home, input);
        match within(SETTLE_WAIT, answer).await {
            Ok(answer) => answer.map_err(|_| self.health.why_gone()),
            Err(_) => Err(StoreError::Timeout),
        }
    }

    /// First every begin that was already sent is answered, then every actor stops.
    async fn drain(&self) {
        for message in [ShardInput::Drain, ShardInput::Stop] {
            for shard in 0..self.admissions.len() {
                let (done, stopped) = oneshot::channel();
                self.directory.tell_shard(shard, message(done));
                // An actor that is gone has nothing left to drain.
                let _ = stopped.await;
            }
        }
        let (done, stopped) = oneshot::channel();
        self.directory.tell_coordinator(CoordinatorInput::Stop(done));
        let _ = stopped.await;
    }
}

impl Store for MemoryStore {
    fn look_up(&self, begin: &Begin) -> Option<Known> {
        // A shard that is down answers nothing any more, its replies included.
        self.health.shard(self.shard_of(&begin.principal)).ok()?;
        self.index.look_up(begin, &*self.clock)
    }

    fn begin(&self, asked: Asked<'_>) -> StoreFuture<'_, Begun> {
        let receipt = self.receipts.draft(&asked.domain, asked.opening);
        let begin = asked.begin;
        Box::pin(async move { self.begin(&begin, receipt?).await })
    }

    /// A ticket that was not settled holds its claim: in memory nobody else can end it.
    fn reserve_attempt(&self, ticket: &mut Ticket) -> StoreFuture<'_, Settled> {
        let (_, fence, home, notes) = ticket.reserve();
        let reserved = self.health.shard(home).map(|()| {
            self.receipts.reserve(ClaimOf { home, fence }, &notes);
            Settled::Done
        });
        Box::pin(std::future::ready(reserved))
    }

    fn complete(&self, ticket: Ticket, reply: Reply) -> StoreFuture<'_, Settled> {
        Box::pin(self.settle(ticket, Settlement::Complete(Arc::new(reply))))
    }

    fn tombstone(&self, ticket: Ticket, reason: TombstoneReason) -> StoreFuture<'_, Settled> {
        Box::pin(self.settle(ticket, Settlement::Tombstone(reason)))
    }

    fn release(&self, ticket: Ticket) -> StoreFuture<'_, Settled> {
        Box::pin(self.settle(ticket, Settlement::Release))
    }

    fn keeps_receipts(&self) -> bool {
        self.receipts.keeps_any()
    }

    fn receipt(&self, id: ReceiptId) -> StoreFuture<'_, Option<Receipt>> {
        Box::pin(async move { Ok(self.receipts.get(&id)) })
    }

    fn receipts(&self, query: ReceiptQuery) -> StoreFuture<'_, ReceiptPage> {
        Box::pin(async move { Ok(self.receipts.page(&query)) })
    }

    /// Of a shard that died, the completed records count as tombstones: they stand, and cannot be
    /// evicted.
    fn occupancy(&self) -> Occupancy {
        let counts = self.ledger.counts();
        Occupancy {
            records: counts.records,
            in_flight: counts.in_flight,
            completed: counts.completed,
            tombstones: counts.records.saturating_sub(counts.in_flight + counts.completed),
            evictions: self.ledger.evictions(),
        }
    }

    fn ready(&self) -> Result<(), StoreError> {
        self.health.all()
    }

    fn kind(&self) -> &'static str {
        "memory"
    }

    fn stop(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            self.health.stop();
            for admission in &self.admissions {
                admission.close();
            }
            let drained = within(STOP_WAIT, self.drain()).await;
            self.keeper.end();
            drained.map_err(|_| StoreError::Timeout)
        })
    }
}

/// Nobody stopped it: its keeper must not wait for the next sweep to notice.
impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.keeper.end();
    }
}
