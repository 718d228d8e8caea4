//! Eviction by the real machines while another shard completes: the victim is the oldest of all,
//! and nobody waits, or is asked again, for what is not older.
//!
//! Bounds: two threads, every preemption; three threads, at most two preemptions each history.

use std::sync::Arc;

use loom::model::Builder;
use loom::thread;
use onceward::claim::coordinator::Coordinator;
use onceward::claim::protocol::{
    CallId, CoordinatorDecision, EvictAnswer, Outcome, ShardId, ToCoordinator, ToShard, Verdict,
    Waiter,
};
use onceward::claim::{Begin, CompletionSeq, Fence, Millis, PrincipalId};
use onceward::ledger::Ledger;

use super::ledger;
use super::machines::{Machine, begin, limits};

/// A shard with one record in flight, and how to complete it.
struct Busy {
    machine: Machine<()>,
    begin: Begin,
    fence: Fence,
}

impl Busy {
    /// In a store with as many places as there are such shards.
    fn new(ledger: &Arc<Ledger>, places: u32, shard: usize) -> Self {
        let mut machine = Machine::new(ledger, shard, limits(places, places, places), ());
        let begin = begin(shard as u8, shard as u8);
        let fence = machine.first(begin);
        Self { machine, begin, fence }
    }

    fn complete(mut self) -> Machine<()> {
        self.machine.complete(self.begin, self.fence);
        self.machine
    }
}

/// The owner completes and begins again, while the others complete.
fn begin_beside(owner: usize, others: &[usize]) {
    let places = 1 + others.len() as u32;
    let ledger = ledger(places, places);
    let mine = Busy::new(&ledger, places, owner);
    let others: Vec<_> = others.iter().map(|shard| Busy::new(&ledger, places, *shard)).collect();
    let complete = |other: Busy| thread::spawn(move || other.complete().oldest());
    let others: Vec<_> = others.into_iter().map(complete).collect();
    let mine = thread::spawn(move || {
        let mut mine = mine.complete();
        (mine.oldest(), mine.begin(begin(owner as u8, 9)))
    });
    let (my_oldest, outcome) = mine.join().unwrap();
    let least = others.into_iter().filter_map(|other| other.join().unwrap()).min();
    match outcome {
        Some(Outcome::First(_)) => assert!(my_oldest < least, "{my_oldest:?} before {least:?}"),
        None => assert!(least < my_oldest, "it waits for {least:?}, which is no older"),
        other => panic!("{other:?}: there is something to evict"),
    }
}

#[test]
fn an_owner_evicts_the_oldest_of_two_shards_and_waits_only_for_an_older_one() {
    for (owner, other) in [(0, 1), (1, 0)] {
        loom::model(move || begin_beside(owner, &[other]));
    }
}

#[test]
fn an_owner_evicts_the_oldest_of_three_shards() {
    let mut bounded = Builder::new();
    bounded.preemption_bound = Some(2);
    bounded.check(|| begin_beside(1, &[0, 2]));
}

/// What the coordinator found for a begin of a third shard.
struct Found {
    mine: Option<CompletionSeq>,
    theirs: Option<CompletionSeq>,
    asked: Vec<usize>,
}

/// The owner has completed, the other is about to, and the coordinator looks for the oldest until
/// somebody has evicted it.
fn look(
    mut ledger: Arc<Ledger>,
    mut mine: Machine<()>,
    owner: usize,
    theirs: thread::JoinHandle<Machine<()>>,
) -> Found {
    let principal = PrincipalId::from_bytes([2; 32]);
    let waiter = Waiter { shard: ShardId(2), call: CallId(7), principal };
    let mut coordinator = Coordinator::new(3);
    let mut message = ToCoordinator::Ask(waiter);
    let mut theirs = Some(theirs);
    let mut found = Found { mine: mine.oldest(), theirs: None, asked: Vec::new() };
    loop {
        let mut out = Vec::new();
        coordinator.step(Millis(0), message, &mut ledger, &mut out);
        let Some(CoordinatorDecision::Send { shard, message: sent }) = out.pop() else {
            panic!("the owner publishes its oldest: there is somebody to ask");
        };
        let (request, bound) = match sent {
            ToShard::Evict { request, bound, .. } => (request, bound),
            ToShard::Answer { verdict: Verdict::Admitted, .. } => break,
            sent => panic!("{sent:?}: there is something to evict"),
        };
        found.asked.push(shard.0);
        let answer = if shard.0 == owner {
            mine.evict(request, waiter, bound)
        } else {
            // The other takes the message when it is done with what it does.
            let mut theirs = theirs.take().expect("it is asked once").join().unwrap();
            found.theirs = theirs.oldest();
            theirs.evict(request, waiter, bound)
        };
        assert!(shard.0 != owner || answer == EvictAnswer::Evicted, "what is published is exact");
        message = ToCoordinator::Evicted { request, answer };
    }
    if let Some(theirs) = theirs {
        found.theirs = theirs.join().unwrap().oldest();
    }
    found
}

fn look_beside(owner: usize, other: usize) {
    let ledger = ledger(2, 2);
    let mine = Busy::new(&ledger, 2, owner);
    let theirs = Busy::new(&ledger, 2, other);
    let theirs = thread::spawn(move || theirs.complete());
    let looking = thread::spawn(move || look(ledger, mine.complete(), owner, theirs));
    let Found { mine, theirs, asked } = looking.join().unwrap();
    let oldest = if mine < theirs { owner } else { other };
    assert_eq!(asked.last(), Some(&oldest), "{mine:?} and {theirs:?}");
    assert!(asked.len() <= 2, "each is asked once at most: {asked:?}");
}

#[test]
fn the_coordinator_finds_the_oldest_and_does_not_ask_again_on_equal_bounds() {
    for (owner, other) in [(0, 1), (1, 0)] {
        loom::model(move || look_beside(owner, other));
    }
}
