//! Each predicate lets through what is right and names what is not.

use bytes::Bytes;

use super::*;
use crate::claim::{Dispatch, Pin};

fn digest(number: u8) -> [u8; 32] {
    [number; 32]
}

const FLYING: StateView = StateView::InFlight { again: false };

fn record(slot: u8, scope: u8, principal: u8, state: StateView) -> RecordView {
    RecordView {
        slot: SlotKey::from_bytes(digest(slot)),
        scope: ScopeId::from_bytes(digest(scope)),
        principal: PrincipalId::from_bytes(digest(principal)),
        hash: RequestHash::from_bytes(digest(0)),
        fence: Some(Fence(u64::from(slot))),
        dispatch: None,
        state,
    }
}

fn completed(seq: u64, expires: u64) -> StateView {
    let reply = Reply::new(200, None, Bytes::new(), 0).expect("an empty body fits");
    StateView::Completed {
        seq: CompletionSeq(seq),
        expires: Millis(expires),
        reply: Arc::new(reply),
    }
}

fn tombstone(expires: u64) -> StateView {
    StateView::Tombstone { reason: TombstoneReason::Unknown, expires: Millis(expires) }
}

fn begin(slot: u8, scope: u8, principal: u8) -> Begin {
    let record = record(slot, scope, principal, FLYING);
    Begin {
        slot: record.slot,
        scope: record.scope,
        principal: record.principal,
        hash: record.hash,
        dispatch: crate::claim::Dispatch::UNDECLARED,
    }
}

/// What a principal, or a scope of it, counts.
fn group(
    principal: u8,
    scope: Option<u8>,
    records: u32,
    in_flight: u32,
    tombstones: u32,
) -> GroupView {
    GroupView {
        principal: PrincipalId::from_bytes(digest(principal)),
        scope: scope.map(|scope| ScopeId::from_bytes(digest(scope))),
        records,
        in_flight,
        tombstones,
    }
}

/// Room for three, two of a principal, one of a scope.
fn limits() -> Limits {
    Limits {
        entries: 3,
        in_flight: 3,
        principal_entries: 2,
        principal_in_flight: 2,
        scope_entries: 1,
        scope_in_flight: 1,
        scope_tombstones: 1,
        ..Limits::default()
    }
}

fn property(result: Result<(), Violation>) -> &'static str {
    result.expect_err("the property must be violated").property
}

#[test]
fn p1_lets_records_go_as_they_may_and_no_other_way() {
    let now = Millis(10);
    let flying = record(1, 1, 1, FLYING);
    let replayed = record(2, 2, 1, completed(0, 20));
    let lost = record(3, 3, 1, tombstone(20));
    let over = record(4, 4, 1, tombstone(10));
    let before = [flying.clone(), replayed.clone(), lost.clone(), over.clone()];
    assert_eq!(p1_one_execution(&before, &before, now, &[]), Ok(()));
    assert_eq!(p1_one_execution(&before, std::slice::from_ref(&lost), now, &[]), Ok(()));
    assert_eq!(property(p1_one_execution(&before, &[flying, replayed], now, &[])), "P1");
    let again = RecordView { fence: Some(Fence(99)), ..lost.clone() };
    assert_eq!(property(p1_one_execution(&before, &[again], now, &[])), "P1");
    let anew = RecordView { fence: Some(Fence(99)), state: FLYING, ..over };
    assert_eq!(p1_one_execution(&before, &[lost.clone(), anew], now, &[]), Ok(()));
    assert_eq!(property(p1_one_execution(&[], &[lost.clone(), lost], now, &[])), "P1");
}

#[test]
fn p1_knows_a_completed_record_by_its_place() {
    let now = Millis(10);
    let step = |before: &RecordView, after: &RecordView| {
        let (before, after) = (std::slice::from_ref(before), std::slice::from_ref(after));
        p1_one_execution(before, after, now, &[])
    };
    let flying = record(1, 1, 1, FLYING);
    let replayed = RecordView { fence: None, ..record(1, 1, 1, completed(4, 20)) };
    assert_eq!(step(&flying, &replayed), Ok(()));
    assert_eq!(step(&replayed, &replayed), Ok(()));
    let another = RecordView { fence: None, ..record(1, 1, 1, completed(5, 20)) };
    let fenced = record(1, 1, 1, completed(4, 20));
    let foreign = RecordView { fence: Some(Fence(99)), ..fenced.clone() };
    assert_eq!(property(step(&replayed, &another)), "P1");
    assert_eq!(property(step(&replayed, &flying)), "P1");
    assert_eq!(property(step(&flying, &foreign)), "P1");
    // A lapsed claim may be completed by its own ticket, and by nothing else.
    let lapsed = record(1, 1, 1, tombstone(20));
    assert_eq!(step(&lapsed, &fenced), Ok(()));
    assert_eq!(property(step(&lapsed, &foreign)), "P1");
    assert_eq!(property(step(&lapsed, &replayed)), "P1");
}

