//! Says a thing once a period, however often it happens.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Lets one caller through per period. Time is an argument: what has passed since any fixed start.
#[derive(Debug)]
pub(crate) struct Throttle {
    period: Duration,
    /// Milliseconds since the start before which nobody passes.
    next_ms: AtomicU64,
}

impl Throttle {
    /// A throttle that lets the first caller through.
    pub(crate) const fn new(period: Duration) -> Self {
        Self { period, next_ms: AtomicU64::new(0) }
    }

    /// Whether the caller is the one of this period. Of concurrent callers at most one passes.
    pub(crate) fn allow(&self, now: Duration) -> bool {
        let next_ms = self.next_ms.load(Ordering::Relaxed);
        let after_ms = millis(now.saturating_add(self.period));
        millis(now) >= next_ms
            && self
                .next_ms
                .compare_exchange(next_ms, after_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_passes_in_a_period() {
        let throttle = Throttle::new(Duration::from_secs(10));
        let at = |ms| throttle.allow(Duration::from_millis(ms));
        assert!(at(0));
        assert!(!at(0));
        assert!(!at(9_999));
        assert!(at(10_000));
        assert!(!at(19_999));
        assert!(at(50_000), "a late caller starts a period of its own");
        assert!(!at(59_999));
        assert!(at(60_000));
    }
}
