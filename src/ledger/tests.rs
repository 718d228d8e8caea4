//! The atomics against the plain ledger that the models use: asked the same by one thread, both
//! answer the same and show the same to everybody.

// loom's atomics work inside its own models only.
#![cfg(not(loom))]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use bytes::Bytes;

use super::*;
use crate::claim::counts::Room;
use crate::claim::shared::{Home, Index};
use crate::claim::{Claim, Completion, Limits, Reply, RequestHash, SlotKey};

const SHARDS: usize = 3;

/// A read index of slots alone.
#[derive(Debug, Clone, Default)]
struct Slots(Rc<RefCell<BTreeSet<SlotKey>>>);

impl Index for Slots {
    fn show(&mut self, completion: &Arc<Completion>) {
        self.0.borrow_mut().insert(completion.claim.slot);
    }

    fn hide(&mut self, slot: SlotKey) {
        self.0.borrow_mut().remove(&slot);
    }
}

/// What a shard holds, so that it is only told to do what it can do.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    in_flight: u32,
    completed: u32,
    tombstones: u32,
}

struct Both {
    atomic: Arc<Ledger>,
    homes: Vec<ShardLedger<Slots>>,
    slots: Slots,
    plain: PlainLedger,
    held: [Held; SHARDS],
    evictions: u64,
    redispatches: u64,
}

impl Both {
    fn new(entries: u32, in_flight: u32) -> Self {
        let limits = Limits { entries, in_flight, ..Limits::default() };
        let (atomic, slots) = (Ledger::new((&limits).into(), SHARDS), Slots::default());
        let home = |shard| ShardLedger::new(Arc::clone(&atomic), ShardId(shard), slots.clone());
        let homes = (0..SHARDS).map(home).collect();
        let plain = PlainLedger::new(&limits, SHARDS);
        let (held, evictions, redispatches) = Default::default();
        Self { atomic, homes, slots, plain, held, evictions, redispatches }
    }

