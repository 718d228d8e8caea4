//! The checker on histories written by hand.

use onceward::claim::{CapacityLimit, Dispatch, Pin};

use crate::checker::is_linearizable;
use crate::hammer::limits;
use crate::history::{Answer, Call, NEVER, Operation, Told};
use crate::naive::{End, to};

/// One record in the whole store.
fn check(history: &[Operation]) -> bool {
    is_linearizable(limits((1, 1), (1, 1), (1, 1), 1), history)
}

fn begin(number: u64, slot: u8, time: (u64, u64), told: Told) -> Operation {
    begin_to(number, slot, Dispatch::UNDECLARED, time, told)
}

fn begin_to(number: u64, slot: u8, dispatch: Dispatch, time: (u64, u64), told: Told) -> Operation {
    let call = Call::Begin { slot, hash: 0, dispatch };
    operation(number, call, time, Answer::Begun(told))
}

fn settle(number: u64, claim: u64, end: End, time: (u64, u64)) -> Operation {
    operation(number, Call::Settle { claim, end }, time, Answer::Settled(true))
}

fn operation(number: u64, call: Call, time: (u64, u64), answer: Answer) -> Operation {
    Operation { number, call, answer, called: time.0, returned: time.1, clock: (0, 0) }
}

#[test]
fn operations_that_overlap_may_be_ordered_either_way() {
    let won = begin(0, 0, (0, 3), Told::First);
    let behind = begin(1, 0, (1, 2), Told::InFlight);
    assert!(check(&[won, behind]));
    let too_early = begin(1, 0, (0, 1), Told::InFlight);
    let after = begin(0, 0, (2, 3), Told::First);
    assert!(!check(&[too_early, after]), "what has returned comes first");
}

#[test]
fn of_two_begins_on_a_slot_one_is_first() {
    let both = [begin(0, 0, (0, 2), Told::First), begin(1, 0, (1, 3), Told::First)];
    assert!(!check(&both));
}

#[test]
fn nothing_is_replayed_after_its_eviction() {
    let history = |last| {
        [
            begin(0, 0, (0, 1), Told::First),
            settle(1, 0, End::Complete, (2, 3)),
            begin(2, 1, (4, 5), Told::First),
            begin(3, 0, (6, 7), last),
        ]
    };
    assert!(check(&history(Told::Capacity(CapacityLimit::ScopeInFlight))));
    assert!(!check(&history(Told::Replay(0))));
}

#[test]
fn a_settle_that_nobody_awaits_may_land_late_or_never() {
    let dropped = Operation { answer: Answer::None, ..settle(1, 0, End::Unknown, (2, NEVER)) };
    let history = |told| [begin(0, 0, (0, 1), Told::First), dropped, begin(2, 0, (3, 4), told)];
    assert!(check(&history(Told::InFlight)));
    assert!(check(&history(Told::Tombstone { unknown: true })));
    assert!(!check(&history(Told::First)), "but it frees nothing");
}

#[test]
fn a_begin_that_was_given_up_may_hold_its_slot_for_a_while() {
    let left = Operation { answer: Answer::None, ..begin(0, 0, (0, NEVER), Told::First) };
    let full = Told::Capacity(CapacityLimit::ScopeInFlight);
    let history = [left, begin(1, 1, (1, 2), full), begin(2, 1, (3, 4), Told::First)];
    assert!(check(&history));
    let twice = [left, begin(1, 1, (1, 2), Told::First), begin(2, 2, (3, 4), Told::First)];
    assert!(!check(&twice), "the second one is still in flight");
}

#[test]
fn an_unknown_call_is_taken_again_where_that_is_declared_and_never_freed() {
    let again = to(0, Pin::Free, true);
    let history = |dispatch, told, then: &[Operation]| {
        let mut history = vec![
            begin_to(0, 0, again, (0, 1), Told::First),
            settle(1, 0, End::Unknown, (2, 3)),
            begin_to(2, 0, dispatch, (4, 5), told),
        ];
        history.extend_from_slice(then);
        check(&history)
    };
    let unknown = Told::Tombstone { unknown: true };
    assert!(history(again, Told::First, &[]));
    assert!(!history(again, unknown, &[]));
    assert!(history(to(0, Pin::Free, false), unknown, &[]));
    assert!(!history(to(0, Pin::Free, false), Told::First, &[]), "it was not declared");
    assert!(history(to(1, Pin::Free, true), Told::OtherRoute, &[]));
    assert!(!history(to(1, Pin::Free, true), Told::First, &[]), "it would go elsewhere");

    let released = settle(3, 2, End::Release, (6, 7));
    let last = |told| begin(4, 0, (8, 9), told);
    assert!(history(again, Told::First, &[released, last(unknown)]));
    assert!(!history(again, Told::First, &[released, last(Told::First)]));
}

#[test]
fn a_redispatch_that_was_given_up_is_unknown_again() {
    let again = to(0, Pin::Free, true);
    let left = begin_to(2, 0, again, (4, NEVER), Told::First);
    let history = |told| {
        [
            begin_to(0, 0, again, (0, 1), Told::First),
            settle(1, 0, End::Unknown, (2, 3)),
            Operation { answer: Answer::None, ..left },
            begin(3, 0, (5, 6), told),
        ]
    };
    assert!(check(&history(Told::InFlight)));
    assert!(check(&history(Told::Tombstone { unknown: true })));
    assert!(!check(&history(Told::First)), "its release frees nothing");
}

#[test]
fn a_clock_may_be_any_instant_of_its_interval_and_none_outside() {
    let history = |clock, told| {
        let mut last = begin(2, 0, (4, 5), told);
        last.clock = clock;
        [begin(0, 0, (0, 1), Told::First), settle(1, 0, End::Complete, (2, 3)), last]
    };
    for told in [Told::Replay(0), Told::First] {
        assert!(check(&history((5, 6), told)), "the reply stands until 6");
    }
    assert!(!check(&history((5, 5), Told::First)));
    assert!(!check(&history((6, 6), Told::Replay(0))));
}
