//! Sets of HTTP statuses, and what a tool's effect spec makes of them (EFFECTS section 2).

use std::fmt;
use std::ops::RangeInclusive;

/// The least and the greatest status that a set can hold.
pub const STATUSES: RangeInclusive<u16> = 100..=599;

/// A set of statuses within [`STATUSES`].
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct StatusSet([u64; 8]);

impl StatusSet {
    /// The set of one range; what is outside [`STATUSES`] is left out.
    pub fn of(range: RangeInclusive<u16>) -> Self {
        let mut set = Self::default();
        set.add(range);
        set
    }

    /// Adds a range; what is outside [`STATUSES`] is left out.
    pub fn add(&mut self, range: RangeInclusive<u16>) {
        for status in range {
            if let Some((word, bit)) = place(status) {
                self.0[word] |= bit;
            }
        }
    }

    /// Whether a status is in it.
    pub fn contains(&self, status: u16) -> bool {
        place(status).is_some_and(|(word, bit)| self.0[word] & bit != 0)
    }

    /// The statuses that are in both, in order.
    pub fn shared_with(&self, other: &Self) -> impl Iterator<Item = u16> {
        let (one, other) = (*self, *other);
        STATUSES.filter(move |status| one.contains(*status) && other.contains(*status))
    }
}

fn place(status: u16) -> Option<(usize, u64)> {
    let index = usize::from(status.checked_sub(*STATUSES.start())?);
    (status <= *STATUSES.end()).then_some((index / 64, 1 << (index % 64)))
}

impl fmt::Debug for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(STATUSES.filter(|status| self.contains(*status))).finish()
    }
}

/// What a tool's statuses mean: in `accepted` the call took effect, in `rejected` it did not; every
/// other status tells nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statuses {
    /// Completes.
    pub accepted: StatusSet,
    /// Releases.
    pub rejected: StatusSet,
    /// Deserves the one immediate second attempt; may overlap `rejected`, nothing else.
    pub retryable: StatusSet,
}

impl Default for Statuses {
    /// 2xx, 4xx, and none.
    fn default() -> Self {
        Self {
            accepted: StatusSet::of(200..=299),
            rejected: StatusSet::of(400..=499),
            retryable: StatusSet::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_its_ranges_and_nothing_beside() {
        let mut set = StatusSet::of(200..=299);
        set.add(404..=404);
        set.add(599..=9999);
        let held: Vec<u16> = (0..=u16::MAX).filter(|status| set.contains(*status)).collect();
        assert_eq!(held, (200..=299).chain([404, 599]).collect::<Vec<_>>());
        let other = StatusSet::of(299..=404);
        assert_eq!(set.shared_with(&other).collect::<Vec<_>>(), [299, 404]);
    }
}
