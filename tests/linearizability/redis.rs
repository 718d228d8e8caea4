//! The Redis store is linearizable, at every cap.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onceward::claim::Limits;
use onceward::store::redis::{RedisSettings, RedisStore, RedisUrl};
use onceward::store::{ReceiptSettings, Store};

use crate::clock::ManualClock;
use crate::hammer::{self, DOMAIN, Setting, crowded, limits};
use crate::redis_server::RedisServer;

/// Of each store below.
const HISTORIES: u64 = 60;

/// Whether this store pins where calls go, and redispatches.
const ROUTES: bool = false;

/// A stamp that the server's clock does not reach in our time, in microseconds: from there on a
/// domain's time is what the test makes it, and a microsecond for each script. The histories'
/// milliseconds are longer than all their scripts.
const FAR_OFF: u64 = 4_000_000_000_000_000;

/// Makes stores, each under a prefix of its own.
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
        let settings = RedisSettings {
            url: RedisUrl::parse(&server.url()).expect("a URL"),
            prefix,
            lease: Duration::from_secs(3600),
            wait_replicas: 0,
            connections: 4,
            connect_timeout: Duration::from_secs(20),
            timeout: Duration::from_secs(20),
            dispatch_margin: Duration::from_secs(1),
            receipts: ReceiptSettings::default(),
        };
        RedisStore::start(limits, &settings, []).expect("a thread") as Arc<dyn Store>
    }
}

async fn check(name: &str, setting: Setting) {
    let server = RedisServer::start();
    let setting = Setting { routes: ROUTES, ..setting };
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
async fn on_few_slots() {
    let few = Setting { slots: 3, threads: 4, ..crowded(limits((3, 3), (3, 3), (3, 3), 3)) };
    check("few slots", few).await;
}
