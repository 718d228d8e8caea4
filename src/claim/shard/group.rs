//! The quotas that records count against: an arena of groups and a map from whom they count for.
//!
//! A group is whatever records are counted for: a scope, a principal, or the shard as a whole. Each
//! keeps its completed records and its tombstones in the order in which they were settled, which is
//! the order of eviction and of expiry at once: lifetimes are constants of the store.

use std::hash::BuildHasher;
use std::num::NonZeroU32;

use hashbrown::HashTable;
use slab::Slab;

use super::list::List;
use crate::claim::{Begin, DigestHash, PrincipalId, ScopeId};

/// The quotas that a record counts against, from the inside out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Scope = 0,
    Principal = 1,
    Shard = 2,
}

impl Level {
    pub(super) const ALL: [Self; 3] = [Self::Scope, Self::Principal, Self::Shard];
}

/// The counts of a scope, a principal or the shard; expired records that stand count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) records: u32,
    pub(super) in_flight: u32,
    pub(super) tombstones: u32,
}

/// A place in the arena of groups. There are at most two groups for each record and one more, so
/// places stay far below 2³².
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupId(NonZeroU32);

/// The group of the shard as a whole: made first, never removed.
pub(super) const ROOT: GroupId = GroupId(NonZeroU32::MIN);

impl GroupId {
    fn from_index(index: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index as u32))
    }

    fn index(self) -> usize {
        (self.0.get() - 1) as usize
    }
}

/// One group, on one cache line: with many of them each is found in memory, not in a cache.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct Group {
    /// Whom it counts for: a scope's or a principal's digest, nobody's for the shard.
    digest: [u8; 32],
    /// The group around this one; that of the shard is around itself.
    around: GroupId,
    pub(super) tally: Tally,
    pub(super) completed: List,
    pub(super) tombstones: List,
}

const _: () = assert!(size_of::<Group>() == 64);

impl Group {
    fn new(digest: [u8; 32], around: GroupId) -> Self {
        let (completed, tombstones) = (List::default(), List::default());
        Self { digest, around, tally: Tally::default(), completed, tombstones }
    }
}

/// The arena, and its places by whom a group counts for.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    arena: Slab<Group>,
    places: HashTable<GroupId>,
}

impl Groups {
    pub(super) fn new() -> Self {
        let mut arena = Slab::new();
        arena.insert(Group::new([0; 32], ROOT));
        Self { arena, places: HashTable::new() }
    }

    pub(super) fn get(&self, id: GroupId) -> &Group {
        &self.arena[id.index()]
    }

    pub(super) fn get_mut(&mut self, id: GroupId) -> &mut Group {
        &mut self.arena[id.index()]
    }

    /// The group of a level that a begin would count against.
    pub(super) fn find(&self, level: Level, begin: &Begin) -> Option<&Group> {
        let scope = self.find_scope(begin.principal, begin.scope);
        let id = match level {
            Level::Scope => scope,
            Level::Principal => match scope {
                Some(scope) => Some(self.get(scope).around),
                None => self.find_principal(begin.principal),
            },
            Level::Shard => Some(ROOT),
        };
        id.map(|id| self.get(id))
    }

    /// The counts of the scope and of the principal that a begin would count against.
    pub(super) fn tallies_of(&self, begin: &Begin) -> [Tally; 2] {
        let tally = |id: Option<GroupId>| id.map_or_else(Tally::default, |id| self.get(id).tally);
        match self.find_scope(begin.principal, begin.scope) {
            Some(scope) => [scope, self.get(scope).around].map(|id| tally(Some(id))),
            None => [Tally::default(), tally(self.find_principal(begin.principal))],
        }
    }

    /// The groups that lie around a scope, by level.
    pub(super) fn around(&self, scope: GroupId) -> [GroupId; 3] {
        [scope, self.get(scope).around, ROOT]
    }

    /// Whom a scope counts for.
    pub(super) fn owner(&self, scope: GroupId) -> (PrincipalId, ScopeId) {
        let scope = self.get(scope);
        let principal = self.get(scope.around);
        (PrincipalId::from_bytes(principal.digest), ScopeId::from_bytes(scope.digest))
    }