#[test]
fn p1_excepts_a_redispatch_that_was_declared_and_no_other() {
    let now = Millis(10);
    let route = |number| Some(DispatchHash::from_bytes(digest(number)));
    let lost = RecordView { dispatch: route(1), ..record(1, 1, 1, tombstone(20)) };
    let state = StateView::InFlight { again: true };
    let next = RecordView { fence: Some(Fence(99)), state, ..lost.clone() };
    let dispatch = Dispatch { hash: route(1), pin: Pin::Free, redispatch: true };
    let declared = Begin { dispatch, ..begin(1, 1, 1) };
    let step = |before: &RecordView, after: &RecordView, begin| {
        let (before, after) = (std::slice::from_ref(before), std::slice::from_ref(after));
        p1_one_execution(before, after, now, &[begin])
    };
    assert_eq!(step(&lost, &next, declared), Ok(()));

    let undeclared = Begin { dispatch: Dispatch { redispatch: false, ..dispatch }, ..declared };
    let elsewhere = Begin { dispatch: Dispatch { hash: route(2), ..dispatch }, ..declared };
    let other = Begin { hash: RequestHash::from_bytes(digest(9)), ..declared };
    for begin in [undeclared, elsewhere, other, Begin { slot: begin(2, 1, 1).slot, ..declared }] {
        assert_eq!(property(step(&lost, &next, begin)), "P1", "{begin:?}");
    }
    let kept = StateView::Tombstone { reason: TombstoneReason::NotReplayable, expires: Millis(20) };
    for state in [FLYING, completed(0, 20), kept] {
        let before = RecordView { state, ..lost.clone() };
        assert_eq!(property(step(&before, &next, declared)), "P1", "{before:?}");
    }
    let anew = RecordView { state: FLYING, ..next.clone() };
    assert_eq!(property(step(&lost, &anew, declared)), "P1", "it must be known for what it is");
    let freed = p1_one_execution(std::slice::from_ref(&next), &[], now, &[]);
    assert_eq!(property(freed), "P1", "its release frees nothing");
}

#[test]
fn p2_knows_every_cap() {
    let at_the_caps =
        [record(1, 1, 1, FLYING), record(2, 2, 1, FLYING), record(3, 3, 2, tombstone(20))];
    assert_eq!(p2_within_caps(&at_the_caps, &limits()), Ok(()));
    let lowered = [
        Limits { entries: 2, ..limits() },
        Limits { in_flight: 1, ..limits() },
        Limits { principal_entries: 1, ..limits() },
        Limits { principal_in_flight: 1, ..limits() },
        Limits { scope_entries: 0, ..limits() },
        Limits { scope_in_flight: 0, ..limits() },
        Limits { scope_tombstones: 0, ..limits() },
    ];
    for limits in lowered {
        assert_eq!(property(p2_within_caps(&at_the_caps, &limits)), "P2");
    }
}

#[test]
fn p3_compares_every_counter() {
    let records = [record(1, 1, 1, FLYING), record(2, 2, 1, tombstone(20))];
    let groups = [group(1, None, 2, 1, 1), group(1, Some(1), 1, 1, 0), group(1, Some(2), 1, 0, 1)];
    let counts = Counts { records: 2, in_flight: 1, completed: 0 };
    assert_eq!(p3_counters_match(&records, &groups, counts, 0), Ok(()));
    let granted = Counts { records: 3, in_flight: 2, completed: 0 };
    assert_eq!(p3_counters_match(&records, &groups, granted, 1), Ok(()));
    assert_eq!(property(p3_counters_match(&records, &groups, granted, 0)), "P3");
    assert_eq!(property(p3_counters_match(&records, &groups[1..], counts, 0)), "P3");
    let wrong = [
        group(1, Some(2), 2, 0, 1),
        group(1, Some(2), 1, 1, 1),
        group(1, Some(2), 1, 0, 0),
        group(2, Some(2), 1, 0, 1),
        group(1, Some(3), 1, 0, 1),
    ];
    for group in wrong {
        let groups = [groups[0], groups[1], group];
        assert_eq!(property(p3_counters_match(&records, &groups, counts, 0)), "P3");
    }
}

