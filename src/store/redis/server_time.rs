//! The server's clock, as far as its answers tell.

use std::sync::atomic::{AtomicI64, Ordering};

use super::micros;
use crate::claim::Millis;

/// The server's clock minus ours, in microseconds. It is behind by the way of an answer, never
/// ahead: a not-after that is reckoned by it is early rather than late.
#[derive(Debug, Default)]
pub(super) struct ServerTime(AtomicI64);

impl ServerTime {
    /// An answer says what the server's clock was, no later than now.
    pub(super) fn set(&self, clock: i64, now: Millis) {
        self.0.store(clock.saturating_sub(micros(now)), Ordering::Relaxed);
    }

    /// The server's clock after a length of time from now.
    pub(super) fn after(&self, now: Millis, length: Millis) -> i64 {
        self.0.load(Ordering::Relaxed).saturating_add(micros(now.plus(length)))
    }
}
