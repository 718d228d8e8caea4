//! The caps and lifetimes of a store (CONTRACT section 5).

use super::Millis;

/// Every cap of a store. Defaults are the contract's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// How long a completed record stands, from its completion.
    pub ttl: Millis,
    /// How long a tombstone stands, from its writing; never below `ttl`.
    pub tombstone_ttl: Millis,
    /// Records in the whole store.
    pub entries: u32,
    /// Records in flight in the whole store.
    pub in_flight: u32,
    /// Records of one principal.
    pub principal_entries: u32,
    /// Records in flight of one principal.
    pub principal_in_flight: u32,
    /// Records of one scope.
    pub scope_entries: u32,
    /// Records in flight of one scope.
    pub scope_in_flight: u32,
    /// Tombstones of one scope, the slots reserved by records in flight included.
    pub scope_tombstones: u32,
    /// Bytes of the body of one stored reply.
    pub reply_bytes: usize,
}

/// The most records a store can count: the ledger packs each count into 21 bits.
pub const MAX_ENTRIES: u32 = (1 << 21) - 1;

impl Default for Limits {
    fn default() -> Self {
        Self {
            ttl: Millis(5 * 60 * 1000),
            tombstone_ttl: Millis(5 * 60 * 1000),
            entries: 256,
            in_flight: 32,
            principal_entries: 64,
            principal_in_flight: 8,
            scope_entries: 32,
            scope_in_flight: 4,
            scope_tombstones: 8,
            reply_bytes: 32 * 1024,
        }
    }
}

/// Why a set of limits cannot be used. The names are those of the `[limits]` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    /// A cap of zero would refuse every keyed call.
    #[error("`{0}` must be at least 1")]
    Zero(&'static str),
    /// The nesting scope ≤ principal ≤ global is broken.
    #[error("`{inner}` ({inner_value}) must not exceed `{outer}` ({outer_value})")]
    Nesting {
        /// The cap that is too large.
        inner: &'static str,
        /// Its value.
        inner_value: u32,
        /// The cap around it.
        outer: &'static str,
        /// Its value.
        outer_value: u32,
    },
    /// Tombstones must outlive replies, or a retry after the reply is gone could execute again.
    #[error("`tombstone_ttl` must not be shorter than `ttl`")]
    TombstoneTtl,
    /// More records than the ledger can count.
    #[error("`entries` must not exceed {MAX_ENTRIES}")]
    Entries,
}

impl Limits {
    /// Checks what CONTRACT sections 5 and 11 demand of the caps.
    ///
    /// # Errors
    ///
    /// The first rule that is broken, with the names of the fields to change.
    pub fn validate(&self) -> Result<(), LimitsError> {
        let caps = [
            ("entries", self.entries),
            ("in_flight", self.in_flight),
            ("principal_entries", self.principal_entries),
            ("principal_in_flight", self.principal_in_flight),
            ("scope_entries", self.scope_entries),
            ("scope_in_flight", self.scope_in_flight),
            ("scope_tombstones", self.scope_tombstones),
        ];
        if let Some((name, _)) = caps.iter().find(|(_, value)| *value == 0) {
            return Err(LimitsError::Zero(name));
        }
        if self.ttl == Millis(0) {
            return Err(LimitsError::Zero("ttl"));
        }
        if self.tombstone_ttl < self.ttl {
            return Err(LimitsError::TombstoneTtl);
        }
        if self.entries > MAX_ENTRIES {
            return Err(LimitsError::Entries);
        }
        let nested = [
            (("scope_entries", self.scope_entries), ("principal_entries", self.principal_entries)),
            (("principal_entries", self.principal_entries), ("entries", self.entries)),
            (
                ("scope_in_flight", self.scope_in_flight),
                ("principal_in_flight", self.principal_in_flight),
            ),
            (("principal_in_flight", self.principal_in_flight), ("in_flight", self.in_flight)),
        ];
        for ((inner, inner_value), (outer, outer_value)) in nested {
            if inner_value > outer_value {
                return Err(LimitsError::Nesting { inner, inner_value, outer, outer_value });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_contracts_and_valid() {
        let limits = Limits::default();
        assert_eq!(limits.validate(), Ok(()));
        assert_eq!((limits.entries, limits.principal_entries, limits.scope_entries), (256, 64, 32));
        assert_eq!(
            (limits.in_flight, limits.principal_in_flight, limits.scope_in_flight),
            (32, 8, 4)
        );
        assert_eq!((limits.scope_tombstones, limits.reply_bytes), (8, 32768));
        assert_eq!((limits.ttl, limits.tombstone_ttl), (Millis(300_000), Millis(300_000)));
    }

    #[test]
    fn a_cap_may_be_as_large_as_the_one_around_it_and_as_can_be_counted() {
        let limits = Limits {
            entries: MAX_ENTRIES,
            in_flight: MAX_ENTRIES,
            principal_entries: MAX_ENTRIES,
            principal_in_flight: MAX_ENTRIES,
            scope_entries: MAX_ENTRIES,
            scope_in_flight: MAX_ENTRIES,
            ..Limits::default()
        };
        assert_eq!(limits.validate(), Ok(()));
    }

    #[test]
    fn each_broken_rule_is_named() {
        let base = Limits::default();
        let cases = [
            (Limits { scope_entries: 65, ..base }, "scope_entries"),
            (Limits { principal_entries: 257, ..base }, "principal_entries"),
            (Limits { scope_in_flight: 9, ..base }, "scope_in_flight"),
            (Limits { principal_in_flight: 33, ..base }, "principal_in_flight"),
            (Limits { scope_tombstones: 0, ..base }, "scope_tombstones"),
            (Limits { tombstone_ttl: Millis(299_999), ..base }, "tombstone_ttl"),
            (Limits { entries: MAX_ENTRIES + 1, ..base }, "entries"),
        ];
        for (limits, name) in cases {
            let error = limits.validate().expect_err(name).to_string();
            assert!(error.contains(name), "{error} should name {name}");
        }
    }
}
