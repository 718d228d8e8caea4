//! Records of workspaces: named by connection, tool and key, beside those of servers.

use std::sync::Arc;

use onceward::claim::{Begin, Limits, PrincipalId, ScopeId};
use onceward::store::{Asked, Begun, Domain, Settled, Store, Ticket};
use redis::Commands;

use crate::support::{RedisServer, World, all_receipts, asked, begin, ok, room, settings, taken};

const ID: &str = "acme";

/// What the record of a slot is called.
fn record(slot: u8) -> String {
    format!("stripe-{}:{}:idt_{slot:032x}", slot % 3, "ab".repeat(32))
}

async fn first_in(world: &World, begin: Begin) -> Ticket {
    taken(begin_in(world, begin).await)
}

async fn begin_in(world: &World, begin: Begin) -> Begun {
    let record = record(begin.slot.as_bytes()[0]);
    let domain = Domain::Workspace { id: ID, record: &record };
    world.store.begin(asked(domain, begin)).await.expect("an answer")
}

async fn completed_in(world: &World, begin: Begin) {
    let ticket = first_in(world, begin).await;
    assert_eq!(world.store.complete(ticket, ok()).await, Ok(Settled::Done));
}

fn exists(world: &World, key: &str) -> bool {
    world.server.connection().exists(key).expect("an answer")
}

#[tokio::test]
async fn a_record_has_the_name_that_the_contract_gives_it() {
    let world = World::new();
    let _ticket = first_in(&world, begin(7)).await;
    let name = format!("t:idem:{{acme}}:stripe-1:{}:idt_{:032x}", "ab".repeat(32), 7);
    assert!(exists(&world, &name));
    let mut keys: Vec<String> = world.server.connection().keys("*").expect("keys");
    keys.retain(|key| !key.contains("{acme}") && !key.contains("{uid-1}"));
    assert_eq!(keys, [""; 0]);
}

#[tokio::test]
async fn a_workspace_and_a_server_of_one_name_do_not_meet() {
    // Room for one: each would refuse the other, or evict it.
    let world = World::with(room(1), |_| {});
    let ticket = first_in(&world, begin(0)).await;
    let server = world.store.begin(Asked::at(ID, begin(0))).await.expect("an answer");
    let _running = taken(server);
    assert_eq!(world.store.complete(ticket, ok()).await, Ok(Settled::Done));
    assert!(matches!(begin_in(&world, begin(0)).await, Begun::Replay(_)));
    let server = world.store.begin(Asked::at(ID, begin(0))).await.expect("an answer");
    assert!(matches!(server, Begun::InFlight));
    let counts = ["quota", "workspace"].map(|kind| {
        ["f", "c"].map(|set| world.server.command::<u32>(&format!("ZCARD t:{kind}:{{acme}}:{set}")))
    });
    assert_eq!(counts, [[1, 0], [0, 1]]);
}

#[tokio::test]
async fn members_of_a_servers_sets_are_three_digests() {
    let world = World::new();
    let _ticket = world.first(begin(0)).await;
    let key = "t:quota:{uid-1}:f";
    let members: Vec<Vec<u8>> = world.server.connection().zrange(key, 0, -1).expect("a set");
    assert_eq!(members, [[[0; 32], [101; 32], [102; 32]].concat()]);
}

/// The begin of a slot in one of two scopes of a principal, or in another principal.
fn placed(slot: u8, scope: u8, principal: u8) -> Begin {
    let scope = ScopeId::from_bytes([scope; 32]);
    Begin { scope, principal: PrincipalId::from_bytes([principal; 32]), ..begin(slot) }
}

/// Fills a workspace with slots 1 and 2, claims slot 3, and says which of the two are left.
async fn after_an_eviction(limits: Limits, places: [(u8, u8); 3]) -> [bool; 2] {
    let world = World::with(limits, |_| {});
    let mut begins = (1..).zip(places).map(|(slot, (scope, p))| placed(slot, scope, p));
    let mut next = || begins.next().expect("three places");
    let [one, two, three] = [next(), next(), next()];
    completed_in(&world, one).await;
    completed_in(&world, two).await;
    let _ticket = first_in(&world, three).await;
    let left = [1, 2].map(|slot| exists(&world, &format!("t:idem:{{acme}}:{}", record(slot))));
    // What is gone is gone from every set, and what is left is in all of its own.
    let standing = left.iter().filter(|left| **left).count();
    for level in ["".to_owned(), format!(":s:{}", one.scope), format!(":p:{}", one.principal)] {
        let key = format!("t:workspace:{{acme}}{level}:c");
        let others = [(one, left[0]), (two, left[1])];
        let of_level = others.iter().filter(|(begin, left)| {
            let of_scope = !level.starts_with(":s:") || begin.scope == one.scope;
            let of_principal = !level.starts_with(":p:") || begin.principal == one.principal;
            *left && of_scope && of_principal
        });
        let count: usize = world.server.connection().zcard(&key).expect("a set");
        assert_eq!(count, of_level.count(), "{key}");
    }
    assert_eq!(standing, 1, "one has made room");
    left
}

#[tokio::test]
async fn the_oldest_makes_room_at_every_level() {
    let scope = Limits { scope_entries: 2, ..room(9) };
    assert_eq!(after_an_eviction(scope, [(1, 1), (1, 1), (1, 1)]).await, [false, true]);
    let principal = Limits { principal_entries: 2, ..room(9) };
    assert_eq!(after_an_eviction(principal, [(1, 1), (2, 1), (3, 1)]).await, [false, true]);
    let domain = Limits { entries: 2, ..room(9) };
    assert_eq!(after_an_eviction(domain, [(1, 1), (2, 2), (3, 3)]).await, [false, true]);
}

/// A cluster refuses a script whose keys are of several slots, declared or not.
#[tokio::test]
async fn in_a_cluster_all_of_a_workspace_is_in_one_slot() {
    let server = Arc::new(RedisServer::with(&["--cluster-enabled", "yes", "--save", ""]));
    let _: String = server.command("CLUSTER ADDSLOTSRANGE 0 16383");
    crate::support::eventually("the cluster to be up", || async {
        server.command::<String>("CLUSTER INFO").contains("cluster_state:ok").then_some(())
    })
    .await;
    let url = format!("redis+cluster://127.0.0.1:{}", server.port());
    let limits = Limits { entries: 2, ..room(9) };
    let world = World::on(server, limits, settings(&url));
    for slot in 0..4 {
        let mut ticket = first_in(&world, placed(slot, slot, slot)).await;
        assert_eq!(world.store.reserve_attempt(&mut ticket).await, Ok(Settled::Done));
        assert_eq!(world.store.complete(ticket, ok()).await, Ok(Settled::Done));
    }
    let ticket = first_in(&world, placed(9, 9, 9)).await;
    crate::support::unknown(&world.store, ticket).await;
    let again = first_in(&world, placed(9, 9, 9)).await;
    assert_eq!(world.store.release(again).await, Ok(Settled::Done));
    let page = world.store.receipts(all_receipts()).await.expect("a page");
    let attempts: Vec<_> = page.receipts.iter().map(|r| r.attempt_count).collect();
    assert_eq!(attempts, [2]);
}
