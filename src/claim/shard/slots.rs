//! The map from slots to records. It holds places alone: the slot itself stands once, with the
//! record, and what a record keeps of its hash is enough to grow the map without reading slots.

use hashbrown::HashTable;

use super::list::RecordId;
use crate::claim::SlotKey;

/// A part of a slot, which is a digest and so its own hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag(u32);

impl Tag {
    pub(super) fn of(slot: &SlotKey) -> Self {
        let mut first = [0; 4];
        first.copy_from_slice(&slot.as_bytes()[..4]);
        Self(u32::from_le_bytes(first))
    }

    /// The map takes a place from the low bits and a check from the highest. Up to 2²⁵ places these
    /// are different bits of the tag.
    fn hash(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }
}

/// The records by slot.
#[derive(Debug, Clone, Default)]
pub(super) struct Slots(HashTable<RecordId>);

impl Slots {
    /// The record of this tag that `is_it`.
    pub(super) fn find(&self, tag: Tag, is_it: impl Fn(RecordId) -> bool) -> Option<RecordId> {
        self.0.find(tag.hash(), |id| is_it(*id)).copied()
    }

    /// Adds a record, whose slot is not there. `tag_of` says the tags of those that are.
    pub(super) fn insert(&mut self, tag: Tag, id: RecordId, tag_of: impl Fn(RecordId) -> Tag) {
        self.0.insert_unique(tag.hash(), id, |id| tag_of(*id).hash());
    }

    pub(super) fn remove(&mut self, tag: Tag, id: RecordId) {
        if let Ok(place) = self.0.find_entry(tag.hash(), |other| *other == id) {
            place.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_that_place_and_the_bits_that_check_are_the_slots_own() {
        for first in [[0xff, 0, 0, 0], [0, 0, 0, 0xff], [1, 2, 3, 4]] {
            let mut slot = [0; 32];
            slot[..4].copy_from_slice(&first);
            let hash = Tag::of(&SlotKey::from_bytes(slot)).hash();
            let first = u64::from(u32::from_le_bytes(first));
            assert_eq!((hash & u64::from(u32::MAX), hash >> 57), (first, first >> 25));
        }
    }

    #[test]
    fn slots_of_one_tag_are_told_apart_and_grow_together() {
        let mut slots = Slots::default();
        let tag = Tag::of(&SlotKey::from_bytes([7; 32]));
        for index in 0..100 {
            slots.insert(tag, RecordId::from_index(index), |_| tag);
        }
        let wanted = RecordId::from_index(42);
        assert_eq!(slots.find(tag, |id| id == wanted), Some(wanted));
        slots.remove(tag, wanted);
        assert_eq!(slots.find(tag, |id| id == wanted), None);
        let other = RecordId::from_index(43);
        assert_eq!(slots.find(tag, |id| id == other), Some(other));
    }
}
