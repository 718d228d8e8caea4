//! What this process knows of each domain: its keys, how far it was seen to be, and whether it has
//! lost something since (STORE section 4, "Loss").

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::answer::{Answer, Counts};
use super::keys::DomainKeys;
use super::pool::Route;
use super::server_time::ServerTime;
use crate::claim::Millis;
use crate::store::{Domain as Name, ReceiptId, StoreError};

/// How far a server's clock may be behind a domain's stamp before it is told: a busy domain's stamp
/// is ahead by the scripts that ran within a microsecond.
const TOLERATED: Duration = Duration::from_secs(1);

/// One domain.
pub(super) struct Domain {
    pub(super) keys: DomainKeys,
    /// The clock of the server that has its keys: nodes of a cluster need not agree.
    pub(super) server_time: ServerTime,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: Seen,
    /// Until when nothing is claimed, because records may be missing.
    refused_until: Millis,
    counts: Counts,
    /// Which node of a cluster has its keys.
    route: Route,
    /// Why no claim can be made that the last look at the domain found.
    wrong: Option<StoreError>,
    /// Whether its time stands still, because the server's clock is behind its stamp.
    stands: bool,
}

/// The most that a server has said of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Seen {
    /// Its highest stamp.
    pub(super) stamp: i64,
    /// Its birth; empty where there was none yet.
    pub(super) born: Vec<u8>,
}

impl Domain {
    fn new(keys: DomainKeys) -> Self {
        Self { keys, server_time: ServerTime::default(), state: Mutex::default() }
    }

    /// What to tell a script that was seen.
    ///
    /// # Errors
    ///
    /// [`StoreError::Lost`] while records may be missing.
    pub(super) fn seen(&self, now: Millis) -> Result<Seen, StoreError> {
        let state = self.state();
        if now < state.refused_until {
            return Err(StoreError::Lost);
        }
        Ok(state.seen.clone())
    }

    /// Learns from an answer. It was asked for when `asked` was seen: a domain that is behind that,
    /// or was born again, has lost something, and is refused until `recovered`.
    pub(super) fn learn(&self, answer: &Answer, asked: &Seen, recovered: Millis) {
        let mut state = self.state();
        let other = !asked.born.is_empty() && asked.born != answer.born;
        if answer.before < asked.stamp || other {
            if state.refused_until < recovered {
                tracing::error!("redis has lost records: keyed calls are refused for a while");
            }
            state.refused_until = state.refused_until.max(recovered);
            state.seen = Seen::default();
            return;
        }
        state.seen.stamp = state.seen.stamp.max(answer.after);
        if !answer.born.is_empty() {
            state.seen.born.clone_from(&answer.born);
        }
    }

    pub(super) fn counted(&self, counts: Counts, wrong: Option<StoreError>) {
        let mut state = self.state();
        (state.counts, state.wrong) = (counts, wrong);
    }

    /// Tells when the domain's time begins to stand still and when it goes on.
    pub(super) fn compare_clocks(&self, answer: &Answer) {
        let behind = answer.before.saturating_sub(answer.clock);
        let behind = Duration::from_micros(u64::try_from(behind).unwrap_or(0));
        let stands = behind > TOLERATED;
        if std::mem::replace(&mut self.state().stands, stands) == stands {
            return;
        }
        match stands {
            true => tracing::warn!(
                seconds = behind.as_secs(),
                "the clock of redis is behind its records: leases and records last that much longer"
            ),
            false => tracing::info!("the clock of redis has caught up with its records"),
        }
    }

    /// Which node of a cluster has its keys.
    pub(super) fn route(&self) -> Route {
        self.state().route.clone()
    }

    /// Another node has them, or it has to be asked for again.
    pub(super) fn reroute(&self, route: Route) {
        self.state().route = route;
    }

    /// A begin was refused for this.
    pub(super) fn refused(&self, error: StoreError) {
        self.state().wrong = Some(error);
    }

