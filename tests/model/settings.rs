//! The settings that are explored.

use onceward::claim::{Dispatch, Pin};

use crate::coverage::Event::{
    CoordinatorRoom, Death, Hit, LookAgain, NotTheOldest, Orphaned, OtherRoute, OwnEviction,
    Redispatched, Refused, RefusedWaiter, RemoteEviction, RemoteRoom, Replay, StaleSettle,
    SweepRequest, Unavailable,
};
use crate::explore;
use crate::naive::End::{self, Complete, Release, Unknown};
use crate::naive::to;
use crate::setting::{Grain, Setting, caps, store_caps};

/// Slots of four principals. Of two shards, the even ones are in the one and the odd ones in the
/// other; of three, the first three are each in their own.
const P0: u8 = 0;
const P1: u8 = 8;
const P2: u8 = 16;
const P3: u8 = 24;
/// A slot in another scope of the same principal.
const OTHER_SCOPE: u8 = 4;

/// A tool that may be sent again after an unknown outcome, and the same one moved elsewhere.
const AGAIN: Dispatch = to(0, Pin::Free, true);
const ELSEWHERE: Dispatch = to(1, Pin::Always, true);

const ANY: &[End] = &[Complete, Unknown, Release];

fn by_message(name: &'static str) -> Setting {
    Setting {
        name,
        grain: Grain::Message,
        shards: 2,
        limits: store_caps(2, 2),
        clients: &[],
        dispatches: &[],
        ends: &[Complete],
        ticks: 0,
        deaths: 0,
        orphans: false,
        rumour: false,
        twice: false,
        hits: false,
    }
}

fn by_access(name: &'static str) -> Setting {
    Setting { grain: Grain::Access, ..by_message(name) }
}

/// Small enough for every run of the tests.
#[test]
fn small_settings() {
    let clients = &[(P0, 0), (P1, 0), (P2, 0)];
    let setting = Setting { clients, ends: ANY, ..by_message("a full store") };
    explore(setting, &[OwnEviction, RemoteEviction, RemoteRoom, CoordinatorRoom]);

    let setting = Setting { clients, ..by_access("a full store, by access") };
    explore(setting, &[OwnEviction, RemoteEviction]);

    let clients = &[(P0, 0), (P0, 0), (P0, 1)];
    let limits = store_caps(1, 1);
    let setting = Setting { clients, limits, ends: ANY, twice: true, ..by_message("one slot") };
    explore(setting, &[Replay, StaleSettle]);

    let setting = Setting {
        clients: &[(P0, 0), (P0, 0), (P0, 0), (P1, 0)],
        dispatches: &[AGAIN, AGAIN, ELSEWHERE],
        limits: store_caps(2, 1),
        ends: ANY,
        twice: true,
        ..by_message("a redispatch, one in flight")
    };
    explore(setting, &[Redispatched, OtherRoute, StaleSettle, Refused]);
}

#[test]
#[ignore = "needs optimisation: just model"]
fn redispatches() {
    let setting = Setting {
        clients: &[(P0, 0), (P0, 0), (P0, 0), (P1, 0)],
        dispatches: &[AGAIN, AGAIN, AGAIN],
        limits: store_caps(2, 1),
        ends: ANY,
        ticks: 2,
        hits: true,
        ..by_message("redispatches, one in flight, expiry")
    };
    explore(setting, &[Redispatched, Refused, Replay, Hit]);

    // One that waits for room in the store, and a redispatch of its principal behind it.
    let setting = Setting {
        clients: &[(P0, 0), (P1, 0), (P0 + 1, 0), (P0, 0)],
        dispatches: &[AGAIN, AGAIN, AGAIN, AGAIN],
        limits: caps((2, 2), (2, 1), (2, 1), 2),
        ends: ANY,
        ..by_message("a redispatch behind a waiter")
    };
    explore(setting, &[Redispatched, RemoteEviction, Refused]);

    let setting = Setting {
        clients: &[(P0, 0), (P0, 0), (P1, 0), (P2, 0)],
        dispatches: &[AGAIN, AGAIN],
        limits: store_caps(2, 1),
        ends: &[Complete, Unknown],
        ..by_access("a redispatch, one in flight, by access")
    };
    explore(setting, &[Redispatched, Refused]);

    let setting = Setting {
        clients: &[(P0, 0), (P0, 0), (P1, 0)],
        dispatches: &[AGAIN, AGAIN],
        ends: ANY,
        deaths: 1,
        ticks: 1,
        ..by_message("a redispatch and a death")
    };
    explore(setting, &[Redispatched, Death]);
}

#[test]
#[ignore = "needs optimisation: just model"]
fn any_end_and_expiry_by_message() {
    let clients = &[(P0, 0), (P1, 0), (P2, 0), (P3, 0)];
    let limits = store_caps(2, 1);
    let setting =
        Setting { clients, limits, ends: ANY, ticks: 2, ..by_message("one in flight, expiry") };
    explore(setting, &[OwnEviction, RemoteEviction, CoordinatorRoom, SweepRequest, Refused]);

    let clients = &[(P0, 0), (P1, 0), (P2, 0), (P3, 0)];
    let limits = store_caps(3, 2);
    let ends = &[Complete, Unknown];
    let setting = Setting { clients, limits, ends, ticks: 2, ..by_message("three, expiry") };
    explore(setting, &[OwnEviction, RemoteEviction, RemoteRoom, SweepRequest, Refused]);
}

