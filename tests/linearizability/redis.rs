//! The Redis store is linearizable, at every cap.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onceward::claim::Limits;
use onceward::store::Store;
use onceward::store::redis::RedisStore;

use crate::clock::ManualClock;
use crate::hammer::{self, DOMAIN, Setting, crowded, limits};
use crate::redis_server::{FAR_OFF, RedisServer, patient};

/// Of each store below.
const HISTORIES: u64 = 60;

/// Makes stores, each under a prefix of its own. The histories' milliseconds are longer than all
/// their scripts.
fn redis(server: &RedisServer) -> impl Fn(Limits, Arc<ManualClock>) -> Arc<dyn Store> {
    let stores = AtomicU64::new(0);
    move |limits, clock| {
        let prefix = format!("{}:", stores.fetch_add(1, Ordering::Relaxed));
        let domain = format!("{prefix}quota:{{{DOMAIN}}}");
        let mut connection = server.connection();
        let set = redis::cmd("HSET").arg(&domain).arg("stamp").arg(FAR_OFF).exec(&mut connection);
        set.expect("the clock is set");
        let connection = Mutex::new(connection);
        clock.lead(move |by| {
            let mut connection = connection.lock().expect("no holder panics");
            let mut move_on = redis::cmd("HINCRBY");
            move_on.arg(&domain).arg("stamp").arg(by * 1000);
            move_on.exec(&mut *connection).expect("the clock moves");
        });
        let settings = patient(&server.url(), &prefix, Duration::from_secs(3600));
        RedisStore::start(limits, &settings, []).expect("a thread") as Arc<dyn Store>
    }
}

async fn check(name: &str, setting: Setting) {
    let server = RedisServer::start();
    hammer::check(name, setting, &redis(&server), HISTORIES).await;
}

#[tokio::test]
async fn at_the_cap_of_the_domain() {
    let wide = |entries, in_flight| {
        let caps = (entries, in_flight);
        crowded(limits(caps, caps, caps, 8))
    };
    check("the domain's cap", wide(3, 3)).await;
    check("one in flight", wide(2, 1)).await;
    check("the domain's cap, four records", wide(4, 3)).await;
}

#[tokio::test]
async fn at_the_caps_of_scopes_and_principals() {
    let narrow = Setting { slots: 8, ..crowded(limits((8, 6), (3, 3), (2, 2), 2)) };
    check("the caps of scopes and principals", narrow).await;
    let both = Setting { slots: 16, ..crowded(limits((3, 3), (3, 2), (2, 2), 2)) };
    check("all caps at once", both).await;
}

#[tokio::test]
async fn where_unknown_calls_are_taken_again() {
    let limits = limits((4, 2), (3, 2), (3, 1), 3);
    let tight = Setting { slots: 6, threads: 4, ..crowded(limits) };
    check("redispatch, one in flight of a scope", tight).await;
}

#[tokio::test]
async fn on_few_slots() {
    let few = Setting { slots: 3, threads: 4, ..crowded(limits((3, 3), (3, 3), (3, 3), 3)) };
    check("few slots", few).await;
}
