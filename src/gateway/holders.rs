//! Whom the certificates of a session have stood for: under another caller its keys would have other
//! slots, and a retry would run again (CONTRACT section 9, "a reload that would move slots").
//!
//! A sessions file that names another caller cannot be refused as other reloads are, for it may
//! revoke sessions too. So its keyed calls are.

use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;

use crate::identity::Principal;

/// The most sessions that a process remembers; past it, those unused for longest are forgotten.
pub const MAX_HOLDERS: usize = 65_536;

/// The caller of every session that was used with a key in mode `mtls`.
#[derive(Debug, Default)]
pub struct Holders(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By server uid and session name.
    held: HashMap<(String, String), Held>,
    uses: u64,
}

#[derive(Debug)]
struct Held {
    principal: Principal,
    last_use: u64,
}

impl Holders {
    /// Nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a session still stands for the caller that its first key was used by; this is the
    /// first one, if none is known.
    pub fn is_same(&self, uid: &str, session: &str, caller: &Principal) -> bool {
        // A panic elsewhere leaves nothing half-written: each entry is replaced as a whole.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.uses += 1;
        let last_use = state.uses;
        let key = (uid.to_owned(), session.to_owned());
        if let Some(held) = state.held.get_mut(&key) {
            held.last_use = last_use;
            return held.principal == *caller;
        }
        if state.held.len() >= MAX_HOLDERS {
            state.forget_half();
        }
        state.held.insert(key, Held { principal: caller.clone(), last_use });
        true
    }
}

impl State {
    fn forget_half(&mut self) {
        let mut uses: Vec<u64> = self.held.values().map(|held| held.last_use).collect();
        let middle = uses.len() / 2;
        let (_, median, _) = uses.select_nth_unstable(middle);
        let median = *median;
        self.held.retain(|_, held| held.last_use >= median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn human(name: &str) -> Principal {
        Principal::new(Some(name), None, None).expect("a principal")
    }

    #[test]
    fn a_session_stands_for_its_first_caller() {
        let holders = Holders::new();
        for _ in 0..2 {
            assert!(holders.is_same("u", "s", &human("ann")));
            assert!(!holders.is_same("u", "s", &human("bob")));
        }
        assert!(holders.is_same("u", "t", &human("bob")), "another session");
        assert!(holders.is_same("v", "s", &human("bob")), "another server");
    }

    #[test]
    fn the_sessions_unused_for_longest_are_forgotten() {
        let holders = Holders::new();
        let ann = human("ann");
        for number in 0..MAX_HOLDERS {
            assert!(holders.is_same("u", &number.to_string(), &ann));
        }
        assert!(holders.is_same("u", "0", &ann), "used again");
        assert!(holders.is_same("u", "one more", &ann));
        let bob = human("bob");
        assert!(!holders.is_same("u", "0", &bob) && !holders.is_same("u", "one more", &bob));
        assert!(!holders.is_same("u", &(MAX_HOLDERS - 1).to_string(), &bob));
        assert!(holders.is_same("u", "1", &bob), "forgotten");
        let held = holders.0.lock().expect("not poisoned").held.len();
        assert!(held <= MAX_HOLDERS / 2 + 3, "{held}");
    }
}
