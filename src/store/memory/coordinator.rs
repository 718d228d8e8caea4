//! The actor of the coordinator: a shell around its machine.

use std::sync::{Arc, Weak};

use tokio::sync::oneshot;

use super::directory::Directory;
use super::shard::ShardInput;
use super::supervision::Health;
use crate::claim::coordinator::Coordinator;
use crate::claim::protocol::{CoordinatorDecision, ToCoordinator, ToShard};
use crate::claim::shared::Shared;
use crate::ledger::Ledger;
use crate::mailbox::{Actor, Next};
use crate::store::Clock;

/// What the coordinator's actor is sent.
#[derive(Debug)]
pub(super) enum CoordinatorInput {
    Protocol(ToCoordinator),
    Stop(oneshot::Sender<()>),
    #[cfg(test)]
    Crash,
}

/// The shell of the coordinator.
pub(super) struct CoordinatorActor {
    machine: Coordinator,
    ledger: Arc<Ledger>,
    clock: Arc<dyn Clock>,
    health: Arc<Health>,
    directory: Weak<Directory>,
    stopped: bool,
}

impl CoordinatorActor {
    pub(super) fn new(
        ledger: Arc<Ledger>,
        clock: Arc<dyn Clock>,
        health: Arc<Health>,
        directory: Weak<Directory>,
    ) -> Self {
        let machine = Coordinator::new(ledger.shards());
        Self { machine, ledger, clock, health, directory, stopped: false }
    }

    fn step(&mut self, message: ToCoordinator) {
        // Whoever sends holds the directory.
        let Some(directory) = self.directory.upgrade() else { return };
        let mut decisions = Vec::new();
        self.machine.step(self.clock.now(), message, &mut self.ledger, &mut decisions);
        for decision in decisions {
            match decision {
                CoordinatorDecision::Send { shard, message } => {
                    directory.tell_shard(shard.0, ShardInput::Protocol(message));
                }
                CoordinatorDecision::Again => {
                    let again = CoordinatorInput::Protocol(ToCoordinator::Again);
                    directory.tell_coordinator(again);
                }
            }
        }
    }
}

impl Actor for CoordinatorActor {
    type Message = CoordinatorInput;

    fn handle(&mut self, input: CoordinatorInput) -> Next {
        match input {
            CoordinatorInput::Protocol(message) => self.step(message),
            CoordinatorInput::Stop(done) => {
                self.stopped = true;
                // Whoever stops the store may have given up.
                let _ = done.send(());
                return Next::End;
            }
            #[cfg(test)]
            CoordinatorInput::Crash => panic!("a test asked the coordinator to fail"),
        }
        Next::Continue
    }
}

/// Dropped without having been stopped, the coordinator has failed: nobody finds room in a full
/// store any more, and whoever waits for it must hear so.
impl Drop for CoordinatorActor {
    fn drop(&mut self) {
        if !self.stopped {
            self.health.coordinator_is_down();
            if let Some(directory) = self.directory.upgrade() {
                directory.tell_every_shard(|| ShardInput::Protocol(ToShard::Orphaned));
            }
        }
    }
}
