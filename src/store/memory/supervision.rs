//! Which parts of the store are alive. A part that died stays dead: to restart it empty would free
//! every slot that it held.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::StoreError;

/// Set once and never taken back, each by the part it speaks of.
///
/// Released and acquired: who sees a part down also sees what its last handler did.
#[derive(Debug)]
pub(super) struct Health {
    shards_down: Box<[AtomicBool]>,
    coordinator_down: AtomicBool,
    stopping: AtomicBool,
}

impl Health {
    pub(super) fn new(shards: usize) -> Self {
        Self {
            shards_down: (0..shards).map(|_| AtomicBool::new(false)).collect(),
            coordinator_down: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }

    /// Whether a shard takes begins.
    pub(super) fn shard(&self, shard: usize) -> Result<(), StoreError> {
        self.running()?;
        let down = self.shards_down.get(shard).is_none_or(|down| down.load(Ordering::Acquire));
        if down { Err(StoreError::Down) } else { Ok(()) }
    }

    /// Whether every part answers.
    pub(super) fn all(&self) -> Result<(), StoreError> {
        self.running()?;
        let down = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        if down(&self.coordinator_down) || self.shards_down.iter().any(down) {
            return Err(StoreError::Down);
        }
        Ok(())
    }

    /// Why an actor did not answer.
    pub(super) fn why_gone(&self) -> StoreError {
        self.running().err().unwrap_or(StoreError::Down)
    }

    /// Why nobody decided a begin.
    pub(super) fn why_unavailable(&self) -> StoreError {
        if self.coordinator_down.load(Ordering::Acquire) {
            StoreError::Down
        } else {
            StoreError::Overloaded
        }
    }

    pub(super) fn shard_is_down(&self, shard: usize) {
        if let Some(down) = self.shards_down.get(shard) {
            down.store(true, Ordering::Release);
        }
    }

    pub(super) fn coordinator_is_down(&self) {
        self.coordinator_down.store(true, Ordering::Release);
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    fn running(&self) -> Result<(), StoreError> {
        if self.stopping.load(Ordering::Acquire) { Err(StoreError::Stopping) } else { Ok(()) }
    }
}
