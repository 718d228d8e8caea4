//! Three counts in one atomic word.

use super::sync::{AtomicU64, Ordering};
use crate::claim::counts::Counts;
use crate::claim::limits::MAX_ENTRIES;

/// The width of one count; three of them fit into 64 bits.
const BITS: u32 = 21;
const MASK: u64 = MAX_ENTRIES as u64;

const _: () = assert!(MASK == (1 << BITS) - 1);

/// Records, in flight and completed, moved together by one compare-and-swap.
#[derive(Debug)]
pub(super) struct Word(AtomicU64);

impl Word {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(pack(Counts::default())))
    }

    /// One reading of all three.
    ///
    /// Acquire: whoever sees a transition also sees what its shard did before it, above all the
    /// lower bounds that a completion publishes and the reply that an eviction hides.
    pub(super) fn load(&self) -> Counts {
        unpack(self.0.load(Ordering::Acquire))
    }

    /// Applies a transition that may refuse; refused, it changes nothing.
    ///
    /// Acquire and release on success for the reason given at [`Word::load`]; acquire on failure,
    /// because the next try decides by what it read.
    pub(super) fn change<T, E>(
        &self,
        transition: impl Fn(Counts) -> Result<(Counts, T), E>,
    ) -> Result<T, E> {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let (next, result) = transition(unpack(seen))?;
            match self.0.compare_exchange_weak(
                seen,
                pack(next),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(result),
                Err(now) => seen = now,
            }
        }
    }

    /// Applies a transition that cannot refuse.
    pub(super) fn replace(&self, transition: impl Fn(Counts) -> Counts) {
        let Ok(()) =
            self.change(|counts| Ok::<_, std::convert::Infallible>((transition(counts), ())));
    }
}

fn pack(counts: Counts) -> u64 {
    u64::from(counts.records)
        | u64::from(counts.in_flight) << BITS
        | u64::from(counts.completed) << (2 * BITS)
}

fn unpack(word: u64) -> Counts {
    let count = |place: u32| ((word >> (place * BITS)) & MASK) as u32;
    Counts { records: count(0), in_flight: count(1), completed: count(2) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_count_keeps_its_own_bits_up_to_the_largest() {
        let full = Counts { records: MAX_ENTRIES, in_flight: MAX_ENTRIES, completed: MAX_ENTRIES };
        for counts in [
            Counts::default(),
            full,
            Counts { records: MAX_ENTRIES, ..Counts::default() },
            Counts { in_flight: MAX_ENTRIES, ..Counts::default() },
            Counts { completed: MAX_ENTRIES, ..Counts::default() },
            Counts { records: 3, in_flight: 1, completed: 2 },
        ] {
            assert_eq!(unpack(pack(counts)), counts);
        }
        assert_eq!(pack(full), u64::MAX >> 1);
    }

    #[test]
    fn a_refused_change_changes_nothing() {
        let word = Word::new();
        assert_eq!(word.change(|counts| Ok::<_, ()>((counts, counts))), Ok(Counts::default()));
        assert_eq!(word.change(|_| Err::<(Counts, ()), _>("no")), Err("no"));
        assert_eq!(word.load(), Counts::default());
    }
}
