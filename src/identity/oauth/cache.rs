//! Tokens that were verified lately, so that each is verified once and not with every request.
//!
//! A fixed table without a lock: a token has two places, by its digest, and a newcomer takes the
//! empty, ended or else the first of them. Only verified tokens get in, so a flood of others
//! displaces nothing.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use subtle::ConstantTimeEq;

use super::claims::Holder;

/// Tokens that are remembered for one server; a power of two.
pub(super) const MAX_TOKENS: usize = 2048;

/// The SHA-256 of a token.
pub(super) type Digest = [u8; 32];

/// What is remembered of a token.
pub(super) struct Entry {
    /// Which token.
    pub token: Digest,
    /// Whom it stands for.
    pub holder: Holder,
    /// When that ends, in milliseconds since the epoch.
    pub until_ms: i64,
    /// The keys by which it was verified; `None` for an opaque token.
    pub keys: Option<Digest>,
}

pub(super) struct Cache {
    places: Box<[ArcSwapOption<Entry>]>,
}

impl Cache {
    pub(super) fn new() -> Self {
        Self { places: (0..MAX_TOKENS).map(|_| ArcSwapOption::empty()).collect() }
    }

    /// The token's entry, unless its time is over or its issuer has other keys by now.
    pub(super) fn get(&self, token: &Digest, keys: Option<&Digest>, now_ms: i64) -> Option<Holder> {
        self.pair(token).iter().find_map(|place| {
            let entry = place.load();
            let entry = entry.as_ref()?;
            let same = bool::from(entry.token.ct_eq(token))
                && now_ms < entry.until_ms
                && entry.keys.as_ref().is_none_or(|used| Some(used) == keys);
            same.then(|| entry.holder.clone())
        })
    }

    pub(super) fn put(&self, entry: Entry, now_ms: i64) {
        let pair = self.pair(&entry.token);
        let free = |place: &&ArcSwapOption<Entry>| {
            place
                .load()
                .as_ref()
                .is_none_or(|held| held.token == entry.token || held.until_ms <= now_ms)
        };
        if let Some(place) = pair.iter().find(free).or(pair.first()) {
            place.store(Some(Arc::new(entry)));
        }
    }

    fn pair(&self, token: &Digest) -> &[ArcSwapOption<Entry>] {
        let [a, b, ..] = *token;
        let at = usize::from(u16::from_be_bytes([a, b])) % (MAX_TOKENS / 2) * 2;
        self.places.get(at..at + 2).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Principal;

    fn entry(first: u8, last: u8, until_ms: i64, keys: Option<Digest>) -> Entry {
        let mut token = [first; 32];
        token[31] = last;
        let principal = Principal::new(Some(&format!("h{last}")), None, None).expect("somebody");
        Entry { token, holder: Holder { principal, has_scopes: true }, until_ms, keys }
    }

    fn found(cache: &Cache, entry: &Entry, keys: Option<Digest>, now_ms: i64) -> bool {
        let found = cache.get(&entry.token, keys.as_ref(), now_ms);
        assert!(found.as_ref().is_none_or(|holder| *holder == entry.holder), "another's entry");
        found.is_some()
    }

    #[test]
    fn an_entry_ends_with_its_token_and_with_its_keys() {
        let cache = Cache::new();
        let keys = [7; 32];
        cache.put(entry(1, 1, 1000, Some(keys)), 0);
        let one = entry(1, 1, 1000, None);
        assert!(found(&cache, &one, Some(keys), 999));
        assert!(!found(&cache, &one, Some(keys), 1000));
        assert!(!found(&cache, &one, Some([8; 32]), 999));
        assert!(!found(&cache, &one, None, 999));
        let opaque = entry(2, 1, 1000, None);
        cache.put(entry(2, 1, 1000, None), 0);
        assert!(found(&cache, &opaque, Some([8; 32]), 999) && found(&cache, &opaque, None, 999));
        assert!(!found(&cache, &entry(3, 1, 0, None), None, 0), "never seen");
    }

    #[test]
    fn three_tokens_of_one_place_never_take_each_others_entry() {
        let cache = Cache::new();
        for last in 1..=3 {
            cache.put(entry(5, last, 1000, None), 0);
        }
        let held = (1..=3).filter(|last| found(&cache, &entry(5, *last, 0, None), None, 1)).count();
        assert_eq!(held, 2, "a pair of places holds two");
        assert!(found(&cache, &entry(5, 3, 0, None), None, 1), "the newest is held");
        cache.put(entry(5, 4, 1000, None), 2000);
        assert!(found(&cache, &entry(5, 4, 0, None), None, 1), "an ended entry gives way");
    }
}
