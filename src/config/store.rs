//! The `[store]` table.

use std::time::Duration;

use super::entries::{Entries, Entry};
use super::error::ConfigError;
use super::values::or;
use super::{MAX_THREADS, threads};
use crate::store::ReceiptSettings;
use crate::store::redis::{MAX_CONNECTIONS, RedisSettings, RedisUrl};

/// The most bytes of `store.prefix`.
const MAX_PREFIX: usize = 64;

/// The most replicas that a claim can be made to wait for.
pub const MAX_WAIT_REPLICAS: u64 = 16;

/// Where records are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreConfig {
    /// In this process.
    Memory {
        /// Shard actors, 1 to [`MAX_THREADS`].
        shards: usize,
    },
    /// In a Redis or Valkey server, for several gateways and over restarts.
    Redis(Box<RedisSettings>),
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self::Memory { shards: threads() }
    }
}

impl StoreConfig {
    /// What a status shows: no secret.
    pub(super) fn summary(&self) -> serde_json::Value {
        match self {
            Self::Memory { shards } => serde_json::json!({ "kind": "memory", "shards": shards }),
            Self::Redis(settings) => serde_json::json!({
                "kind": "redis",
                "url": settings.url.to_string(),
                "prefix": settings.prefix,
                "lease_s": settings.lease.as_secs_f64(),
                "wait_replicas": settings.wait_replicas,
                "connections": settings.connections,
                "connect_timeout_s": settings.connect_timeout.as_secs_f64(),
                "timeout_s": settings.timeout.as_secs_f64(),
            }),
        }
    }
}

/// `connect` is how long it may take from the check of a lease to the first byte of a call.
pub(super) fn take(
    entries: &mut Entries,
    connect: Duration,
    receipts: ReceiptSettings,
) -> Result<StoreConfig, ConfigError> {
    match entries.take("store.kind") {
        None => memory(entries),
        Some(kind) => match kind.text()? {
            "memory" => memory(entries),
            "redis" => redis(entries, &kind, connect, receipts),
            _ => Err(kind.wrong("must be \"memory\" or \"redis\"")),
        },
    }
}

fn memory(entries: &mut Entries) -> Result<StoreConfig, ConfigError> {
    let shards = or(entries, "store.shards", threads(), |entry| entry.size(1, MAX_THREADS))?;
    for key in [
        "store.url",
        "store.prefix",
        "store.lease",
        "store.wait_replicas",
        "store.connections",
        "store.connect_timeout",
        "store.timeout",
    ] {
        if let Some(entry) = entries.take(key) {
            return Err(entry.wrong("has no effect unless `store.kind` is \"redis\""));
        }
    }
    Ok(StoreConfig::Memory { shards })
}

fn redis(
    entries: &mut Entries,
    kind: &Entry,
    connect: Duration,
    receipts: ReceiptSettings,
) -> Result<StoreConfig, ConfigError> {
    if let Some(shards) = entries.take("store.shards") {
        return Err(shards.wrong("has no effect unless `store.kind` is \"memory\""));
    }
    let url = entries
        .take("store.url")
        .ok_or_else(|| kind.wrong("is \"redis\", which needs `store.url`"))?;
    let url = RedisUrl::parse(url.text()?).map_err(|error| url.wrong(error.to_string()))?;
    let settings = RedisSettings {
        url,
        prefix: or(entries, "store.prefix", "onceward:".to_owned(), prefix)?,
        lease: or(entries, "store.lease", Duration::from_secs(30), Entry::duration)?,
        wait_replicas: or(entries, "store.wait_replicas", 0, |entry| {
            let replicas = entry.count(0, MAX_WAIT_REPLICAS)?;
            u32::try_from(replicas).map_err(|_| entry.wrong("is too large"))
        })?,
        connections: or(entries, "store.connections", 32, |entry| entry.size(1, MAX_CONNECTIONS))?,
        connect_timeout: timeout(entries, "store.connect_timeout")?,
        timeout: timeout(entries, "store.timeout")?,
        dispatch_margin: connect,
        receipts,
    };
    settings.validate().map_err(|(key, problem)| ConfigError::Value {
        place: entries.place(),
        key: format!("store.{key}"),
        problem: problem.to_owned(),
    })?;
    Ok(StoreConfig::Redis(Box::new(settings)))
}

fn timeout(entries: &mut Entries, key: &str) -> Result<Duration, ConfigError> {
    or(entries, key, Duration::from_secs(1), Entry::duration)
}

/// No braces: those of the domain must be the first in a key, for a cluster reads the first.
fn prefix(entry: &Entry) -> Result<String, ConfigError> {
    let text = entry.text()?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:/-".contains(&byte);
    if text.len() <= MAX_PREFIX && text.bytes().all(allowed) {
        return Ok(text.to_owned());
    }
    Err(entry
        .wrong(format!("must have at most {MAX_PREFIX} letters, digits, `-`, `.`, `_`, `:`, `/`")))
}
