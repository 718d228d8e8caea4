//! The actor of the coordinator: a shell around its machine.

use std::sync::Arc;

use actix::{Actor, ActorContext, Context, Handler, Message};
use tokio::sync::oneshot;

use super::directory::Directory;
use super::shard::ShardInput;
use super::supervision::Health;
use crate::claim::coordinator::Coordinator;
use crate::claim::protocol::{CoordinatorDecision, ToCoordinator, ToShard};
use crate::claim::shared::Shared;
use crate::ledger::Ledger;
use crate::store::Clock;

/// What the coordinator's actor is sent.
#[derive(Debug, Message)]
#[rtype(result = "()")]
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
    directory: Arc<Directory>,
    stopped: bool,
}

impl CoordinatorActor {
    pub(super) fn new(
        ledger: Arc<Ledger>,
        clock: Arc<dyn Clock>,
        health: Arc<Health>,
        directory: Arc<Directory>,
    ) -> Self {
        let machine = Coordinator::new(ledger.shards());
        Self { machine, ledger, clock, health, directory, stopped: false }
    }

    fn step(&mut self, message: ToCoordinator) {
        let mut decisions = Vec::new();
        self.machine.step(self.clock.now(), message, &mut self.ledger, &mut decisions);
        for decision in decisions {
            match decision {
                CoordinatorDecision::Send { shard, message } => {
                    self.directory.tell_shard(shard.0, ShardInput::Protocol(message));
                }
                CoordinatorDecision::Again => {
                    let again = CoordinatorInput::Protocol(ToCoordinator::Again);
                    self.directory.tell_coordinator(again);
                }
            }
        }
    }
}

impl Actor for CoordinatorActor {
    type Context = Context<Self>;
}

impl Handler<CoordinatorInput> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, input: CoordinatorInput, ctx: &mut Self::Context) {
        match input {
            CoordinatorInput::Protocol(message) => self.step(message),
            CoordinatorInput::Stop(done) => {
                self.stopped = true;
                ctx.stop();
                let _ = done.send(());
            }
            #[cfg(test)]
            CoordinatorInput::Crash => panic!("a test asked the coordinator to fail"),
        }
    }
}

/// Dropped without having been stopped, the coordinator has failed: nobody finds room in a full
/// store any more, and whoever waits for it must hear so.
impl Drop for CoordinatorActor {
    fn drop(&mut self) {
        if !self.stopped {
            self.health.coordinator_is_down();
            self.directory.tell_every_shard(|| ShardInput::Protocol(ToShard::Orphaned));
        }
    }
}
