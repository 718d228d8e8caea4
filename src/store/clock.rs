//! Time as an argument: who needs the present asks a [`Clock`] that was handed to it.

use std::time::Instant;

use crate::claim::Millis;

/// A monotonic clock.
pub trait Clock: Send + Sync + 'static {
    /// The present, in milliseconds since the clock was made.
    fn now(&self) -> Millis;
}

/// The operating system's monotonic clock.
#[derive(Debug)]
pub struct MonotonicClock(Instant);

impl MonotonicClock {
    /// A clock whose zero is now.
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Millis {
        Millis(u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}
