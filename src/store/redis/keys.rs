//! The names of the keys, and what members of the sets are (STORE section 4).

use std::fmt;

use crate::claim::{Begin, PrincipalId, ScopeId, SlotKey};
use crate::store::{Asked, Domain};

/// Bytes of a digest.
const DIGEST: usize = 32;

/// Bytes of a member of a domain's set before the name of its record: slot, scope, principal.
const MEMBER: usize = 3 * DIGEST;

/// A begin, and what its record is called after the domain.
#[derive(Clone)]
pub(super) struct Named {
    pub(super) begin: Begin,
    /// In a workspace, with a raw key in it; empty where the slot names the record.
    pub(super) record: Box<str>,
}

impl Named {
    pub(super) fn new(asked: &Asked<'_>) -> Self {
        let record = match asked.domain {
            Domain::Server(_) => "",
            Domain::Workspace { record, .. } => record,
        };
        Self { begin: asked.begin, record: record.into() }
    }
}

/// The keys of one domain. The braces keep them in one slot of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DomainKeys {
    /// `<prefix>idem:{<domain>}:`, before the slot.
    records: String,
    /// `<prefix>quota:{<server uid>}` or `<prefix>workspace:{<id>}`, before what is counted.
    quotas: String,
}

/// A completed record that may be evicted, by its member in the domain's set.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Victim(Box<[u8]>);

impl fmt::Debug for Victim {
    /// Without the name of its record.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Victim({:.16})", SlotKey::from_bytes(self.part(0)))
    }
}

impl Victim {
    /// `None` where a script named something else.
    pub(super) fn from_member(member: &[u8]) -> Option<Self> {
        let name = member.get(MEMBER..)?;
        std::str::from_utf8(name).is_ok().then(|| Self(member.into()))
    }

    pub(super) fn member(&self) -> &[u8] {
        &self.0
    }

    /// What its record is called, as [`Named`] has it.
    fn record(&self) -> &str {
        std::str::from_utf8(&self.0[MEMBER..]).unwrap_or_default()
    }

    fn part(&self, place: usize) -> [u8; DIGEST] {
        let mut part = [0; DIGEST];
        part.copy_from_slice(&self.0[place * DIGEST..(place + 1) * DIGEST]);
        part
    }
}

impl DomainKeys {
    pub(super) fn new(prefix: &str, domain: &Domain<'_>) -> Self {
        let (sets, name) = match domain {
            Domain::Server(uid) => ("quota", uid),
            Domain::Workspace { id, .. } => ("workspace", id),
        };
        Self {
            records: format!("{prefix}idem:{{{name}}}:"),
            quotas: format!("{prefix}{sets}:{{{name}}}"),
        }
    }

    /// What every script but the occupancy's declares first, in the order of scripts/common.lua.
    pub(super) fn of(&self, Named { begin, record }: &Named) -> Vec<String> {
        let mut keys = vec![self.record(&begin.slot, record), self.quotas.clone()];
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
            self.record(&SlotKey::from_bytes(victim.part(0)), victim.record()),
            self.scope(&ScopeId::from_bytes(victim.part(1)), "c"),
            self.principal(&PrincipalId::from_bytes(victim.part(2)), "c"),
        ]
    }

    /// A slot of a server has only hex digits, a record of a workspace colons: where a server's uid
    /// is also a workspace's id, their records do not meet.
    fn record(&self, slot: &SlotKey, record: &str) -> String {
        match record {
            "" => format!("{}{slot}", self.records),
            _ => format!("{}{record}", self.records),
        }
    }

    fn scope(&self, scope: &ScopeId, set: &str) -> String {
        format!("{}:s:{scope}:{set}", self.quotas)
    }

    fn principal(&self, principal: &PrincipalId, set: &str) -> String {
        format!("{}:p:{principal}:{set}", self.quotas)
    }

    /// The receipts of the domain, and their order.
    pub(super) fn receipts(&self) -> [String; 2] {
        [format!("{}:receipts", self.quotas), format!("{}:receipts:order", self.quotas)]
    }

    fn domain(&self, set: &str) -> String {
        format!("{}:{set}", self.quotas)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::claim::{Dispatch, RequestHash};

    const SLOT: [u8; DIGEST] = [0xab; DIGEST];

    pub fn begin() -> Begin {
        Begin {
            slot: SlotKey::from_bytes(SLOT),
            scope: ScopeId::from_bytes([1; DIGEST]),
            principal: PrincipalId::from_bytes([2; DIGEST]),
            hash: RequestHash::from_bytes([3; DIGEST]),
            dispatch: Dispatch::UNDECLARED,
        }
    }

    /// Every key that may be declared for a begin in this domain.
    fn all(domain: &Domain<'_>, record: &str) -> (Vec<String>, DomainKeys) {
        let keys = DomainKeys::new("app:", domain);
        let named = Named { begin: begin(), record: record.into() };
        let all = keys.of(&named).into_iter().chain(keys.of_domain()).chain(keys.receipts());
        (all.collect(), keys)
    }

    #[test]
    fn every_key_of_a_domain_carries_its_braces_and_no_other() {
        let id = "uid-1:b";
        let record = "stripe:ab12:idt_1";
        let workspace = Domain::Workspace { id, record };
        for (domain, record) in [(Domain::Server(id), ""), (workspace, record)] {
            let (all, keys) = all(&domain, record);
            let name = if record.is_empty() { "ab".repeat(32) } else { record.to_owned() };
            assert_eq!(all[0], format!("app:idem:{{uid-1:b}}:{name}"));
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 13);
            let digests = [SLOT, [1; DIGEST], [2; DIGEST]].concat();
            let member = [&digests[..], record.as_bytes()].concat();
            let victim = Victim::from_member(&member).expect("three digests and a name");
            assert_eq!(keys.of_victim(&victim), [all[0].clone(), all[3].clone(), all[6].clone()]);
            assert!(
                all.iter().all(|key| key.contains("{uid-1:b}") && key.matches('{').count() == 1)
            );
            assert!(!format!("{victim:?}").contains("idt_1"), "a raw key");
        }
        assert_eq!(Victim::from_member(&[0; MEMBER - 1]), None);
        assert_eq!(Victim::from_member(&[&[0; MEMBER][..], &[0xff]].concat()), None);
    }

    #[test]
    fn a_workspace_and_a_server_of_the_same_name_share_no_key() {
        let record = "stripe:ab12:idt_1";
        let (of_server, _) = all(&Domain::Server("one"), "");
        let (of_workspace, _) = all(&Domain::Workspace { id: "one", record }, record);
        assert!(of_server.iter().all(|key| !of_workspace.contains(key)));
    }
}
