//! The store: one interface, one behaviour (STORE section 1).

mod asked;
pub mod clock;
pub mod memory;
pub mod receipt;
pub mod redis;
mod ticket;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use asked::{Asked, Domain};
pub use clock::{Clock, MonotonicClock};
pub use receipt::{Receipt, ReceiptId, ReceiptPage, ReceiptQuery, ReceiptSettings};
pub use ticket::{Notes, SettleOnDrop, Ticket};

pub use crate::claim::{Begin, Settled};
use crate::claim::{CapacityLimit, Reply, TombstoneReason};

/// A future that a store hands out; boxed, because the gateway chooses its store at run time.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The answer to a begin (CONTRACT section 4).
#[derive(Debug)]
pub enum Begun {
    /// The slot was free and is now in flight: execute, then settle the ticket.
    First(Ticket),
    /// Completed under the same hash: the stored reply.
    Replay(Arc<Reply>),
    /// Any record under another hash.
    Conflict,
    /// A record under the same hash that was claimed for another destination
    /// ([`Pin`](crate::claim::protocol::Pin)).
    OtherRoute,
    /// In flight under the same hash.
    InFlight,
    /// A tombstone: the outcome is unknown.
    Unknown,
    /// A tombstone: the reply was not kept.
    NotReplayable,
    /// No room.
    Capacity(CapacityLimit),
}

/// What a completed record answers (CONTRACT section 4).
#[derive(Debug)]
pub enum Known {
    /// Under the same hash: the stored reply.
    Replay(Arc<Reply>),
    /// Under another hash.
    Conflict,
    /// Under the same hash, for another destination.
    OtherRoute,
}

impl From<Known> for Begun {
    fn from(known: Known) -> Self {
        match known {
            Known::Replay(reply) => Self::Replay(reply),
            Known::Conflict => Self::Conflict,
            Known::OtherRoute => Self::OtherRoute,
        }
    }
}

/// Why a store could not answer. Nothing was executed and nothing is freed because of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The part of the store that owns this principal has failed; the process must be restarted.
    #[error("the store is not available; restart the gateway")]
    Down,
    /// The store did not answer in time.
    #[error("the store did not answer in time; retry with the same key")]
    Timeout,
    /// Too many begins of this principal, or of the store, wait for room at once.
    #[error("too many calls wait for room in the store; retry with the same key")]
    Overloaded,
    /// The store is stopping.
    #[error("the store is stopping; retry with the same key")]
    Stopping,
    /// No connection to the shared store's server.
    #[error("redis cannot be reached; look at `store.url`, the network and the server")]
    Unreachable,
    /// The server did not do what it was asked: read-only, out of memory, loading, resharding, or
    /// not permitted to this user.
    #[error("redis refused the command; its answer is in the log")]
    Refused,
    /// The server may drop records to make room for others.
    #[error("redis may evict claims: set its `maxmemory-policy` to `noeviction`")]
    Evicts,
    /// Too few replicas have the claim.
    #[error("fewer replicas than `store.wait_replicas` have the claim; retry with the same key")]
    Unreplicated,
    /// The server has lost what it once said: claims may be missing.
    #[error(
        "redis has lost records of this server; keyed calls are refused until all that can be \
         missing would have expired"
    )]
    Lost,
    /// The domain's records are counted under other limits.
    #[error(
        "`{limit}` is {ours} here and {theirs} in redis: configure every gateway alike, or stop \
         them and wait until all records have expired"
    )]
    Limits {
        /// Its name in a configuration.
        limit: &'static str,
        /// Our value; times in milliseconds.
        ours: u64,
        /// The value in the store.
        theirs: u64,
    },
}

/// Occupancy against every store-wide cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// Records of any state; expired ones count until they are swept.
    pub records: u32,
    /// Records in flight.
    pub in_flight: u32,
    /// Completed records.
    pub completed: u32,
    /// Tombstones.
    pub tombstones: u32,
    /// Completed records evicted since the start, to make room for newer ones.
    pub evictions: u64,
}

/// A store. Every implementation is linearizable with respect to the model of STORE section 2.
pub trait Store: Send + Sync + 'static {
    /// What a completed record answers, where the store can say so at once and without a claim:
    /// most retries. `None` says nothing; ask [`begin`](Self::begin).
    fn look_up(&self, begin: &Begin) -> Option<Known>;

    /// Takes a free slot, or says what holds it. Atomic: of N concurrent begins on a free slot
    /// exactly one is [`Begun::First`].
    ///
    /// It reserves the first attempt, and opens the receipt where one is asked for.
    fn begin(&self, asked: Asked<'_>) -> StoreFuture<'_, Begun>;

    /// Reserves the next attempt under a claim, durably where the store is durable, before its
    /// first byte is sent (EFFECTS section 5). [`Settled::Stale`]: the claim is no longer ours, and
    /// nothing may be sent.
    fn reserve_attempt(&self, ticket: &mut Ticket) -> StoreFuture<'_, Settled>;

    /// Settles a claim with its reply.
    fn complete(&self, ticket: Ticket, reply: Reply) -> StoreFuture<'_, Settled>;

    /// Settles a claim as a tombstone.
    fn tombstone(&self, ticket: Ticket, reason: TombstoneReason) -> StoreFuture<'_, Settled>;

    /// Settles a claim by freeing its slot: only where nothing was executed. A claim that took an
    /// unknown record again settles as unknown instead, since nothing is known of what went before.
    fn release(&self, ticket: Ticket) -> StoreFuture<'_, Settled>;

    /// Whether it keeps receipts at all: else no begin need bring an opening.
    fn keeps_receipts(&self) -> bool {
        true
    }

    /// A receipt, while it is kept.
    fn receipt(&self, _id: ReceiptId) -> StoreFuture<'_, Option<Receipt>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// A page of receipts, newest first.
    fn receipts(&self, _query: ReceiptQuery) -> StoreFuture<'_, ReceiptPage> {
        Box::pin(std::future::ready(Ok(ReceiptPage::default())))
    }

    /// Occupancy, without a scan.
    fn occupancy(&self) -> Occupancy;

    /// Whether every part of the store answers.
    ///
    /// # Errors
    ///
    /// Why it does not: never [`StoreError::Timeout`] or [`StoreError::Overloaded`], which are of
    /// one call.
    fn ready(&self) -> Result<(), StoreError>;

    /// The name of the kind, as in `[store] kind`.
    fn kind(&self) -> &'static str;

    /// Stops the store after everything already sent to it has been handled.
    fn stop(&self) -> StoreFuture<'_, ()>;
}
