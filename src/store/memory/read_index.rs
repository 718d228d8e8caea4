//! The hit path: completed replies by slot, read without a message.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use dashmap::DashSet;

use crate::claim::protocol::Outcome;
use crate::claim::shared::Index;
use crate::claim::{Begin, Completion, DigestHash, SlotKey};
use crate::store::{Clock, Known};

/// A completion under its slot. The shard keeps the same one: a record stands once.
#[derive(Debug)]
struct Entry(Arc<Completion>);

impl Borrow<SlotKey> for Entry {
    fn borrow(&self) -> &SlotKey {
        &self.0.claim.slot
    }
}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.claim.slot.hash(state);
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.0.claim.slot == other.0.claim.slot
    }
}

impl Eq for Entry {}

/// Every completed reply of the store; written by the shards, each its own slots.
#[derive(Debug)]
pub(super) struct ReadIndex {
    entries: DashSet<Entry, DigestHash>,
}

impl ReadIndex {
    /// An index with places for `entries` replies, so that it never grows while readers wait.
    pub(super) fn for_entries(entries: u32) -> Self {
        let entries = DashSet::with_capacity_and_hasher(entries as usize, DigestHash::default());
        Self { entries }
    }

    /// What a completed record answers; `None` asks the shard.
    ///
    /// The clock is read after the entry was found: an entry found with a clock read before may
    /// have expired since, and another record may have had its room.
    pub(super) fn look_up(&self, begin: &Begin, clock: &dyn Clock) -> Option<Known> {
        let (expires, known) = {
            let entry = self.entries.get(&begin.slot)?;
            let known = match entry.0.answer(begin) {
                Outcome::Replay(reply) => Known::Replay(reply),
                Outcome::OtherRoute => Known::OtherRoute,
                _ => Known::Conflict,
            };
            (entry.0.expires, known)
        };
        (clock.now() < expires).then_some(known)
    }
}

impl Index for Arc<ReadIndex> {
    /// A slot that is shown was not there: its record was hidden before it left its shard.
    fn show(&mut self, completion: &Arc<Completion>) {
        self.entries.insert(Entry(Arc::clone(completion)));
    }

    fn hide(&mut self, slot: SlotKey) {
        self.entries.remove(&slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{
        Claim, Dispatch, DispatchHash, Millis, Pin, PrincipalId, Reply, RequestHash, ScopeId,
    };
    use bytes::Bytes;

    const EXPIRES: Millis = Millis(10);

    fn begin(hash: u8) -> Begin {
        Begin {
            slot: SlotKey::from_bytes([1; 32]),
            scope: ScopeId::from_bytes([2; 32]),
            principal: PrincipalId::from_bytes([3; 32]),
            hash: RequestHash::from_bytes([hash; 32]),
            dispatch: Dispatch::UNDECLARED,
        }
    }

    fn show(index: &Arc<ReadIndex>) {
        let reply = Reply::new(200, None, Bytes::from_static(b"ok"), 2).expect("it fits");
        let claim = Claim::of(&begin(0));
        let completion = Completion { claim, expires: EXPIRES, reply: Arc::new(reply) };
        Arc::clone(index).show(&Arc::new(completion));
    }

    /// A clock that stands, while the record is being completed whenever it is read.
    struct Meanwhile {
        now: Millis,
        completed: Option<Arc<ReadIndex>>,
    }

    impl Clock for Meanwhile {
        fn now(&self) -> Millis {
            self.completed.iter().for_each(show);
            self.now
        }
    }

    #[test]
    fn a_reply_is_found_by_its_hash_until_it_expires() {
        let index = Arc::new(ReadIndex::for_entries(1));
        show(&index);
        let at = |now| Meanwhile { now: Millis(now), completed: None };
        assert!(matches!(index.look_up(&begin(0), &at(9)), Some(Known::Replay(_))));
        assert!(matches!(index.look_up(&begin(1), &at(9)), Some(Known::Conflict)));
        assert!(index.look_up(&begin(0), &at(10)).is_none());
        Arc::clone(&index).hide(begin(0).slot);
        assert!(index.look_up(&begin(0), &at(9)).is_none());
    }

    #[test]
    fn a_reply_of_another_route_is_refused_where_routes_are_pinned() {
        let index = Arc::new(ReadIndex::for_entries(1));
        show(&index);
        let clock = Meanwhile { now: Millis(9), completed: None };
        let hash = Some(DispatchHash::from_bytes([4; 32]));
        let look_up = |hash, pin, request| {
            let dispatch = Dispatch { hash, pin, redispatch: true };
            index.look_up(&Begin { dispatch, ..begin(request) }, &clock)
        };
        assert!(matches!(look_up(hash, Pin::Always, 0), Some(Known::OtherRoute)));
        assert!(matches!(look_up(None, Pin::Always, 0), Some(Known::Replay(_))));
        assert!(matches!(look_up(hash, Pin::Always, 1), Some(Known::Conflict)));
        for pin in [Pin::Free, Pin::Open] {
            assert!(matches!(look_up(hash, pin, 0), Some(Known::Replay(_))));
        }
    }

    #[test]
    fn the_clock_is_read_after_the_entry_was_found() {
        let index = Arc::new(ReadIndex::for_entries(1));
        let clock = Meanwhile { now: Millis(0), completed: Some(Arc::clone(&index)) };
        assert!(index.look_up(&begin(0), &clock).is_none(), "what came after the clock was found");
    }
}
