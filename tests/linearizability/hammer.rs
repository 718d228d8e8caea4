//! Threads that use a store at once, and take down what they see.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use onceward::claim::{Begin, Dispatch, Limits, Millis, Reply, Settled, TombstoneReason};
use onceward::store::{Asked, Begun, Store, StoreError, Ticket};

use crate::checker::is_linearizable;
use crate::clock::ManualClock;
use crate::dispatches::DISPATCHES;
use crate::history::{Answer, Call, Operation, Recorder, Told};
use crate::naive::{End, begin_on};

/// The server that every begin is for.
pub const DOMAIN: &str = "uid-1";

/// Starts the store under test.
pub type Factory<'f> = &'f dyn Fn(Limits, Arc<ManualClock>) -> Arc<dyn Store>;

/// What a run is bounded by.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub limits: Limits,
    /// Slots 0 to this: four of a scope, two scopes of a principal.
    pub slots: u8,
    pub threads: u64,
    /// Begins of each thread in one history.
    pub begins: u64,
    /// Whether begins declare where their calls go, and redispatch.
    pub routes: bool,
}

/// What the histories held.
#[derive(Debug, Default)]
pub struct Seen {
    pub operations: u64,
    /// Those that another one was called or answered in the middle of.
    pub overlapping: u64,
}

/// A history with no order in which the model answers the same.
pub struct Refuted {
    seed: u64,
    history: Vec<Operation>,
}

impl std::fmt::Debug for Refuted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "not linearizable, seed {}:", self.seed)?;
        self.history.iter().try_for_each(|operation| writeln!(f, "{operation:?}"))
    }
}

/// Four principals of two scopes each, in a store with room for less than their records.
pub fn crowded(limits: Limits) -> Setting {
    Setting { limits, slots: 32, threads: 3, begins: 8, routes: true }
}

/// Asserts that a store is linearizable, in histories of operations that do overlap.
pub async fn check(name: &str, setting: Setting, factory: Factory<'_>, histories: u64) {
    let seen = match hammer(setting, factory, histories).await {
        Ok(seen) => seen,
        Err(refuted) => panic!("{name}: {refuted:?}"),
    };
    assert!(seen.overlapping > 0, "{name}: all that was checked is one operation after the other");
    println!("{name}: linearizable, {seen:?}");
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value}")))
}

/// Records histories, as many as the environment says or `histories`, and checks each. Each has a
/// store of its own: a begin that was given up in one must not come to life in the next.
pub async fn hammer(
    setting: Setting,
    factory: Factory<'_>,
    histories: u64,
) -> Result<Seen, Refuted> {
    assert_eq!(setting.limits.validate(), Ok(()));
    let histories = number("ONCEWARD_HISTORIES").unwrap_or(histories);
    let repeated = number("ONCEWARD_SEED");
    let mut seen = Seen::default();
    for round in 0..histories {
        let seed = repeated.unwrap_or(round);
        let clock = Arc::new(ManualClock::default());
        let store = factory(setting.limits, Arc::clone(&clock));
        let history = record(setting, &store, &clock, seed);
        assert_eq!(store.stop().await, Ok(()), "seed {seed}");
        if !is_linearizable(setting.limits, &history) {
            return Err(Refuted { seed, history });
        }
        seen.operations += history.len() as u64;
        seen.overlapping += history.iter().filter(|operation| operation.overlaps()).count() as u64;
    }
    Ok(seen)
}

/// Records one history of a store that is empty.
fn record(
    setting: Setting,
    store: &Arc<dyn Store>,
    clock: &ManualClock,
    seed: u64,
) -> Vec<Operation> {
    let recorder = Recorder::new(clock);
    let start = std::sync::Barrier::new(setting.threads as usize);
    std::thread::scope(|scope| {
        for thread in 0..setting.threads {
            let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ thread << 56);
            let (recorder, start) = (&recorder, &start);
            scope.spawn(move || {
                let mut caller =
                    Caller { setting, store, clock, recorder, random, held: Vec::new() };
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
                let runtime = runtime.expect("a runtime");
                start.wait();
                runtime.block_on(caller.run());
            });
        }
    });
    recorder.history()
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// One thread's caller.
struct Caller<'r> {
    setting: Setting,
    store: &'r Arc<dyn Store>,
    clock: &'r ManualClock,
    recorder: &'r Recorder<'r>,
    random: Random,
    /// Claims won and not settled.
    held: Vec<(u64, Ticket)>,
}

