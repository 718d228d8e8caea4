//! A clock that the test moves.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use onceward::claim::Millis;
use onceward::store::Clock;

/// How often a reader gives way before it goes on without having seen anybody.
const PATIENCE: u32 = 3;

/// A store reads it in the middle of an operation, which takes less than a microsecond and would
/// hardly ever overlap another one's: every third reader lets somebody else go first.
#[derive(Default)]
pub struct ManualClock {
    now: AtomicU64,
    /// What `now` is about to be, while a store with a clock of its own is told.
    latest: AtomicU64,
    readings: AtomicU64,
    follower: OnceLock<Follower>,
}

/// Moves the clock of a store that does not read this one.
type Follower = Box<dyn Fn(u64) + Send + Sync>;

impl ManualClock {
    pub fn advance(&self, by: u64) {
        self.latest.fetch_add(by, Ordering::SeqCst);
        if let Some(follow) = self.follower.get() {
            follow(by);
        }
        self.now.fetch_add(by, Ordering::SeqCst);
    }

    /// Moves another clock along with this one.
    pub fn lead(&self, follower: impl Fn(u64) + Send + Sync + 'static) {
        assert!(self.follower.set(Box::new(follower)).is_ok(), "one follower");
    }

    /// No reader, of whatever clock follows, is later.
    pub fn latest(&self) -> u64 {
        self.latest.load(Ordering::SeqCst)
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
