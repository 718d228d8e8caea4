//! How the store reaches its server, and what is the same in every gateway that shares it.

use std::time::Duration;

use super::url::RedisUrl;
use crate::claim::Limits;
use crate::store::{ReceiptSettings, StoreError};

/// The settings of a [`RedisStore`](super::RedisStore).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// The server.
    pub url: RedisUrl,
    /// What the name of every key begins with.
    pub prefix: String,
    /// How long a claim is in flight after its owner was last heard of.
    pub lease: Duration,
    /// Replicas that must have a claim before the call is sent.
    pub wait_replicas: u32,
    /// Connections at one time, 1 to [`MAX_CONNECTIONS`].
    pub connections: usize,
    /// From the start of a connect to its end, TLS and authentication included.
    pub connect_timeout: Duration,
    /// From a command to its reply.
    pub timeout: Duration,
    /// The most time between the check of a lease and the first byte that is sent under it.
    pub dispatch_margin: Duration,
    /// How many receipts each domain keeps, and for how long.
    pub receipts: ReceiptSettings,
}

/// The most connections of one gateway.
pub const MAX_CONNECTIONS: u64 = 1024;

/// The shortest lease.
pub const MIN_LEASE: Duration = Duration::from_millis(100);

impl RedisSettings {
    /// Why these settings cannot be used together.
    ///
    /// # Errors
    ///
    /// The key to change, and why.
    pub fn validate(&self) -> Result<(), (&'static str, &'static str)> {
        if self.lease < MIN_LEASE {
            return Err(("lease", "must be at least 100ms"));
        }
        if self.lease <= self.timeout.max(self.connect_timeout) {
            let why = "must be longer than `store.timeout` and `store.connect_timeout`: a claim \
                       must outlive the wait for its own answer";
            return Err(("lease", why));
        }
        if self.lease < 2 * self.dispatch_margin {
            let why = "must be at least twice `upstream.connect_timeout`: a call is not sent in \
                       the last part of its lease";
            return Err(("lease", why));
        }
        Ok(())
    }
}

/// Each limit that all gateways of a domain must share, by its name in a configuration; times in
/// milliseconds.
fn shared(limits: &Limits, lease: Duration) -> [(&'static str, u64); 10] {
    [
        ("ttl", limits.ttl.0),
        ("tombstone_ttl", limits.tombstone_ttl.0),
        ("entries", limits.entries.into()),
        ("in_flight", limits.in_flight.into()),
        ("principal_entries", limits.principal_entries.into()),
        ("principal_in_flight", limits.principal_in_flight.into()),
        ("scope_entries", limits.scope_entries.into()),
        ("scope_in_flight", limits.scope_in_flight.into()),
        ("scope_tombstones", limits.scope_tombstones.into()),
        ("lease", u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
    ]
}

/// What a domain keeps of the limits, so that every gateway counts in the same way.
pub(super) fn shown(limits: &Limits, lease: Duration) -> String {
    let pairs = shared(limits, lease).map(|(name, value)| format!("{name}={value}"));
    pairs.join(" ")
}

/// The first limit whose value in the domain is another one than ours.
pub(super) fn difference(limits: &Limits, lease: Duration, theirs: &str) -> Option<StoreError> {
    let stored = |name: &str| {
        let mut pairs = theirs.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(key, value)| (key == name).then(|| value.parse().ok()).flatten())
    };
    shared(limits, lease).into_iter().find_map(|(limit, ours)| {
        let theirs = stored(limit).unwrap_or(0);
        (ours != theirs).then_some(StoreError::Limits { limit, ours, theirs })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_named() {
        let (ours, lease) = (Limits::default(), Duration::from_secs(30));
        let theirs = shown(&Limits { scope_in_flight: 5, ..ours }, lease);
        let expected = StoreError::Limits { limit: "scope_in_flight", ours: 4, theirs: 5 };
        assert_eq!(difference(&ours, lease, &theirs), Some(expected));
        assert_eq!(difference(&ours, lease, &shown(&ours, lease)), None);
        let longer = shown(&ours, Duration::from_secs(31));
        let expected = StoreError::Limits { limit: "lease", ours: 30_000, theirs: 31_000 };
        assert_eq!(difference(&ours, lease, &longer), Some(expected));
    }
}
