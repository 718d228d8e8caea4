//! Whether a history is linearizable: Wing and Gong's search, with Lowe's memory of what was tried.
//!
//! stateright's `LinearizabilityTester` asks its model for the one answer of an operation, and here
//! an operation may have several: its clock is any instant of its interval, and some are given up
//! by their callers and may take effect late or never.

use std::collections::HashSet;

use onceward::claim::Limits;

use crate::history::{Answer, Operation};
use crate::spec::{Spec, State};

/// The most operations of a history.
pub const MOST: usize = 128;

/// Looks for an order of the operations, each at an instant between its call and its return, in
/// which the sequential model answers as the store did.
pub fn is_linearizable(limits: Limits, history: &[Operation]) -> bool {
    assert!(history.len() <= MOST, "{} operations are too many to check", history.len());
    let spec = Spec::new(limits);
    let mut search = Search { spec: &spec, history, tried: HashSet::new() };
    search.goes_on_from(0, &State::default())
}

struct Search<'h> {
    spec: &'h Spec,
    history: &'h [Operation],
    /// Which operations were done, and the state after them.
    tried: HashSet<(u128, State)>,
}

impl Search<'_> {
    /// Whether the operations that are not in `done` can follow a state.
    fn goes_on_from(&mut self, done: u128, state: &State) -> bool {
        let left = || {
            let places = self.history.iter().enumerate();
            places.filter(|(place, _)| done >> place & 1 == 0)
        };
        let answered = left().filter(|(_, operation)| operation.answer != Answer::None);
        let Some(until) = answered.map(|(_, operation)| operation.returned).min() else {
            return true;
        };
        // Only what was called before anything left has returned can come next.
        let next = left().take_while(|(_, operation)| operation.called < until);
        let next: Vec<_> = next.map(|(place, operation)| (place, *operation)).collect();
        let now = left().map(|(_, operation)| operation.clock.0).min().unwrap_or(0);
        for (place, operation) in next {
            for after in self.spec.after(state, &operation) {
                if self.try_one(done | 1 << place, after, now) {
                    return true;
                }
            }
        }
        self.spec.after_release(state).into_iter().any(|after| self.try_one(done, after, now))
    }

    fn try_one(&mut self, done: u128, mut state: State, now: u64) -> bool {
        self.spec.forget(&mut state, now);
        self.tried.insert((done, state.clone())) && self.goes_on_from(done, &state)
    }
}
