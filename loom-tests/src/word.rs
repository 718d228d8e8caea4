//! The three counts: no begin raises one above its cap, what is taken is given back, and they move
//! together.
//!
//! Bounds: two or three threads, every preemption; where a test says so, at most two preemptions
//! each history.

use std::sync::Arc;

use loom::model::Builder;
use loom::thread;
use onceward::claim::Millis;
use onceward::claim::counts::{Counts, Full, InFlightFull, Room};
use onceward::claim::shared::{Home, Shared};
use onceward::ledger::Ledger;

use super::{all_three, home, ledger, together};

fn counts(records: u32, in_flight: u32, completed: u32) -> Counts {
    Counts { records, in_flight, completed }
}

#[test]
fn of_three_begins_two_find_room_for_two() {
    for (entries, in_flight, refusal) in
        [(2, 3, Full::Entries { completed: 0 }), (3, 2, Full::InFlight)]
    {
        loom::model(move || {
            let ledger = ledger(entries, in_flight);
            let mut answers = all_three([0, 1, 2].map(|shard| {
                let mut home = home(&ledger, shard);
                Box::new(move || home.start()) as Box<dyn FnOnce() -> _>
            }));
            answers.sort_by_key(Result::is_err);
            assert_eq!(answers, [Ok(()), Ok(()), Err(refusal)]);
            assert_eq!(ledger.counts(), counts(2, 2, 0));
        });
    }
}

#[test]
fn whole_lives_side_by_side_leave_nothing_and_stay_below_the_caps() {
    loom::model(|| {
        let ledger = ledger(1, 1);
        let life = |shard| {
            let mut home = home(&ledger, shard);
            move || {
                let started = home.start().is_ok();
                let seen = home.counts();
                if started {
                    home.complete(Millis(5));
                    home.sweep(1, 1);
                }
                seen
            }
        };
        let (one, two) = together(life(0), life(1));
        for seen in [one, two] {
            let whole = seen.in_flight + seen.completed == seen.records;
            assert!(seen.records <= 1 && whole, "{seen:?}");
        }
        assert_eq!(ledger.counts(), counts(0, 0, 0));
    });
}

#[test]
fn an_eviction_takes_the_permit_over_and_nobody_slips_in() {
    loom::model(|| {
        let ledger = ledger(1, 2);
        let mut owner = home(&ledger, 0);
        owner.start().unwrap();
        owner.complete(Millis(5));
        let mut other = home(&ledger, 1);
        let (evicted, refused) = together(move || owner.start_or_evict(), move || other.start());
        assert_eq!(evicted, Ok(Room::Evicted));
        assert!(matches!(refused, Err(Full::Entries { .. })), "{refused:?}");
        assert_eq!(ledger.counts(), counts(1, 1, 0));
    });
}

#[test]
fn an_eviction_that_meets_a_release_evicts_only_if_it_must() {
    loom::model(|| {
        let ledger = ledger(2, 2);
        let mut owner = home(&ledger, 0);
        owner.start().unwrap();
        owner.complete(Millis(5));
        let mut other = home(&ledger, 1);
        other.start().unwrap();
        let (room, ()) = together(move || owner.start_or_evict(), move || other.release());
        match room {
            Ok(Room::Free) => assert_eq!(ledger.counts(), counts(2, 1, 1)),
            Ok(Room::Evicted) => assert_eq!(ledger.counts(), counts(1, 1, 0)),
            Err(InFlightFull) => panic!("two may be in flight"),
        }
    });
}

#[test]
fn two_evictions_and_one_place_in_flight() {
    loom::model(|| {
        let ledger = ledger(2, 1);
        let mut first = home(&ledger, 0);
        let mut second = home(&ledger, 1);
        for home in [&mut first, &mut second] {
            home.start().unwrap();
            home.complete(Millis(5));
        }
        let (one, two) =
            together(move || first.start_or_evict().is_ok(), move || second.evict().is_ok());
        assert!(one ^ two, "exactly one has its place");
        assert_eq!(ledger.counts(), counts(2, 1, 1));
    });
}

