//! What the explorations came across, so that none passes because nothing happens in it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Something that must have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    First,
    OwnEviction,
    RemoteEviction,
    /// The owner found room by the time it was asked.
    RemoteRoom,
    /// The coordinator found room itself.
    CoordinatorRoom,
    Refused,
    RefusedWaiter,
    /// An owner held no longer the oldest.
    NotTheOldest,
    SweepRequest,
    LookAgain,
    Replay,
    StaleSettle,
    Redispatched,
    OtherRoute,
    Hit,
    Death,
    Orphaned,
    Unavailable,
}

const EVENTS: [Event; 18] = [
    Event::First,
    Event::OwnEviction,
    Event::RemoteEviction,
    Event::RemoteRoom,
    Event::CoordinatorRoom,
    Event::Refused,
    Event::RefusedWaiter,
    Event::NotTheOldest,
    Event::SweepRequest,
    Event::LookAgain,
    Event::Replay,
    Event::StaleSettle,
    Event::Redispatched,
    Event::OtherRoute,
    Event::Hit,
    Event::Death,
    Event::Orphaned,
    Event::Unavailable,
];

/// How often each happened, over all states explored.
#[derive(Debug, Default)]
pub struct Coverage([AtomicU64; EVENTS.len()]);

impl Coverage {
    pub fn note(&self, event: Event, happened: bool) {
        if happened {
            self.0[event as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn saw(&self, event: Event) -> bool {
        self.0[event as usize].load(Ordering::Relaxed) > 0
    }

    /// The events that happened.
    pub fn seen(&self) -> Vec<Event> {
        EVENTS.into_iter().filter(|event| self.saw(*event)).collect()
    }
}
