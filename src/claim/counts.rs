//! The three store-wide counts and their transitions, each a pure function.
//!
//! The ledger applies them to one atomic word; a model applies them to a plain value.

use super::Limits;

/// Records, records in flight and completed records of the whole store. What is neither in flight
/// nor completed is a tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Counts {
    /// Records of any state, at most [`super::limits::MAX_ENTRIES`].
    pub records: u32,
    /// Records in flight.
    pub in_flight: u32,
    /// Completed records, which alone can be evicted.
    pub completed: u32,
}

/// The store-wide caps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreCaps {
    /// The most records.
    pub entries: u32,
    /// The most records in flight.
    pub in_flight: u32,
}

impl From<&Limits> for StoreCaps {
    fn from(limits: &Limits) -> Self {
        Self { entries: limits.entries, in_flight: limits.in_flight }
    }
}

/// Why a record could not be started; nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Full {
    /// The in-flight cap is reached.
    InFlight,
    /// The record cap is reached, with this many completed records at that same moment.
    Entries {
        /// Completed records; at 0 nothing can be evicted.
        completed: u32,
    },
}

/// The in-flight cap is reached; nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InFlightFull;

/// How a record found its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Room {
    /// There was room: nothing was evicted.
    Free,
    /// The permit of a completed record was taken over.
    Evicted,
}

impl Counts {
    /// A new record in flight, where there is room: F+1 R+1.
    ///
    /// # Errors
    ///
    /// [`Full`], the in-flight cap first.
    pub fn start(self, caps: StoreCaps) -> Result<Self, Full> {
        if self.in_flight >= caps.in_flight {
            return Err(Full::InFlight);
        }
        if self.records >= caps.entries {
            return Err(Full::Entries { completed: self.completed });
        }
        Ok(Self { records: self.records + 1, in_flight: self.in_flight + 1, ..self })
    }

    /// A new record in flight in the place of a completed one: F+1 C−1. The permit of the victim
    /// never returns to the pool.
    ///
    /// # Errors
    ///
    /// [`InFlightFull`].
    pub fn evict(self, caps: StoreCaps) -> Result<Self, InFlightFull> {
        if self.in_flight >= caps.in_flight {
            return Err(InFlightFull);
        }
        Ok(Self { in_flight: self.in_flight + 1, completed: less(self.completed, 1), ..self })
    }

    /// A new record in flight, in free room if there is any, else in the place of a completed one.
    ///
    /// # Errors
    ///
    /// [`InFlightFull`].
    pub fn start_or_evict(self, caps: StoreCaps) -> Result<(Self, Room), InFlightFull> {
        match self.start(caps) {
            Ok(next) => Ok((next, Room::Free)),
            Err(Full::InFlight) => Err(InFlightFull),
            Err(Full::Entries { .. }) => self.evict(caps).map(|next| (next, Room::Evicted)),
        }
    }

    /// A tombstone is in flight again: F+1. Its record keeps its permit.
    ///
    /// # Errors
    ///
    /// [`InFlightFull`].
    pub fn redispatch(self, caps: StoreCaps) -> Result<Self, InFlightFull> {
        if self.in_flight >= caps.in_flight {
            return Err(InFlightFull);
        }
        Ok(Self { in_flight: self.in_flight + 1, ..self })
    }

    /// In flight becomes completed: F−1 C+1.
    #[must_use]
    pub fn complete(self) -> Self {
        Self { in_flight: less(self.in_flight, 1), completed: self.completed + 1, ..self }
    }

    /// In flight becomes a tombstone: F−1.
    #[must_use]
    pub fn tombstone(self) -> Self {
        Self { in_flight: less(self.in_flight, 1), ..self }
    }

    /// In flight is gone: F−1 R−1.
    #[must_use]
    pub fn release(self) -> Self {
        Self { in_flight: less(self.in_flight, 1), records: less(self.records, 1), ..self }
    }

    /// Expired records are gone: R−`records` C−`completed`, the completed ones among them.
    #[must_use]
    pub fn sweep(self, records: u32, completed: u32) -> Self {
        Self {
            records: less(self.records, records),
            completed: less(self.completed, completed),
            ..self
        }
    }

    /// Completed records of a part that died can no longer be evicted, but keep their permits:
    /// C−`completed`.
    #[must_use]
    pub fn forget(self, completed: u32) -> Self {
        Self { completed: less(self.completed, completed), ..self }
    }
}

/// A count less what leaves it. It never falls below zero: a borrow would corrupt its neighbours
/// in the packed word.
fn less(count: u32, by: u32) -> u32 {
    debug_assert!(count >= by, "a count of {count} cannot lose {by}");
    count.saturating_sub(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: StoreCaps = StoreCaps { entries: 2, in_flight: 1 };

    fn counts(records: u32, in_flight: u32, completed: u32) -> Counts {
        Counts { records, in_flight, completed }
    }

    #[test]
    fn a_start_needs_room_in_both_and_in_flight_is_looked_at_first() {
        assert_eq!(counts(1, 0, 1).start(CAPS), Ok(counts(2, 1, 1)));
        assert_eq!(counts(2, 1, 1).start(CAPS), Err(Full::InFlight));
        assert_eq!(counts(2, 0, 2).start(CAPS), Err(Full::Entries { completed: 2 }));
        assert_eq!(counts(2, 0, 0).start(CAPS), Err(Full::Entries { completed: 0 }));
    }

    #[test]
    fn an_eviction_takes_the_permit_over() {
        assert_eq!(counts(2, 0, 2).evict(CAPS), Ok(counts(2, 1, 1)));
        assert_eq!(counts(2, 1, 1).evict(CAPS), Err(InFlightFull));
        assert_eq!(counts(1, 0, 1).start_or_evict(CAPS), Ok((counts(2, 1, 1), Room::Free)));
        assert_eq!(counts(2, 0, 2).start_or_evict(CAPS), Ok((counts(2, 1, 1), Room::Evicted)));
        assert_eq!(counts(2, 1, 1).start_or_evict(CAPS), Err(InFlightFull));
    }

    #[test]
    fn a_redispatch_takes_a_place_in_flight_and_none_beside_it() {
        assert_eq!(counts(2, 0, 1).redispatch(CAPS), Ok(counts(2, 1, 1)));
        assert_eq!(counts(2, 1, 0).redispatch(CAPS), Err(InFlightFull));
    }

    #[test]
    fn settles_and_sweeps_give_back_what_they_name() {
        assert_eq!(counts(2, 1, 1).complete(), counts(2, 0, 2));
        assert_eq!(counts(2, 1, 1).tombstone(), counts(2, 0, 1));
        assert_eq!(counts(2, 1, 1).release(), counts(1, 0, 1));
        assert_eq!(counts(9, 1, 5).sweep(4, 3), counts(5, 1, 2));
        assert_eq!(counts(9, 1, 5).forget(5), counts(9, 1, 0));
    }
}
