//! The Redis store: many gateways, one truth (STORE section 4).
//!
//! One Lua script an operation, so that each is atomic; the scripts hold the model, this code holds
//! what a script cannot: tickets, leases, repeats and the notice of a loss. It runs on a thread of
//! its own, so that a settle or a renewal does not end with the worker whose client asked for it.

mod answer;
mod begin;
mod calls;
mod delivery;
mod domain;
mod events;
mod examine;
mod held;
mod keeper;
mod keys;
mod pool;
mod receipts;
mod reserve;
mod script;
mod server;
mod server_time;
mod settings;
mod settle;
mod url;

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use self::begin::Asking;
use self::delivery::Delivery;
use self::domain::Domains;
use self::held::Held;
use self::pool::Pool;
use self::settle::Settlement;
use super::{
    Asked, Begin, Begun, Clock, Domain, Known, MonotonicClock, Notes, Occupancy, Receipt,
    ReceiptId, ReceiptPage, ReceiptQuery, ReceiptSettings, SettleOnDrop, Settled, Store,
    StoreError, StoreFuture, Ticket,
};
use crate::claim::{Fence, Limits, Millis, Reply, SlotKey, TombstoneReason};

pub use examine::{Examination, examine};
pub use server::ServerInfo;
pub use settings::{MAX_CONNECTIONS, MIN_LEASE, RedisSettings};
pub use url::{RedisUrl, UrlError};

/// How long a stop waits for settles and releases under way.
pub const STOP_WAIT: Duration = Duration::from_secs(10);

/// How many command time-outs a begin lasts.
const BEGIN_TIMEOUTS: u32 = 3;

/// A store in a Redis or Valkey server.
pub struct RedisStore {
    shared: Arc<Shared>,
    /// Ends the thread when it is dropped.
    _running: oneshot::Sender<()>,
}

/// What the tasks of a store share.
struct Shared {
    limits: Limits,
    shown_limits: String,
    lease: Millis,
    /// How long a begin asks.
    patience: Millis,
    /// How long before its end a lease is not sent under any more.
    margin: Millis,
    wait_replicas: u32,
    replica_wait: Duration,
    receipts: ReceiptSettings,
    pool: Pool,
    clock: MonotonicClock,
    domains: Domains,
    held: Held,
    health: Mutex<Result<(), StoreError>>,
    stopped: AtomicBool,
    runtime: Handle,
    tasks: TaskTracker,
}

impl RedisStore {
    /// Starts the store; `domains` are those that are known already, whatever records they name. A
    /// server that cannot be reached yet leaves it not ready.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn start<'d>(
        limits: Limits,
        settings: &RedisSettings,
        domains: impl IntoIterator<Item = Domain<'d>>,
    ) -> io::Result<Arc<Self>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Shared::new(limits, settings, runtime.handle().clone());
        let shared = Arc::new(shared);
        for domain in domains {
            shared.domains.of(&domain);
        }
        let (running, ended) = oneshot::channel::<()>();
        let kept = Arc::clone(&shared);
        std::thread::Builder::new().name("redis-store".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = keeper::renew(Arc::clone(&kept)) => {}
                    () = keeper::look(kept) => {}
                    // Nothing is sent: the store is dropped.
                    _ = ended => {}
                }
            });
        })?;
        Ok(Arc::new(Self { shared, _running: running }))
    }

    /// Runs a task on the store's thread, and waits for it.
    async fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (done, finished) = oneshot::channel();
        self.shared.spawn(async move {
            // Nobody may wait for it any more.
            let _ = done.send(task.await);
        });
        finished.await.unwrap_or(Err(StoreError::Stopping))
    }

    fn settle(&self, ticket: Ticket, settlement: Settlement) -> StoreFuture<'_, Settled> {
        Box::pin(async move {
            // Until here a settle that is dropped is a ticket that is dropped.
            let (_, fence, _, notes) = ticket.into_parts();
            self.run(Arc::clone(&self.shared).settle(fence, settlement, notes)).await
        })
    }
}

impl Shared {
    fn new(limits: Limits, settings: &RedisSettings, runtime: Handle) -> Self {
        Self {
            limits,
            shown_limits: settings::shown(&limits, settings.lease),
            lease: millis(settings.lease),
            patience: millis(settings.timeout * BEGIN_TIMEOUTS),
            margin: millis(settings.dispatch_margin),
            wait_replicas: settings.wait_replicas,
            replica_wait: settings.timeout / 2,
            receipts: settings.receipts,
            pool: Pool::new(settings),
            clock: MonotonicClock::start(),
            domains: Domains::new(&settings.prefix),
            held: Held::default(),
            health: Mutex::new(Err(StoreError::Unreachable)),
            stopped: AtomicBool::new(false),
            runtime,
            tasks: TaskTracker::new(),
        }
    }