#[test]
fn p4_wants_the_oldest_of_the_innermost_full_quota() {
    let before = [
        record(1, 1, 1, completed(5, 20)),
        record(2, 2, 1, completed(4, 20)),
        record(3, 3, 2, completed(1, 20)),
    ];
    let check = |evicted: &[usize], begin: &Begin, outcome: &Outcome| {
        let kept = (0..3).filter(|index| !evicted.contains(index));
        let after: Vec<_> = kept.map(|index| before[index].clone()).collect();
        p4_quotas_nest(&before, &after, &limits(), Millis(10), begin, outcome)
    };
    let first = Outcome::First(Fence(9));
    assert_eq!(check(&[0], &begin(9, 1, 1), &first), Ok(()));
    assert_eq!(check(&[1], &begin(9, 9, 1), &first), Ok(()));
    assert_eq!(check(&[2], &begin(9, 9, 9), &first), Ok(()));
    assert_eq!(property(check(&[2], &begin(9, 1, 1), &first)), "P4", "another's record");
    assert_eq!(property(check(&[0], &begin(9, 9, 1), &first)), "P4", "not the oldest");
    assert_eq!(property(check(&[1, 2], &begin(9, 9, 1), &first)), "P4", "one too many");
    assert_eq!(property(check(&[], &begin(9, 9, 9), &first)), "P4", "no room");
    let refused = Outcome::Capacity(CapacityLimit::ScopeEntries);
    assert_eq!(property(check(&[], &begin(9, 1, 1), &refused)), "P4", "it could evict");
    assert_eq!(property(check(&[0], &begin(9, 1, 1), &Outcome::Conflict)), "P4");
}

#[test]
fn p4_lets_a_cap_refuse_only_when_it_is_reached() {
    let before = [record(1, 1, 1, FLYING), record(2, 2, 1, FLYING), record(3, 3, 2, tombstone(20))];
    let refused = |begin: &Begin, limit| {
        let outcome = Outcome::Capacity(limit);
        p4_quotas_nest(&before, &before, &limits(), Millis(10), begin, &outcome).is_ok()
    };
    assert!(refused(&begin(9, 1, 1), CapacityLimit::ScopeInFlight));
    assert!(!refused(&begin(9, 3, 2), CapacityLimit::ScopeInFlight));
    assert!(refused(&begin(9, 9, 1), CapacityLimit::PrincipalInFlight));
    assert!(!refused(&begin(9, 9, 2), CapacityLimit::PrincipalInFlight));
    assert!(!refused(&begin(9, 9, 9), CapacityLimit::StoreInFlight));
    assert!(refused(&begin(9, 3, 2), CapacityLimit::ScopeTombstones));
    assert!(!refused(&begin(9, 9, 2), CapacityLimit::ScopeTombstones));
    assert!(refused(&begin(9, 3, 2), CapacityLimit::ScopeEntries));
    assert!(refused(&begin(9, 9, 1), CapacityLimit::PrincipalEntries));
    assert!(refused(&begin(9, 9, 9), CapacityLimit::StoreEntries));
    assert!(!refused(&begin(9, 9, 9), CapacityLimit::PrincipalEntries));
    assert!(!refused(&begin(3, 3, 2), CapacityLimit::ScopeTombstones), "its record stands");
    let narrow = Limits { in_flight: 2, ..limits() };
    let outcome = Outcome::Capacity(CapacityLimit::StoreInFlight);
    let begin = begin(9, 9, 9);
    assert_eq!(p4_quotas_nest(&before, &before, &narrow, Millis(10), &begin, &outcome), Ok(()));
}

#[test]
fn p5_and_p6_compare_what_was_asked_with_what_came() {
    let calls = [CallId(1), CallId(2)];
    assert_eq!(p5_every_begin_answered(&calls, &[CallId(2), CallId(1)]), Ok(()));
    assert_eq!(property(p5_every_begin_answered(&calls, &calls[..1])), "P5");
    assert_eq!(property(p5_every_begin_answered(&calls[..1], &[CallId(1); 2])), "P5");
    let one = [record(1, 1, 1, FLYING)];
    assert_eq!(p6_stale_changes_nothing(&one, &[], Settled::Done), Ok(()));
    assert_eq!(p6_stale_changes_nothing(&one, &one, Settled::Stale), Ok(()));
    assert_eq!(property(p6_stale_changes_nothing(&one, &[], Settled::Stale)), "P6");
}