impl Caller<'_> {
    async fn run(&mut self) {
        for _ in 0..self.setting.begins {
            if self.random.below(6) == 0 {
                self.clock.advance(1 + self.random.below(3));
            }
            self.begin().await;
            self.reserve().await;
            if !self.held.is_empty() && self.random.below(3) > 0 {
                self.settle().await;
            }
        }
        while !self.held.is_empty() {
            self.settle().await;
        }
    }

    /// Reserves another attempt under a claim, now and then: whoever holds it may.
    async fn reserve(&mut self) {
        if self.random.below(4) == 0
            && let Some((_, ticket)) = self.held.last_mut()
        {
            assert_eq!(self.store.reserve_attempt(ticket).await, Ok(Settled::Done));
        }
    }

    fn dispatch(&mut self) -> Dispatch {
        match self.setting.routes {
            true => DISPATCHES[self.random.below(DISPATCHES.len() as u64) as usize],
            false => Dispatch::UNDECLARED,
        }
    }

    async fn begin(&mut self) {
        let slot = self.random.below(u64::from(self.setting.slots)) as u8;
        let hash = u8::from(self.random.below(8) == 0);
        let dispatch = self.dispatch();
        let pending = self.recorder.call(Call::Begin { slot, hash, dispatch });
        let begin = Begin { dispatch, ..begin_on(slot, hash) };
        let mut asking = self.store.begin(Asked::at(DOMAIN, begin));
        let begun = if self.random.below(16) == 0 {
            match asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(begun) => begun,
                Poll::Pending => {
                    drop(asking);
                    return self.recorder.given_up(pending);
                }
            }
        } else {
            asking.await
        };
        let claim = pending.number;
        let told = match begun {
            Ok(Begun::First(ticket)) => {
                self.held.push((claim, ticket));
                Told::First
            }
            Ok(Begun::Replay(reply)) => Told::Replay(claim_of(&reply)),
            Ok(Begun::Conflict) => Told::Conflict,
            Ok(Begun::OtherRoute) => Told::OtherRoute,
            Ok(Begun::InFlight) => Told::InFlight,
            Ok(Begun::Unknown) => Told::Tombstone { unknown: true },
            Ok(Begun::NotReplayable) => Told::Tombstone { unknown: false },
            Ok(Begun::Capacity(limit)) => Told::Capacity(limit),
            Err(StoreError::Timeout) => return self.recorder.given_up(pending),
            Err(error) => panic!("a begin failed: {error}"),
        };
        self.recorder.returned(pending, Answer::Begun(told));
    }

    async fn settle(&mut self) {
        let place = self.random.below(self.held.len() as u64) as usize;
        let (claim, ticket) = self.held.swap_remove(place);
        let choice = self.random.below(16);
        let end = match choice {
            0 | 1 => End::Unknown,
            2 => End::NotReplayable,
            3 | 4 => End::Release,
            // Where there are redispatches, there must be something to take again.
            5..=8 if self.setting.routes => End::Unknown,
            _ => End::Complete,
        };
        let pending = self.recorder.call(Call::Settle { claim, end });
        let settling = match end {
            // Dropped, it settles as unknown, and nobody hears when.
            End::Unknown if choice == 0 => {
                drop(ticket);
                return self.recorder.given_up(pending);
            }
            End::Unknown => self.store.tombstone(ticket, TombstoneReason::Unknown),
            End::NotReplayable => self.store.tombstone(ticket, TombstoneReason::NotReplayable),
            End::Release => self.store.release(ticket),
            End::Complete => self.store.complete(ticket, reply(claim)),
        };
        match settling.await {
            Ok(settled) => {
                self.recorder.returned(pending, Answer::Settled(settled == Settled::Done));
            }
            Err(StoreError::Timeout) => self.recorder.given_up(pending),
            Err(error) => panic!("a settle failed: {error}"),
        }
    }
}

/// A reply that says which claim it was.
fn reply(claim: u64) -> Reply {
    Reply::new(200, None, Bytes::copy_from_slice(&claim.to_be_bytes()), 64).expect("8 bytes fit")
}

fn claim_of(reply: &Reply) -> u64 {
    let bytes = reply.body().as_ref().try_into().expect("8 bytes were stored");
    u64::from_be_bytes(bytes)
}

/// Caps of the store, of a principal and of a scope, each of records and of records in flight.
pub fn limits(store: (u32, u32), principal: (u32, u32), scope: (u32, u32), tombs: u32) -> Limits {
    Limits {
        ttl: Millis(6),
        tombstone_ttl: Millis(8),
        entries: store.0,
        in_flight: store.1,
        principal_entries: principal.0,
        principal_in_flight: principal.1,
        scope_entries: scope.0,
        scope_in_flight: scope.1,
        scope_tombstones: tombs,
        reply_bytes: 64,
    }
}
