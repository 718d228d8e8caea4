//! The names of the keys, and what members of the sets are (STORE section 4).

use crate::claim::{Begin, PrincipalId, ScopeId, SlotKey};

/// Bytes of a digest.
const DIGEST: usize = 32;

/// Bytes of a member of a domain's set: slot, scope, principal.
pub(super) const MEMBER: usize = 3 * DIGEST;

/// The keys of one domain. The braces keep them in one slot of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DomainKeys {
    /// `<prefix>idem:{<domain>}:`, before the slot.
    records: String,
    /// `<prefix>quota:{<domain>}`, before what is counted.
    quotas: String,
}

/// A completed record that may be evicted, by its member in the domain's set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Victim([u8; MEMBER]);

impl Victim {
    /// `None` where a script named something else.
    pub(super) fn from_member(member: &[u8]) -> Option<Self> {
        member.try_into().ok().map(Self)
    }

    pub(super) fn member(&self) -> &[u8] {
        &self.0
    }

    fn part(&self, place: usize) -> [u8; DIGEST] {
        let mut part = [0; DIGEST];
        part.copy_from_slice(&self.0[place * DIGEST..(place + 1) * DIGEST]);
        part
    }
}

impl DomainKeys {
    pub(super) fn new(prefix: &str, domain: &str) -> Self {
        Self {
            records: format!("{prefix}idem:{{{domain}}}:"),
            quotas: format!("{prefix}quota:{{{domain}}}"),
        }
    }

    /// What every script but the occupancy's declares first, in the order of scripts/common.lua.
    pub(super) fn of(&self, begin: &Begin) -> Vec<String> {
        let mut keys = vec![self.record(&begin.slot), self.quotas.clone()];
        keys.extend(["f", "c", "t"].map(|set| self.scope(&begin.scope, set)));
        keys.extend(["f", "c", "t"].map(|set| self.principal(&begin.principal, set)));
        keys.extend(["f", "c", "t"].map(|set| self.domain(set)));
        keys
    }

    /// The same in places for a script that reads nothing but the domain.
    pub(super) fn of_domain(&self) -> Vec<String> {
        let sets = ["f", "c", "t"].map(|set| self.domain(set));
        let heads = [self.quotas.clone(), self.quotas.clone()];
        heads.into_iter().chain(sets.iter().cycle().take(9).cloned()).collect()
    }

    /// What a begin that may evict a victim declares beside.
    pub(super) fn of_victim(&self, victim: &Victim) -> [String; 3] {
        [
            self.record(&SlotKey::from_bytes(victim.part(0))),
            self.scope(&ScopeId::from_bytes(victim.part(1)), "c"),
            self.principal(&PrincipalId::from_bytes(victim.part(2)), "c"),
        ]
    }

    fn record(&self, slot: &SlotKey) -> String {
        format!("{}{slot}", self.records)
    }

    fn scope(&self, scope: &ScopeId, set: &str) -> String {
        format!("{}:s:{scope}:{set}", self.quotas)
    }

    fn principal(&self, principal: &PrincipalId, set: &str) -> String {
        format!("{}:p:{principal}:{set}", self.quotas)
    }

    fn domain(&self, set: &str) -> String {
        format!("{}:{set}", self.quotas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_domain_carries_its_braces_and_no_other() {
        let digest = [0xab; DIGEST];
        let begin = Begin {
            slot: SlotKey::from_bytes(digest),
            scope: ScopeId::from_bytes([1; DIGEST]),
            principal: PrincipalId::from_bytes([2; DIGEST]),
            hash: crate::claim::RequestHash::from_bytes([3; DIGEST]),
            dispatch: crate::claim::Dispatch::UNDECLARED,
        };
        let keys = DomainKeys::new("app:", "uid-1:b");
        let mut all = keys.of(&begin);
        assert_eq!(all[0], format!("app:idem:{{uid-1:b}}:{}", "ab".repeat(32)));
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 11);
        let member: Vec<u8> = [digest, [1; DIGEST], [2; DIGEST]].concat();
        let victim = keys.of_victim(&Victim::from_member(&member).expect("three digests"));
        assert_eq!(victim, [all[0].clone(), all[3].clone(), all[6].clone()]);
        all.extend(keys.of_domain());
        assert!(all.iter().all(|key| key.contains("{uid-1:b}") && key.matches('{').count() == 1));
        assert_eq!(Victim::from_member(&member[1..]), None);
    }
}
