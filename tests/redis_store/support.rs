//! A store, a server of its own, and a clock that the test moves.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use onceward::claim::protocol::Pin;
use onceward::claim::{
    Begin, Dispatch, DispatchHash, Limits, Millis, PrincipalId, Reply, RequestHash, ScopeId,
    SlotKey,
};
use onceward::store::receipt::Opening;
use onceward::store::redis::{RedisSettings, RedisStore};
use onceward::store::{Asked, Begun, Domain, ReceiptQuery, Settled, Store, Ticket};
use redis::Commands;

pub use crate::redis_server::RedisServer;
use crate::redis_server::{FAR_OFF, patient};

/// The server that begins are for.
pub const UID: &str = "uid-1";

/// In milliseconds: no test waits for one.
pub const LEASE: u64 = 3600 * 1000;
pub const TTL: u64 = 6000;
pub const TOMBSTONE_TTL: u64 = 8000;

pub struct World {
    pub server: Arc<RedisServer>,
    pub store: Arc<RedisStore>,
    pub settings: RedisSettings,
    pub limits: Limits,
}

/// Room for this many records at every level, in flight or not.
pub fn room(entries: u32) -> Limits {
    Limits {
        ttl: Millis(TTL),
        tombstone_ttl: Millis(TOMBSTONE_TTL),
        entries,
        in_flight: entries,
        principal_entries: entries,
        principal_in_flight: entries,
        scope_entries: entries,
        scope_in_flight: entries,
        scope_tombstones: entries,
        reply_bytes: 64,
    }
}

pub fn settings(url: &str) -> RedisSettings {
    patient(url, "t:", Duration::from_millis(LEASE))
}

impl World {
    pub fn new() -> Self {
        Self::with(room(100), |_| {})
    }

    pub fn with(limits: Limits, set: impl FnOnce(&mut RedisSettings)) -> Self {
        let server = Arc::new(RedisServer::start());
        let mut settings = settings(&server.url());
        set(&mut settings);
        let world = Self::on(server, limits, settings);
        world.far_off("quota", UID);
        world
    }

    pub fn on(server: Arc<RedisServer>, limits: Limits, settings: RedisSettings) -> Self {
        let store = RedisStore::start(limits, &settings, []).expect("a thread");
        Self { server, store, settings, limits }
    }

    /// Another gateway, with other settings perhaps.
    pub fn another(&self, set: impl FnOnce(&mut RedisSettings)) -> Self {
        let mut settings = self.settings.clone();
        set(&mut settings);
        Self::on(Arc::clone(&self.server), self.limits, settings)
    }

    /// From now on a domain's time is the test's.
    pub fn far_off(&self, kind: &str, name: &str) {
        let key = format!("t:{kind}:{{{name}}}");
        let () = self.server.connection().hset(key, "stamp", FAR_OFF).expect("the clock is set");
    }

    pub fn advance(&self, ms: u64) {
        let key = format!("t:quota:{{{UID}}}");
        let by = ms * 1000;
        let _: u64 = self.server.connection().hincr(key, "stamp", by).expect("the clock moves");
    }

    pub async fn begin(&self, begin: Begin) -> Begun {
        self.store.begin(Asked::at(UID, begin)).await.expect("an answer")
    }

    pub async fn first(&self, begin: Begin) -> Ticket {
        taken(self.begin(begin).await)
    }

    /// A begin with a receipt.
    pub async fn opened(&self, begin: Begin) -> Ticket {
        taken(self.store.begin(asked(Domain::Server(UID), begin)).await.expect("an answer"))
    }

    /// A field of a slot's record.
    pub fn field(&self, begin: Begin, name: &str) -> Option<String> {
        let key = format!("t:idem:{{{UID}}}:{}", begin.slot);
        self.server.connection().hget(key, name).expect("a hash")
    }

    /// What the domain's sets hold: in flight, completed, tombstones; expired members too.
    pub fn sets(&self) -> [u32; 3] {
        ["f", "c", "t"].map(|set| self.server.command(&format!("ZCARD t:quota:{{{UID}}}:{set}")))
    }
}

pub fn taken(begun: Begun) -> Ticket {
    match begun {
        Begun::First(ticket) => ticket,
        other => panic!("the slot is not free: {other:?}"),
    }
}

/// A begin on slot number `slot`, of one scope, that may be dispatched again.
pub fn begin(slot: u8) -> Begin {
    Begin {
        slot: SlotKey::from_bytes([slot; 32]),
        scope: ScopeId::from_bytes([101; 32]),
        principal: PrincipalId::from_bytes([102; 32]),
        hash: RequestHash::from_bytes([103; 32]),
        dispatch: Dispatch { hash: Some(target(1)), pin: Pin::Free, redispatch: true },
    }
}

pub fn target(number: u8) -> DispatchHash {
    DispatchHash::from_bytes([number; 32])
}

/// The same to another target.
pub fn elsewhere(begin: Begin) -> Begin {
    Begin { dispatch: Dispatch { hash: Some(target(2)), ..begin.dispatch }, ..begin }
}

/// The same without permission to take it again.
pub fn once(begin: Begin) -> Begin {
    Begin { dispatch: Dispatch { redispatch: false, ..begin.dispatch }, ..begin }
}

pub fn pinned(begin: Begin, pin: Pin) -> Begin {
    Begin { dispatch: Dispatch { pin, ..begin.dispatch }, ..begin }
}

/// Asked with a receipt.
pub fn asked(domain: Domain<'_>, begin: Begin) -> Asked<'_> {
    Asked { domain, begin, opening: Some(Box::new(opening(&begin, "pay"))) }
}

pub fn opening(begin: &Begin, tool: &str) -> Opening {
    Opening {
        key: None,
        key_hash: begin.slot,
        request_hash: begin.hash,
        workspace: None,
        human: Some("ann".into()),
        agent: None,
        team: None,
        session: None,
        namespace: "ns".into(),
        server: "payments".into(),
        tool: tool.into(),
        route: None,
        binding: Some("header".into()),
        opened_at: "2026-01-02T03:04:05Z".parse().expect("a time"),
    }
}

pub fn all_receipts() -> ReceiptQuery {
    ReceiptQuery { limit: 200, ..ReceiptQuery::default() }
}

pub fn ok() -> Reply {
    Reply::new(200, None, Bytes::from_static(b"ok"), 64).expect("two bytes")
}

pub async fn unknown(store: &RedisStore, ticket: Ticket) {
    let settled = store.tombstone(ticket, onceward::claim::TombstoneReason::Unknown).await;
    assert_eq!(settled, Ok(Settled::Done));
}

/// Polls `probe` until it gives a value, or fails the test with `what`.
pub async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut probe: impl FnMut() -> F,
) -> T {
    let polling = async {
        loop {
            if let Some(value) = probe().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), polling).await;
    waited.unwrap_or_else(|_| panic!("waited in vain for: {what}"))
}

/// The store through a proxy, and the proxy. The server knows the scripts by then: the reply that is
/// lost is not that it does not.
pub async fn behind_a_proxy(limits: Limits) -> (World, crate::proxy::Proxy) {
    let server = Arc::new(RedisServer::start());
    let proxy = crate::proxy::Proxy::start(&server).await;
    let settings = settings(proxy.url().trim_matches('"'));
    let world = World::on(server, limits, settings);
    world.far_off("quota", UID);
    let mut ticket = world.first(begin(255)).await;
    assert_eq!(world.store.reserve_attempt(&mut ticket).await, Ok(Settled::Done));
    assert_eq!(world.store.release(ticket).await, Ok(Settled::Done));
    (world, proxy)
}
