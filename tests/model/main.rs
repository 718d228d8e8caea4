//! The shard and coordinator machines and their messages, in every order, against the sequential
//! model: stateright over the machines themselves.
//!
//! A setting bounds an exploration: so many shards, clients that each begin once and settle what
//! they win, ticks of the clock, deaths. Within it everything happens in every order. `just model`
//! runs all settings optimised; a plain `cargo test` runs the small ones.

mod coverage;
mod judge;
mod look;
mod memory;
#[path = "../store_model/naive.rs"]
mod naive;
mod seat;
mod setting;
mod settings;
mod state;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use onceward::claim::{Reply, Settlement, TombstoneReason};
use stateright::{Checker, Model, Property};

use coverage::{Coverage, Event};
use naive::{End, Naive};
use setting::Setting;
use state::{Action, State};

/// A setting to explore, with what its states are judged by.
pub struct Store {
    setting: Setting,
    naive: Naive,
    reply: Arc<Reply>,
    coverage: Arc<Coverage>,
}

impl Store {
    fn new(setting: Setting, coverage: Arc<Coverage>) -> Self {
        let naive = Naive { limits: setting.limits };
        Self { setting, naive, reply: reply(0), coverage }
    }
}

impl Model for Store {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.setting)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        state.actions(&self.setting, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        Some(state.after(self, action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("P1 one execution per slot", |_, state| holds(state, "P1")),
            Property::always("P2 no count above its cap", |_, state| holds(state, "P2")),
            Property::always("P3 counters are recounts", |_, state| holds(state, "P3")),
            Property::always("P4 quotas nest", |_, state| holds(state, "P4")),
            Property::always("P5 one answer", |_, state| holds(state, "P5")),
            Property::always("P6 stale settles change nothing", |_, state| holds(state, "P6")),
            Property::always("the sequential model agrees", |_, state| holds(state, "model")),
            Property::always("the index shows the completed", |_, state| holds(state, "index")),
            Property::always("publications are exact", |_, state| holds(state, "published")),
            Property::always("messages answer requests", |_, state| holds(state, "rest")),
            Property::always("the coordinator gets ahead", |_, state| holds(state, "steady")),
            Property::always("no deadlock, nothing left over", |store: &Store, state: &State| {
                let mut actions = Vec::new();
                state.actions(&store.setting, &mut actions);
                let stuck = actions.is_empty() && state.wrong.is_none();
                !stuck || state.unfinished(store).is_none()
            }),
            Property::eventually("P5 every begin is answered", |store: &Store, state: &State| {
                state.wrong.is_some() || state.is_answered(&store.setting)
            }),
        ]
    }
}

fn holds(state: &State, property: &str) -> bool {
    state.wrong.as_ref().is_none_or(|(wrong, _)| *wrong != property)
}

/// Explores a setting to its end. Nothing may be wrong in it, and all of `expected` must happen.
fn explore(setting: Setting, expected: &[Event]) {
    let (coverage, started) = (Arc::new(Coverage::default()), Instant::now());
    let name = setting.name;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let store = Store::new(setting, Arc::clone(&coverage));
    let checker = store.checker().threads(threads).spawn_dfs().join();
    println!(
        "{name}: {} states, {} reached, depth {}, {:.1} s; {:?}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        started.elapsed().as_secs_f64(),
        coverage.seen(),
    );
    let failures = checker.discoveries();
    for (property, path) in &failures {
        let last = path.last_state();
        println!("{property}: {:?}", last.wrong);
        println!("unfinished: {:?}", last.unfinished(checker.model()));
        println!("after {:?}", path.clone().into_actions());
    }
    assert!(failures.is_empty(), "{name}: {:?} do not hold", failures.keys());
    assert!(checker.is_done(), "the search finished");
    for event in expected {
        assert!(coverage.saw(*event), "{event:?} never happens in this setting");
    }
}

/// How a claim ends, with a reply that says which claim it was.
fn settlement(claim: u64, end: End) -> Settlement {
    match end {
        End::Complete => Settlement::Complete(reply(claim)),
        End::Unknown => Settlement::Tombstone(TombstoneReason::Unknown),
        End::NotReplayable => Settlement::Tombstone(TombstoneReason::NotReplayable),
        End::Release => Settlement::Release,
    }
}

fn reply(claim: u64) -> Arc<Reply> {
    let body = Bytes::copy_from_slice(&claim.to_be_bytes());
    Arc::new(Reply::new(200, None, body, 64).expect("8 bytes fit"))
}
