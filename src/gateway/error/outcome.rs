//! Refusals of an authorized call: what its key finds, and what its upstream does.

use super::{Advice, Refusal};
use crate::claim::CapacityLimit;

/// What a keyed call finds (CONTRACT section 4).
impl Refusal {
    /// Another call holds the key.
    pub fn conflict() -> Self {
        Self::new(
            409,
            "idempotency_key_conflict",
            Advice::NewKey,
            "This key was used for another call; if you mean a new call give it a new key, if you \
             mean a retry send exactly the first request.",
        )
    }

    /// The key was used for the same call when it went to another destination.
    pub fn other_route() -> Self {
        let message = "This key was used when the tool led to another destination, where the call \
                       may have taken effect; look at that one's state before you call again.";
        Self { advice: Advice::Reconcile, message: message.into(), ..Self::conflict() }
    }

    /// The first execution still runs.
    pub fn in_flight() -> Self {
        Self::new(
            409,
            "idempotency_in_flight",
            Advice::RetrySameKey,
            "The first call with this key is still running; wait, then send the same call with the \
             same key.",
        )
        .retry_after(1)
    }

    /// Nobody can say whether the tool ran.
    pub fn outcome_unknown() -> Self {
        Self::new(
            409,
            "idempotency_outcome_unknown",
            Advice::Reconcile,
            "The first call with this key may or may not have taken effect and will not be executed \
             again; look at the tool's own state before you call again.",
        )
    }

    /// The tool ran, but its reply was not kept.
    pub fn not_replayable() -> Self {
        Self::new(
            409,
            "idempotency_response_not_replayable",
            Advice::Reconcile,
            "The first call with this key was executed, but its reply was not kept; look at the \
             tool's own state, do not call again with another key.",
        )
    }

    /// No room.
    pub fn capacity(limit: CapacityLimit) -> Self {
        let message = match limit {
            CapacityLimit::ScopeInFlight => "This session has too many keyed calls in flight",
            CapacityLimit::PrincipalInFlight => "This caller has too many keyed calls in flight",
            CapacityLimit::StoreInFlight => "The gateway has too many keyed calls in flight",
            CapacityLimit::ScopeTombstones => "This session has too many unresolved keyed calls",
            CapacityLimit::ScopeEntries => "This session holds too many idempotency records",
            CapacityLimit::PrincipalEntries => "This caller holds too many idempotency records",
            CapacityLimit::StoreEntries => "The gateway holds too many idempotency records",
        };
        Self::new(
            429,
            "idempotency_capacity",
            Advice::RetrySameKey,
            format!("{message}; nothing was executed, send the same call with the same key later."),
        )
        .retry_after(1)
    }
}

/// The upstream.
impl Refusal {
    /// The circuit is open.
    pub fn circuit_open(retry_after_s: u64) -> Self {
        Self::new(
            503,
            "upstream_circuit_open",
            Advice::RetrySameKey,
            "The upstream has been failing and is given a rest; nothing was sent, try again later.",
        )
        .retry_after(retry_after_s)
    }

    /// Too many exchanges with this upstream.
    pub fn busy() -> Self {
        Self::new(
            503,
            "upstream_busy",
            Advice::RetrySameKey,
            "Too many requests to this upstream are running; nothing was sent, try again.",
        )
        .retry_after(1)
    }

    /// Proven that no byte of the request was sent.
    pub fn unreachable() -> Self {
        Self::new(
            502,
            "upstream_unreachable",
            Advice::RetrySameKey,
            "The upstream could not be reached; nothing was sent, try again.",
        )
        .retry_after(1)
    }

    /// A byte of the request may have left, and no reply came in time.
    pub fn upstream_timeout() -> Self {
        Self::new(
            504,
            "upstream_timeout",
            Advice::Reconcile,
            "The upstream did not answer in time; the call may have taken effect, look at the \
             tool's own state before you call again.",
        )
    }

    /// A byte of the request may have left, and the reply broke off.
    pub fn upstream_disconnected() -> Self {
        Self::new(
            502,
            "upstream_disconnected",
            Advice::Reconcile,
            "The upstream's reply broke off; the call may have taken effect, look at the tool's \
             own state before you call again.",
        )
    }
}
