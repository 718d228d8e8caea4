//! Stores that are wrong on purpose: the checker must refute each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use onceward::claim::{Dispatch, Limits, Millis, Reply, SlotKey, TombstoneReason};
use onceward::store::memory::MemoryStore;
use onceward::store::{
    Asked, Begin, Begun, Clock, Known, Occupancy, ReceiptSettings, Settled, Store, StoreError,
    StoreFuture, Ticket,
};

use crate::clock::ManualClock;
use crate::hammer::{Setting, crowded, hammer, limits};

/// What a wrapped store does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    /// It replays what was evicted or has expired.
    RemembersTheGone,
    /// It frees what was dropped or has an unknown outcome.
    FreesTheUnknown,
    /// Every other begin asks another store.
    HasTwoMinds,
    /// It keeps the reply of the first completion of a slot for all later ones.
    KeepsTheFirst,
    /// It redispatches what does not declare it.
    RedispatchesAll,
    /// It redispatches nothing.
    RedispatchesNothing,
    /// It does not look where calls go.
    IgnoresRoutes,
}

struct Broken {
    wrong: Wrong,
    inner: Arc<MemoryStore>,
    other: Arc<MemoryStore>,
    begins: AtomicU64,
    replies: Mutex<HashMap<SlotKey, Reply>>,
}

impl Broken {
    fn start(wrong: Wrong, limits: Limits, clock: Arc<ManualClock>) -> Arc<dyn Store> {
        let start = |shards, clock| {
            MemoryStore::start(limits, ReceiptSettings::default(), shards, clock).expect("a thread")
        };
        let (inner, other) = (start(2, Arc::clone(&clock) as Arc<dyn Clock>), start(1, clock as _));
        let (begins, replies) = (AtomicU64::new(0), Mutex::default());
        Arc::new(Self { wrong, inner, other, begins, replies })
    }

    fn remembered(&self, slot: SlotKey) -> Option<Reply> {
        self.replies.lock().expect("no holder panics").get(&slot).cloned()
    }

    async fn begin_wrongly(&self, mut begin: Begin) -> Result<Begun, StoreError> {
        let declared = begin.dispatch;
        begin.dispatch = match self.wrong {
            Wrong::RedispatchesAll => Dispatch { redispatch: true, ..declared },
            Wrong::RedispatchesNothing => Dispatch { redispatch: false, ..declared },
            Wrong::IgnoresRoutes => Dispatch { hash: None, ..declared },
            _ => declared,
        };
        let odd = self.begins.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        if self.wrong == Wrong::HasTwoMinds && odd {
            return Store::begin(&*self.other, Asked::at("", begin)).await;
        }
        let begun = Store::begin(&*self.inner, Asked::at("", begin)).await?;
        match (begun, self.remembered(begin.slot)) {
            (Begun::First(ticket), Some(reply)) if self.wrong == Wrong::RemembersTheGone => {
                self.inner.release(ticket).await?;
                Ok(Begun::Replay(Arc::new(reply)))
            }
            (begun, _) => Ok(begun),
        }
    }
}

impl Store for Broken {
    fn look_up(&self, _: &Begin) -> Option<Known> {
        None
    }

    fn begin(&self, asked: Asked<'_>) -> StoreFuture<'_, Begun> {
        Box::pin(self.begin_wrongly(asked.begin))
    }

    fn reserve_attempt(&self, ticket: &mut Ticket) -> StoreFuture<'_, Settled> {
        self.inner.reserve_attempt(ticket)
    }

    fn complete(&self, ticket: Ticket, reply: Reply) -> StoreFuture<'_, Settled> {
        let mut replies = self.replies.lock().expect("no holder panics");
        let reply = match self.wrong {
            Wrong::KeepsTheFirst => replies.entry(ticket.slot()).or_insert(reply).clone(),
            _ => {
                replies.insert(ticket.slot(), reply.clone());
                reply
            }
        };
        self.inner.complete(ticket, reply)
    }

    fn tombstone(&self, ticket: Ticket, reason: TombstoneReason) -> StoreFuture<'_, Settled> {
        match self.wrong {
            Wrong::FreesTheUnknown => self.inner.release(ticket),
            _ => self.inner.tombstone(ticket, reason),
        }
    }

    fn release(&self, ticket: Ticket) -> StoreFuture<'_, Settled> {
        self.inner.release(ticket)
    }

    fn occupancy(&self) -> Occupancy {
        let (inner, other) = (self.inner.occupancy(), self.other.occupancy());
        Occupancy { in_flight: inner.in_flight + other.in_flight, ..inner }
    }

    fn ready(&self) -> Result<(), StoreError> {
        self.inner.ready()
    }

    fn kind(&self) -> &'static str {
        "broken"
    }

    fn stop(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            self.inner.stop().await?;
            self.other.stop().await
        })
    }
}

/// Enough histories to see through each of them, many times over.
const HISTORIES: u64 = 400;

async fn refuted(what: &str, limits: Limits, start: crate::hammer::Factory<'_>) {
    let setting = Setting { slots: 16, ..crowded(limits) };
    assert!(hammer(setting, start, HISTORIES).await.is_err(), "{what} passes for a store");
}

#[tokio::test]
async fn broken_stores_are_refuted() {
    let tight = limits((3, 3), (3, 3), (3, 3), 3);
    for wrong in [
        Wrong::RemembersTheGone,
        Wrong::FreesTheUnknown,
        Wrong::HasTwoMinds,
        Wrong::KeepsTheFirst,
        Wrong::RedispatchesAll,
        Wrong::RedispatchesNothing,
        Wrong::IgnoresRoutes,
    ] {
        let start =
            move |limits: Limits, clock: Arc<ManualClock>| Broken::start(wrong, limits, clock);
        refuted(&format!("a store that {wrong:?}"), tight, &start).await;
    }
}

/// A store whose caps, lifetimes or counts are not those that it is judged by.
#[tokio::test]
async fn a_store_with_other_limits_is_refuted() {
    let judged = limits((3, 2), (3, 2), (3, 2), 2);
    let others = [
        Limits { entries: 4, ..judged },
        Limits { entries: 2, principal_entries: 2, scope_entries: 2, ..judged },
        Limits { in_flight: 3, ..judged },
        Limits { in_flight: 1, principal_in_flight: 1, scope_in_flight: 1, ..judged },
        Limits { scope_tombstones: 3, ..judged },
        Limits { ttl: Millis(12), tombstone_ttl: Millis(12), ..judged },
        Limits { ttl: Millis(2), ..judged },
    ];
    for other in others {
        let start = move |_: Limits, clock: Arc<ManualClock>| {
            let receipts = ReceiptSettings::default();
            MemoryStore::start(other, receipts, 2, clock).expect("a thread") as Arc<dyn Store>
        };
        refuted(&format!("a store with {other:?}"), judged, &start).await;
    }
}