    /// Both do it, and it comes to the same.
    fn same<T: PartialEq + std::fmt::Debug>(
        &mut self,
        shard: usize,
        atomic: impl Fn(&mut ShardLedger<Slots>) -> T,
        plain: impl Fn(&mut PlainShard<'_>) -> T,
    ) -> T {
        let done = atomic(&mut self.homes[shard]);
        assert_eq!(done, plain(&mut self.plain.shard(ShardId(shard))));
        done
    }

    /// One operation of a shard, chosen by `choice`; nothing where it holds nothing to do it with.
    fn act(&mut self, shard: usize, choice: u64, expires: Millis) {
        let held = self.held[shard];
        match choice {
            0 | 1 => {
                let started = self.same(shard, |home| home.start(), |home| home.start());
                self.held[shard].in_flight += u32::from(started.is_ok());
            }
            2 | 3 if held.in_flight > 0 => {
                self.same(shard, |home| home.complete(expires), |home| home.complete(expires));
                self.held[shard].in_flight -= 1;
                self.held[shard].completed += 1;
            }
            4 if held.in_flight > 0 => {
                self.same(shard, |home| home.tombstone(expires), |home| home.tombstone(expires));
                self.held[shard].in_flight -= 1;
                self.held[shard].tombstones += 1;
            }
            5 if held.in_flight > 0 => {
                self.same(shard, |home| home.release(), |home| home.release());
                self.held[shard].in_flight -= 1;
            }
            6 if held.completed > 0 => {
                let evicted = self.same(shard, |home| home.evict(), |home| home.evict()).is_ok();
                self.replaced(shard, evicted);
            }
            7 if held.completed > 0 => {
                let room =
                    self.same(shard, |home| home.start_or_evict(), |home| home.start_or_evict());
                match room {
                    Ok(Room::Free) => self.held[shard].in_flight += 1,
                    room => self.replaced(shard, room.is_ok()),
                }
            }
            8 => {
                let (tombstones, completed) = (held.tombstones, held.completed.min(1));
                let records = tombstones + completed;
                self.same(
                    shard,
                    |home| home.sweep(records, completed),
                    |home| home.sweep(records, completed),
                );
                self.held[shard].tombstones = 0;
                self.held[shard].completed -= completed;
            }
            9 if held.tombstones > 0 => {
                let again = self.same(shard, |home| home.redispatch(), |home| home.redispatch());
                let taken = u32::from(again.is_ok());
                self.held[shard].tombstones -= taken;
                self.held[shard].in_flight += taken;
                self.redispatches += u64::from(taken);
            }
            10 => {
                let oldest = (held.completed > 0).then_some(CompletionSeq(expires.0));
                self.same(
                    shard,
                    |home| home.publish(oldest, expires),
                    |home| home.publish(oldest, expires),
                );
            }
            _ => {}
        }
    }

    fn replaced(&mut self, shard: usize, evicted: bool) {
        let held = &mut self.held[shard];
        held.completed -= u32::from(evicted);
        held.in_flight += u32::from(evicted);
        self.evictions += u64::from(evicted);
    }

    /// Everybody sees the same of both: the coordinator, and each shard.
    fn check(&mut self) {
        let Self { atomic, plain, .. } = self;
        assert_eq!(view(atomic), view(plain));
        assert_eq!(Ledger::counts(atomic), Shared::counts(plain), "for whoever is no machine");
        for (shard, home) in self.homes.iter().enumerate() {
            let plain = plain.shard(ShardId(shard));
            assert_eq!(view(home), view(&plain));
            assert_eq!((home.shard(), plain.shard()), (ShardId(shard), ShardId(shard)));
        }
        assert_eq!(atomic.evictions(), self.evictions);
    }
}

type View = (Counts, CompletionSeq, Vec<(Option<CompletionSeq>, Millis)>);

/// All that can be seen through [`Shared`].
fn view(shared: &impl Shared) -> View {
    let shards = (0..shared.shards()).map(ShardId);
    let published = shards.map(|shard| (shared.oldest(shard), shared.next_expiry(shard)));
    (shared.counts(), shared.next_completion(), published.collect())
}

#[test]
fn in_one_thread_the_atomics_are_the_plain_ledger() {
    let (mut evictions, mut redispatches) = (0, 0);
    for seed in 1..200u64 {
        let mut both = Both::new(4 + (seed % 3) as u32, 1 + (seed % 4) as u32);
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for step in 0..120 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (shard, choice) = ((random >> 33) as usize % SHARDS, (random >> 40) % 11);
            both.act(shard, choice, Millis(step + (random >> 50) % 20));
            both.check();
        }
        evictions += both.evictions;
        redispatches += both.redispatches;
        let dead = seed as usize % SHARDS;
        both.homes[dead].abandon();
        both.plain.abandon(ShardId(dead));
        both.check();
        assert_eq!(both.atomic.oldest(ShardId(dead)), None, "the dead have nothing to evict");
        assert_eq!(both.atomic.next_expiry(ShardId(dead)), Millis::NEVER);
    }
    assert!(evictions > 0, "nothing was evicted: the histories say nothing about it");
    assert!(redispatches > 0, "nothing was taken again: the histories say nothing about it");
}

#[test]
fn the_coordinator_takes_and_gives_back_permits_like_a_shard() {
    let mut both = Both::new(2, 1);
    assert_eq!(both.atomic.start(), both.plain.start());
    both.check();
    assert_eq!(both.atomic.start(), Err(Full::InFlight));
    both.atomic.release();
    both.plain.release();
    both.check();
    assert_eq!(both.atomic.counts(), Counts::default());
}

#[test]
fn a_shard_shows_and_hides_in_its_own_index() {
    let mut both = Both::new(2, 2);
    let slot = SlotKey::from_bytes([7; 32]);
    let hash = RequestHash::from_bytes([0; 32]);
    let claim = Claim { slot, hash, dispatch: None };
    let reply = Arc::new(Reply::new(200, None, Bytes::new(), 0).expect("no body"));
    let completion = Arc::new(Completion { claim, expires: Millis(5), reply });
    both.same(1, |home| home.show(&completion), |home| home.show(&completion));
    assert!(both.slots.0.borrow().contains(&slot) && both.plain.indexed(slot).is_some());
    assert_eq!(both.plain.indexed_len(), 1);
    both.same(1, |home| home.hide(slot), |home| home.hide(slot));
    assert!(both.slots.0.borrow().is_empty() && both.plain.indexed(slot).is_none());
}
