//! The running memory store of two shards, full of what a case asks for.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onceward::claim::{Begin, Millis};
use onceward::store::memory::MemoryStore;
use onceward::store::{Asked, Begun, Clock, ReceiptSettings, Store};
use tokio::runtime::Runtime;

use crate::clients::Clients;
use crate::support::{Leaving, mix, reply};

/// Shards of every measured store.
const SHARDS: usize = 2;

/// Begins in flight while a store is filled.
const FILLERS: u64 = 64;

/// A clock that the begins move.
#[derive(Debug, Default)]
struct Steps(AtomicU64);

impl Clock for Steps {
    fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::Relaxed))
    }
}

/// A store that holds as many records as its case says.
#[derive(Clone)]
pub struct Running {
    store: Arc<MemoryStore>,
    clock: Arc<Steps>,
    leaving: Leaving,
    records: u64,
}

impl Running {
    fn start(leaving: Leaving, records: u64) -> Self {
        let clock = Arc::new(Steps::default());
        let limits = leaving.limits(records);
        let shared = Arc::clone(&clock) as Arc<dyn Clock>;
        let store = MemoryStore::start(limits, ReceiptSettings::default(), SHARDS, shared)
            .expect("a thread");
        let running = Self { store, clock, leaving, records };
        let filling = running.clone();
        Clients::new(1, FILLERS.min(records), 0).run(records, move |k| {
            let running = filling.clone();
            async move { running.begin_and_complete(k).await }
        });
        running
    }

    /// Begin number `k` and its completion.
    pub async fn begin_and_complete(&self, k: u64) {
        self.clock.0.fetch_add(self.leaving.tick(), Ordering::Relaxed);
        match self.begin(self.leaving.begin(k, self.records)).await {
            Begun::First(ticket) => {
                black_box(self.store.complete(ticket, reply()).await.expect("a settled ticket"));
            }
            other => panic!("{other:?} instead of a first"),
        }
    }

    /// A begin on a slot whose record stands, as `change` makes it.
    pub async fn begin_on_standing(&self, k: u64, change: impl Fn(Begin) -> Begin) {
        let begin = self.leaving.begin(mix(k) % self.records, self.records);
        black_box(self.begin(change(begin)).await);
    }

    async fn begin(&self, begin: Begin) -> Begun {
        Store::begin(&*self.store, Asked::at("", begin)).await.expect("an answer of the store")
    }

    /// The store in `place`, which is started and filled if there is none yet.
    pub fn in_place(place: &mut Option<Self>, leaving: Leaving, records: u64) -> &Self {
        place.get_or_insert_with(|| Self::start(leaving, records))
    }

    /// Stops a store that was started.
    pub fn stop(place: Option<Self>, runtime: &Runtime) {
        if let Some(running) = place {
            runtime.block_on(running.store.stop()).expect("a store that stops");
        }
    }
}
