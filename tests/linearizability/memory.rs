//! The memory store is linearizable, at every cap.

use std::sync::Arc;

use onceward::claim::Limits;
use onceward::store::memory::MemoryStore;
use onceward::store::{ReceiptSettings, Store};

use crate::clock::ManualClock;
use crate::hammer::{self, Setting, crowded, limits};

/// Of each store below.
const HISTORIES: u64 = 400;

fn memory(shards: usize) -> impl Fn(Limits, Arc<ManualClock>) -> Arc<dyn Store> {
    move |limits, clock| {
        MemoryStore::start(limits, ReceiptSettings::default(), shards, clock).expect("a thread")
    }
}

async fn check(name: &str, setting: Setting, shards: usize) {
    hammer::check(name, setting, &memory(shards), HISTORIES).await;
}

#[tokio::test]
async fn at_the_cap_of_the_store() {
    let wide = |entries, in_flight| {
        let caps = (entries, in_flight);
        crowded(limits(caps, caps, caps, 8))
    };
    check("the store's cap, two shards", wide(3, 3), 2).await;
    check("one in flight, two shards", wide(2, 1), 2).await;
    check("the store's cap, three shards", wide(4, 3), 3).await;
}

#[tokio::test]
async fn at_the_caps_of_scopes_and_principals() {
    let narrow = Setting { slots: 8, ..crowded(limits((8, 6), (3, 3), (2, 2), 2)) };
    check("the caps of scopes and principals, one shard", narrow, 1).await;
    let both = Setting { slots: 16, ..crowded(limits((3, 3), (3, 2), (2, 2), 2)) };
    check("all caps at once, two shards", both, 2).await;
}

#[tokio::test]
async fn where_unknown_calls_are_taken_again() {
    let limits = limits((4, 2), (3, 2), (3, 1), 3);
    let tight = Setting { slots: 6, threads: 4, ..crowded(limits) };
    check("redispatch, one in flight of a scope, two shards", tight, 2).await;
}

#[tokio::test]
async fn on_few_slots() {
    let few = Setting { slots: 3, threads: 4, ..crowded(limits((3, 3), (3, 3), (3, 3), 3)) };
    check("few slots, two shards", few, 2).await;
}