    pub(super) fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// Why no claim can be made.
    pub(super) fn wrong(&self, now: Millis) -> Option<StoreError> {
        let state = self.state();
        if now < state.refused_until { Some(StoreError::Lost) } else { state.wrong }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every domain that this process has served: as many as its policies ever named.
pub(super) struct Domains {
    prefix: String,
    known: Mutex<Known>,
}

/// Servers and workspaces, which may have the same names.
#[derive(Default)]
struct Known {
    servers: BTreeMap<String, Arc<Domain>>,
    workspaces: BTreeMap<String, Arc<Domain>>,
}

impl Domains {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), known: Mutex::default() }
    }

    pub(super) fn of(&self, domain: &Name<'_>) -> Arc<Domain> {
        let mut known = self.known();
        let (known, name) = match *domain {
            Name::Server(uid) => (&mut known.servers, uid),
            Name::Workspace { id, .. } => (&mut known.workspaces, id),
        };
        if let Some(domain) = known.get(name) {
            return Arc::clone(domain);
        }
        let domain = Arc::new(Domain::new(DomainKeys::new(&self.prefix, domain)));
        known.insert(name.to_owned(), Arc::clone(&domain));
        domain
    }

    pub(super) fn all(&self) -> Vec<Arc<Domain>> {
        let known = self.known();
        known.servers.values().chain(known.workspaces.values()).cloned().collect()
    }

    /// Those that may have receipts of a workspace, or of all.
    pub(super) fn of_receipts(&self, workspace: Option<&str>) -> Vec<Arc<Domain>> {
        match workspace {
            None => self.all(),
            Some(id) => self.known().workspaces.get(id).cloned().into_iter().collect(),
        }
    }

    /// The one whose receipt an id names.
    pub(super) fn with_receipt(&self, id: &ReceiptId) -> Option<Arc<Domain>> {
        let known = self.known();
        let servers = known.servers.iter().find(|(uid, _)| id.is_of(&Name::Server(uid)));
        let mut workspaces = known.workspaces.iter();
        let found = servers.or_else(|| {
            workspaces.find(|(name, _)| id.is_of(&Name::Workspace { id: name, record: "" }))
        });
        found.map(|(_, domain)| Arc::clone(domain))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::Word;
    use super::*;

    fn answer(before: i64, after: i64, born: &[u8]) -> Answer {
        Answer { word: Word::Done, clock: 0, before, after, born: born.to_owned() }
    }

    #[test]
    fn a_domain_that_falls_behind_is_refused_for_a_while() {
        let domain = Domains::new("").of(&Name::Server("d"));
        let until = Millis(500);
        domain.learn(&answer(0, 10, b"one"), &Seen::default(), until);
        let seen = domain.seen(Millis(1)).expect("nothing is lost");
        assert_eq!(seen, Seen { stamp: 10, born: b"one".to_vec() });
        domain.learn(&answer(10, 11, b"one"), &seen, until);
        domain.learn(&answer(9, 20, b"one"), &seen, until);
        assert_eq!(domain.seen(Millis(499)), Err(StoreError::Lost));
        assert_eq!(domain.wrong(Millis(499)), Some(StoreError::Lost));
        assert_eq!(domain.seen(Millis(500)), Ok(Seen::default()), "it starts afresh");
    }

    #[test]
    fn a_workspace_is_no_server_of_the_same_name() {
        let domains = Domains::new("");
        let workspace = |record| domains.of(&Name::Workspace { id: "d", record });
        assert!(Arc::ptr_eq(&workspace("one"), &workspace("two")));
        assert!(!Arc::ptr_eq(&workspace("one"), &domains.of(&Name::Server("d"))));
        assert_eq!(domains.all().len(), 2);
    }

    #[test]
    fn a_domain_that_was_born_again_has_lost_something() {
        let domain = Domains::new("").of(&Name::Server("d"));
        let seen = Seen { stamp: 10, born: b"one".to_vec() };
        domain.learn(&answer(20, 21, b"two"), &seen, Millis(500));
        assert_eq!(domain.seen(Millis(1)), Err(StoreError::Lost));
    }
}