#[test]
fn a_redispatch_and_a_begin_and_one_place_in_flight() {
    loom::model(|| {
        let ledger = ledger(3, 1);
        let mut unknown = home(&ledger, 0);
        unknown.start().unwrap();
        unknown.tombstone(Millis(5));
        let mut other = home(&ledger, 1);
        let (again, begun) = together(move || unknown.redispatch(), move || other.start());
        match (again, begun) {
            (Ok(()), Err(Full::InFlight)) => assert_eq!(ledger.counts(), counts(1, 1, 0)),
            (Err(InFlightFull), Ok(())) => assert_eq!(ledger.counts(), counts(2, 1, 0)),
            other => panic!("{other:?}: exactly one has its place"),
        }
    });
}

#[test]
fn a_redispatch_beside_an_eviction_keeps_its_record() {
    loom::model(|| {
        let ledger = ledger(2, 2);
        let mut unknown = home(&ledger, 0);
        unknown.start().unwrap();
        unknown.tombstone(Millis(5));
        let mut owner = home(&ledger, 1);
        owner.start().unwrap();
        owner.complete(Millis(5));
        let (again, room) = together(
            move || {
                let again = unknown.redispatch();
                unknown.tombstone(Millis(6));
                again
            },
            move || owner.start_or_evict(),
        );
        assert_eq!((again, room), (Ok(()), Ok(Room::Evicted)));
        assert_eq!(ledger.counts(), counts(2, 1, 0));
    });
}

#[test]
fn a_reading_never_sees_half_a_transition() {
    loom::model(|| {
        let ledger = ledger(2, 2);
        let mut home = home(&ledger, 0);
        home.start().unwrap();
        let reader = Arc::clone(&ledger);
        let ((), readings) = together(
            move || {
                home.complete(Millis(5));
                home.evict().unwrap();
                home.tombstone(Millis(6));
            },
            move || [reader.counts(), reader.counts()],
        );
        let states = [counts(1, 1, 0), counts(1, 0, 1), counts(1, 0, 0)];
        for seen in readings {
            assert!(states.contains(&seen), "{seen:?}");
        }
        assert_eq!(ledger.counts(), counts(1, 0, 0));
    });
}

/// At most two preemptions.
#[test]
fn whatever_the_ends_all_of_it_is_given_back() {
    let mut bounded = Builder::new();
    bounded.preemption_bound = Some(2);
    bounded.check(|| {
        let ledger = ledger(2, 1);
        let watched = |ledger: &Arc<Ledger>| {
            let seen = ledger.counts();
            assert!(seen.records <= 2 && seen.in_flight <= 1, "above a cap: {seen:?}");
            assert!(seen.in_flight + seen.completed <= seen.records, "torn: {seen:?}");
        };
        let mut unknown = home(&ledger, 0);
        let seen = Arc::clone(&ledger);
        let unknown = thread::spawn(move || {
            if unknown.start().is_ok() {
                unknown.tombstone(Millis(5));
                watched(&seen);
                unknown.sweep(1, 0);
            }
        });
        let mut released = home(&ledger, 1);
        let released = thread::spawn(move || {
            if released.start().is_ok() {
                released.release();
            }
        });
        let mut evicted = home(&ledger, 2);
        let seen = Arc::clone(&ledger);
        let evicted = thread::spawn(move || {
            if evicted.start().is_ok() {
                evicted.complete(Millis(5));
                watched(&seen);
                if evicted.evict().is_ok() {
                    evicted.complete(Millis(5));
                }
                evicted.sweep(1, 1);
            }
        });
        for life in [unknown, released, evicted] {
            life.join().unwrap();
        }
        assert_eq!(ledger.counts(), Counts::default());
    });
}

#[test]
fn the_permits_of_a_dead_shard_stay_counted() {
    loom::model(|| {
        let ledger = ledger(2, 2);
        let mut dying = home(&ledger, 0);
        dying.start().unwrap();
        dying.complete(Millis(5));
        let mut other = home(&ledger, 1);
        let ((), started) = together(
            move || dying.abandon(),
            move || {
                let started = [other.start(), other.start()];
                other.complete(Millis(6));
                started
            },
        );
        assert_eq!(started[0], Ok(()));
        assert!(matches!(started[1], Err(Full::Entries { completed: 0 | 1 })), "{started:?}");
        assert_eq!(ledger.counts(), counts(2, 0, 1), "the dead one's record and the other's");
    });
}