    fn now(&self) -> Millis {
        self.clock.now()
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(self.tasks.track_future(task));
    }
}

fn millis(length: Duration) -> Millis {
    Millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}

/// A length of time or an instant in microseconds, which every real one is small enough for.
fn micros(millis: Millis) -> i64 {
    i64::try_from(millis.0).unwrap_or(i64::MAX).saturating_mul(1000)
}

/// What a ticket calls.
struct Guard(Arc<Shared>);

impl SettleOnDrop for Guard {
    fn settle_unknown(&self, slot: SlotKey, fence: Fence, _home: usize) {
        let unknown = Settlement::Tombstone(TombstoneReason::Unknown);
        let settling = Arc::clone(&self.0).settle(fence, unknown, Notes::of(0, false));
        self.0.spawn(async move {
            if let Err(error) = settling.await {
                let key_hash = format_args!("{slot:.16}");
                tracing::error!(%key_hash, %error, "a dropped claim could not be settled");
            }
        });
    }

    fn is_held(&self, fence: Fence) -> bool {
        let claim = self.0.held.get(fence);
        let leased = claim.and_then(|claim| claim.leased());
        leased.is_some_and(|at| self.0.now().plus(self.0.margin) < at.plus(self.0.lease))
    }
}

impl Store for RedisStore {
    /// Nothing is known without asking the server.
    fn look_up(&self, _begin: &Begin) -> Option<Known> {
        None
    }

    fn begin(&self, asked: Asked<'_>) -> StoreFuture<'_, Begun> {
        let asking = Asking::new(Arc::clone(&self.shared), asked);
        Box::pin(async move {
            let (shared, asking) = (Arc::clone(&self.shared), asking?);
            let delivered = self.run(async move { Ok(Delivery::new(shared, asking.run().await?)) });
            delivered.await?.accept()
        })
    }

    fn reserve_attempt(&self, ticket: &mut Ticket) -> StoreFuture<'_, Settled> {
        let (_, fence, _, notes) = ticket.reserve();
        Box::pin(self.run(Arc::clone(&self.shared).reserve(fence, notes)))
    }

    fn complete(&self, ticket: Ticket, reply: Reply) -> StoreFuture<'_, Settled> {
        self.settle(ticket, Settlement::Complete(reply))
    }

    fn tombstone(&self, ticket: Ticket, reason: TombstoneReason) -> StoreFuture<'_, Settled> {
        self.settle(ticket, Settlement::Tombstone(reason))
    }

    fn release(&self, ticket: Ticket) -> StoreFuture<'_, Settled> {
        self.settle(ticket, Settlement::Release)
    }

    /// Of a domain that this process knows.
    fn keeps_receipts(&self) -> bool {
        self.shared.receipts.entries > 0
    }

    fn receipt(&self, id: ReceiptId) -> StoreFuture<'_, Option<Receipt>> {
        Box::pin(self.run(Arc::clone(&self.shared).receipt(id)))
    }

    /// Of all domains that this process knows.
    fn receipts(&self, query: ReceiptQuery) -> StoreFuture<'_, ReceiptPage> {
        Box::pin(self.run(Arc::clone(&self.shared).receipts(query)))
    }

    /// Of all domains that this process has served, as last looked at.
    fn occupancy(&self) -> Occupancy {
        let mut all = Occupancy::default();
        for counts in self.shared.domains.all().iter().map(|domain| domain.counts()) {
            all.records += counts.in_flight + counts.completed + counts.tombstones;
            all.in_flight += counts.in_flight;
            all.completed += counts.completed;
            all.tombstones += counts.tombstones;
            all.evictions += counts.evictions;
        }
        all
    }

    fn ready(&self) -> Result<(), StoreError> {
        self.shared.stopping()?;
        (*self.shared.health.lock().unwrap_or_else(PoisonError::into_inner))?;
        let now = self.shared.now();
        let wrong = self.shared.domains.all().iter().find_map(|domain| domain.wrong(now));
        wrong.map_or(Ok(()), Err)
    }

    fn kind(&self) -> &'static str {
        "redis"
    }

    /// Waits for settles under way. What is still in flight then lapses by itself.
    fn stop(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            self.shared.stopped.store(true, Ordering::Release);
            self.shared.tasks.close();
            let settled = timeout(STOP_WAIT, self.shared.tasks.wait()).await;
            self.shared.pool.close();
            settled.map_err(|_| StoreError::Timeout)
        })
    }
}
