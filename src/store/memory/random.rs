//! Random numbers for the names of receipts, asked of the system for many at once: to ask for each
//! is a system call in every keyed call.

use std::sync::{Mutex, PoisonError};

/// Numbers of one asking.
const AT_ONCE: usize = 64;

/// What is left of the last asking.
pub(super) struct Random(Mutex<Vec<[u8; 16]>>);

impl Random {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Vec::with_capacity(AT_ONCE)))
    }

    /// A number that nobody was given before.
    ///
    /// # Errors
    ///
    /// When the system gives none.
    pub(super) fn take(&self) -> Result<[u8; 16], getrandom::Error> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = left.pop() {
            return Ok(number);
        }
        let mut bytes = [[0; 16]; AT_ONCE];
        getrandom::fill(bytes.as_flattened_mut())?;
        let [number, others @ ..] = bytes;
        left.extend(others);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_number_is_given_twice() {
        let random = Random::new();
        let numbers: HashSet<_> =
            (0..3 * AT_ONCE).map(|_| random.take().expect("a number")).collect();
        assert_eq!(numbers.len(), 3 * AT_ONCE);
    }
}
