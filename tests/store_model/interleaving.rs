//! Two or three shards and their coordinator, with messages delivered in random order, against the
//! sequential model at their commit points. Every begin is answered, whatever the order, and
//! whoever dies.

use onceward::claim::{Limits, Millis};

use crate::world::{Random, World};

fn limits(entries: u32, in_flight: u32, tombstones: u32) -> Limits {
    Limits {
        ttl: Millis(12),
        tombstone_ttl: Millis(20),
        entries,
        in_flight,
        principal_entries: entries.min(4),
        principal_in_flight: in_flight.min(3),
        scope_entries: entries.min(3),
        scope_in_flight: in_flight.min(2),
        scope_tombstones: tombstones,
        reply_bytes: 64,
    }
}

/// Several combinations: some mistakes show only when one record may be in flight.
fn all_limits() -> Vec<Limits> {
    vec![
        limits(1, 1, 1),
        limits(2, 1, 2),
        limits(3, 2, 2),
        limits(3, 3, 3),
        limits(4, 1, 1),
        limits(5, 3, 2),
        limits(6, 4, 8),
    ]
}

/// One history: clients act and messages arrive at random, then everything is delivered. Says how
/// many redispatches there were.
fn run(seed: u64, shards: usize, limits: Limits, mortal: bool) -> u64 {
    let mut world = World::new(seed, shards, limits);
    let mut random = Random::new(seed ^ 0x00c0_ffee);
    let death = mortal.then(|| random.below(160));
    for step in 0..160 {
        if death == Some(step) {
            world.kill_one();
        }
        match random.below(12) {
            0..=3 => world.ask(),
            4 => world.settle_one(),
            5 => world.read_index(),
            6 => world.advance(random.below(4)),
            _ => {
                world.deliver_one();
            }
        }
        world.check();
    }
    world.finish()
}

fn seeds(shards: usize, mortal: bool, count: u64) {
    let mut redispatches = 0;
    for seed in 0..count {
        for limits in all_limits() {
            match std::panic::catch_unwind(|| run(seed, shards, limits, mortal)) {
                Ok(some) => redispatches += some,
                Err(panic) => {
                    eprintln!("seed {seed}, {shards} shards, mortal {mortal}, {limits:?}");
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
    assert!(redispatches > 0, "nothing was taken again: the histories say nothing about it");
}

#[test]
fn two_shards_in_any_order_are_the_model() {
    seeds(2, false, 60);
}

#[test]
fn three_shards_in_any_order_are_the_model() {
    seeds(3, false, 50);
}

#[test]
fn a_shard_that_dies_frees_nothing_and_hangs_nobody() {
    seeds(2, true, 60);
    seeds(3, true, 50);
}