#[test]
#[ignore = "needs optimisation: just model"]
fn waiters_on_one_slot() {
    let clients = &[(P1, 0), (P0, 0), (P0, 0), (P0, 1), (P0, 0)];
    let limits = store_caps(1, 1);
    let setting = Setting {
        clients,
        limits,
        ends: ANY,
        ticks: 2,
        hits: true,
        ..by_message("waiters on one slot")
    };
    explore(setting, &[RemoteEviction, Replay, Hit, RefusedWaiter]);

    let clients = &[(P1, 0), (P0, 0), (P0, 0), (P0 + 1, 0)];
    let limits = store_caps(2, 2);
    let setting =
        Setting { clients, limits, hits: true, ..by_access("waiters on one slot, by access") };
    explore(setting, &[Replay, Hit]);
}

#[test]
#[ignore = "needs optimisation: just model"]
fn the_index_during_evictions() {
    let clients = &[(P0, 0), (P0, 0), (P0 + 1, 0), (P1, 0)];
    let limits = caps((2, 2), (1, 1), (1, 1), 2);
    let setting = Setting { clients, limits, hits: true, ..by_access("index, scope, by access") };
    explore(setting, &[OwnEviction, Hit]);

    let clients = &[(P0, 0), (P0, 0), (P1, 0), (P2, 0)];
    let limits = store_caps(1, 1);
    let setting = Setting { clients, limits, hits: true, ..by_access("index, store, by access") };
    explore(setting, &[OwnEviction, RemoteEviction, Hit]);
}

#[test]
#[ignore = "needs optimisation: just model"]
fn scopes_and_tombstones() {
    let clients = &[(P0, 0), (P0 + 1, 0), (P0 + OTHER_SCOPE, 0), (P1, 0)];
    let limits = caps((2, 2), (2, 2), (1, 1), 1);
    let setting = Setting {
        clients,
        limits,
        ends: ANY,
        ticks: 2,
        ..by_message("scopes of one record and one tombstone")
    };
    explore(setting, &[OwnEviction, RemoteEviction, Refused]);

    let clients = &[(P0, 0), (P0 + 1, 0), (P0 + OTHER_SCOPE, 0), (P1, 0)];
    let limits = caps((3, 2), (2, 1), (2, 1), 1);
    let setting = Setting { clients, limits, ..by_access("principals of two records, by access") };
    explore(setting, &[OwnEviction, Refused]);
}

#[test]
#[ignore = "needs optimisation: just model"]
fn evictions_by_access() {
    let clients = &[(P0, 0), (P1, 0), (P2, 0), (P0 + 1, 0)];
    let setting = Setting { clients, ..by_access("four clients, by access") };
    explore(setting, &[OwnEviction, RemoteEviction, NotTheOldest, LookAgain]);

    let clients = &[(P0, 0), (P1, 0), (P2, 0), (P3, 0)];
    let limits = store_caps(2, 1);
    let setting = Setting { clients, limits, ..by_access("one in flight, by access") };
    explore(setting, &[OwnEviction, RemoteEviction, RefusedWaiter]);

    let limits = store_caps(1, 1);
    let setting = Setting { clients, limits, ..by_access("one record, by access") };
    explore(setting, &[OwnEviction, RemoteEviction]);
}

#[test]
#[ignore = "needs optimisation: just model"]
fn expiry_by_access() {
    let clients = &[(P0, 0), (P1, 0), (P2, 0)];
    let setting =
        Setting { clients, ends: ANY, ticks: 2, ..by_access("any end, expiry, by access") };
    explore(setting, &[OwnEviction, RemoteEviction, RemoteRoom, SweepRequest, NotTheOldest]);

    let limits = store_caps(1, 1);
    let setting = Setting {
        clients,
        limits,
        ends: ANY,
        ticks: 2,
        ..by_access("one record, expiry, by access")
    };
    explore(setting, &[RemoteEviction, SweepRequest]);
}

#[test]
#[ignore = "needs optimisation: just model"]
fn three_shards() {
    let clients = &[(P0, 0), (P1, 0), (P2, 0), (P0 + 1, 0)];
    let setting = Setting { shards: 3, clients, ends: ANY, ticks: 1, ..by_message("three shards") };
    explore(setting, &[OwnEviction, RemoteEviction, RemoteRoom, CoordinatorRoom]);

    let clients = &[(P0, 0), (P1, 0), (P2, 0)];
    let setting = Setting { shards: 3, clients, ..by_access("three shards, by access") };
    explore(setting, &[RemoteEviction, NotTheOldest]);
}

/// A shard that is told to be dead in a life that is not its own goes on as if nothing were said.
#[test]
fn a_rumour_of_a_death() {
    let clients = &[(P0, 0), (P1, 0), (P2, 0)];
    let limits = store_caps(1, 1);
    let setting =
        Setting { clients, limits, rumour: true, deaths: 1, ..by_message("a rumour of a death") };
    explore(setting, &[Death, RemoteEviction, OwnEviction]);
}

#[test]
#[ignore = "needs optimisation: just model"]
fn deaths() {
    let clients = &[(P0, 0), (P1, 0), (P2, 0), (P3, 0)];
    let setting = Setting { clients, ends: ANY, deaths: 1, ..by_message("a shard dies") };
    explore(setting, &[Death, RemoteEviction]);

    let clients = &[(P0, 0), (P1, 0), (P2, 0), (P0 + 1, 0)];
    let ends = &[Complete, Unknown];
    let setting = Setting {
        shards: 3,
        clients,
        ends,
        deaths: 1,
        ticks: 1,
        ..by_message("one of three dies")
    };
    explore(setting, &[Death, RemoteEviction]);

    let clients = &[(P0, 0), (P1, 0), (P2, 0)];
    let limits = store_caps(1, 1);
    let setting = Setting {
        shards: 3,
        clients,
        limits,
        deaths: 1,
        orphans: true,
        ..by_access("a shard and the coordinator die, by access")
    };
    explore(setting, &[Death, Orphaned, Unavailable, RemoteEviction, LookAgain]);
}