    /// The scope that a begin counts against, made with its principal if there is none.
    pub(super) fn join(&mut self, begin: &Begin) -> GroupId {
        let Begin { principal, scope, .. } = *begin;
        self.find_scope(principal, scope).unwrap_or_else(|| {
            let around = self
                .find_principal(principal)
                .unwrap_or_else(|| self.insert(*principal.as_bytes(), ROOT));
            self.insert(*scope.as_bytes(), around)
        })
    }

    /// Removes a group that counts nothing; the shard's stays.
    pub(super) fn remove_empty(&mut self, id: GroupId) {
        let group = self.get(id);
        if id == ROOT || group.tally.records > 0 {
            return;
        }
        let hash = hash_of(&group.digest);
        if let Ok(place) = self.places.find_entry(hash, |place| *place == id) {
            place.remove();
        }
        self.arena.remove(id.index());
    }

    /// The counts of every scope and of every principal, in no order.
    pub(super) fn tallies(&self) -> impl Iterator<Item = (Option<ScopeId>, PrincipalId, Tally)> {
        self.arena.iter().filter(|(index, _)| *index != ROOT.index()).map(|(_, group)| {
            if group.around == ROOT {
                (None, PrincipalId::from_bytes(group.digest), group.tally)
            } else {
                let principal = PrincipalId::from_bytes(self.get(group.around).digest);
                (Some(ScopeId::from_bytes(group.digest)), principal, group.tally)
            }
        })
    }

    fn find_scope(&self, principal: PrincipalId, scope: ScopeId) -> Option<GroupId> {
        let is_it = |id: &GroupId| {
            let group = self.get(*id);
            group.around != ROOT
                && group.digest == *scope.as_bytes()
                && self.get(group.around).digest == *principal.as_bytes()
        };
        self.places.find(hash_of(scope.as_bytes()), is_it).copied()
    }

    fn find_principal(&self, principal: PrincipalId) -> Option<GroupId> {
        let is_it = |id: &GroupId| {
            let group = self.get(*id);
            group.around == ROOT && group.digest == *principal.as_bytes()
        };
        self.places.find(hash_of(principal.as_bytes()), is_it).copied()
    }

    fn insert(&mut self, digest: [u8; 32], around: GroupId) -> GroupId {
        let id = GroupId::from_index(self.arena.insert(Group::new(digest, around)));
        let arena = &self.arena;
        self.places.insert_unique(hash_of(&digest), id, |id| hash_of(&arena[id.index()].digest));
        id
    }
}

fn hash_of(digest: &[u8; 32]) -> u64 {
    DigestHash::default().hash_one(digest)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::claim::{Dispatch, RequestHash, SlotKey};

    fn begin(principal: u32, scope: u32) -> Begin {
        let digest = |number: u32| Sha256::digest(number.to_be_bytes()).into();
        Begin {
            slot: SlotKey::from_bytes([0; 32]),
            scope: ScopeId::from_bytes(digest(scope)),
            principal: PrincipalId::from_bytes(digest(principal)),
            hash: RequestHash::from_bytes([0; 32]),
            dispatch: Dispatch::UNDECLARED,
        }
    }

    #[test]
    fn a_digest_is_found_by_its_own_first_bytes() {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(hash_of(&digest), 0x0807_0605_0403_0201);
    }

    /// So many that parts of their hashes are the same; the same scopes under two principals, and
    /// one of them named like a principal.
    #[test]
    fn every_scope_is_found_among_many() {
        let begins: Vec<_> = (0..600).map(|n| begin(n % 2, n / 2)).collect();
        let mut groups = Groups::new();
        for (number, begin) in (1..).zip(&begins) {
            let id = groups.join(begin);
            assert_eq!(groups.owner(id), (begin.principal, begin.scope));
            let tally = &mut groups.get_mut(id).tally;
            assert_eq!(tally.records, 0, "it was not there");
            tally.records = number;
        }
        for (number, begin) in (1..).zip(&begins) {
            assert_eq!(
                groups.find(Level::Scope, begin).map(|group| group.tally.records),
                Some(number)
            );
        }
    }
}
