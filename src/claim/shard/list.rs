//! Intrusive lists over the record arena: O(1) at both ends and in the middle, no allocation.

use std::num::NonZeroU32;

use slab::Slab;

use super::group::Level;
use super::table::Record;

/// A place in the record arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordId(NonZeroU32);

impl RecordId {
    /// The id of an arena index. Indices stay below 2²¹ (`MAX_ENTRIES`), so none is cut.
    pub(super) fn from_index(index: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index as u32))
    }

    pub(super) fn index(self) -> usize {
        (self.0.get() - 1) as usize
    }
}

/// A record's neighbours in one list. The head's `prev` is what it was before and says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Links {
    prev: Option<RecordId>,
    next: Option<RecordId>,
}

/// Records in the order in which they were appended. A record is in at most one list of each
/// level: that of the completed or that of the tombstones.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct List {
    head: Option<RecordId>,
    tail: Option<RecordId>,
}

impl List {
    pub(super) fn head(&self) -> Option<RecordId> {
        self.head
    }

    pub(super) fn push_back(&mut self, records: &mut Slab<Record>, level: Level, id: RecordId) {
        *links(records, level, id) = Links { prev: self.tail, next: None };
        match self.tail {
            Some(tail) => links(records, level, tail).next = Some(id),
            None => self.head = Some(id),
        }
        self.tail = Some(id);
    }

    /// Takes a record out of this list, which must hold it.
    pub(super) fn remove(&mut self, records: &mut Slab<Record>, level: Level, id: RecordId) {
        let Links { prev, next } = *links(records, level, id);
        // Most are the head, and leave the next one as it is: that is one reach into memory less.
        let prev = if self.head == Some(id) {
            self.head = next;
            None
        } else {
            prev
        };
        if let Some(prev) = prev {
            links(records, level, prev).next = next;
        }
        match next {
            Some(next) if prev.is_some() => links(records, level, next).prev = prev,
            Some(_) => {}
            None => self.tail = prev,
        }
    }

    /// The records from the oldest on.
    pub(super) fn iter<'r>(
        &self,
        records: &'r Slab<Record>,
        level: Level,
    ) -> impl Iterator<Item = &'r Record> + use<'r> {
        std::iter::successors(self.head, move |id| records[id.index()].links[level as usize].next)
            .map(|id| &records[id.index()])
    }
}

fn links(records: &mut Slab<Record>, level: Level, id: RecordId) -> &mut Links {
    &mut records[id.index()].links[level as usize]
}
