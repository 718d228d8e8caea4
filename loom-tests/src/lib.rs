//! The lock-free parts of onceward under loom, exhaustively within the stated bounds:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p loom-tests --release
//! ```
//!
//! Without `--cfg loom` there is nothing here.

#![cfg(all(loom, test))]

mod completions;
mod eviction;
mod index;
mod machines;
mod mailbox;
mod published;
mod word;

use std::sync::Arc;

use onceward::claim::counts::StoreCaps;
use onceward::claim::protocol::ShardId;
use onceward::claim::shared::Index;
use onceward::ledger::{Ledger, ShardLedger};

/// An empty ledger for up to three shards.
fn ledger(entries: u32, in_flight: u32) -> Arc<Ledger> {
    Ledger::new(StoreCaps { entries, in_flight }, 3)
}

/// One shard's side of it, without a read index.
fn home(ledger: &Arc<Ledger>, shard: usize) -> ShardLedger<()> {
    home_with(ledger, shard, ())
}

fn home_with<I: Index>(ledger: &Arc<Ledger>, shard: usize, index: I) -> ShardLedger<I> {
    ShardLedger::new(Arc::clone(ledger), ShardId(shard), index)
}

/// Runs both at once, each on a thread of its own. Never on the main thread: loom does not start
/// another thread before the first operation of the main one, and would miss those orders.
fn together<A, B>(one: impl FnOnce() -> A + 'static, two: impl FnOnce() -> B + 'static) -> (A, B)
where
    A: 'static,
    B: 'static,
{
    let (one, two) = (loom::thread::spawn(one), loom::thread::spawn(two));
    (one.join().unwrap(), two.join().unwrap())
}

/// Runs all three at once.
fn all_three<T: 'static>(actors: [Box<dyn FnOnce() -> T>; 3]) -> [T; 3] {
    actors.map(loom::thread::spawn).map(|actor| actor.join().unwrap())
}
