//! A clock that the test moves.

use std::sync::atomic::{AtomicU64, Ordering};

use onceward::claim::Millis;
use onceward::store::Clock;

/// How often a reader gives way before it goes on without having seen anybody.
const PATIENCE: u32 = 16;

/// A store reads it in the middle of an operation, which takes less than a microsecond and would
/// hardly ever overlap another one's: every third reader lets somebody else go first.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: AtomicU64,
    readings: AtomicU64,
}

impl ManualClock {
    pub fn advance(&self, by: u64) {
        self.now.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        let reading = self.readings.fetch_add(1, Ordering::SeqCst) + 1;
        if reading.is_multiple_of(3) {
            let alone = || self.readings.load(Ordering::SeqCst) == reading;
            (0..PATIENCE).take_while(|_| alone()).for_each(|_| std::thread::yield_now());
        }
        Millis(self.now.load(Ordering::SeqCst))
    }
}
