//! What has expired leaves, a little at a time: it stopped counting when it expired.

use super::group::Level;
use super::list::RecordId;
use super::table::State;
use super::{SWEEP_BATCH, Shard};
use crate::claim::protocol::{RequestId, ShardDecision, ToCoordinator};
use crate::claim::shared::Home;
use crate::claim::{Begin, Millis};

impl Shard {
    pub(super) fn on_tick(&mut self, home: &mut impl Home, out: &mut Vec<ShardDecision>) {
        self.sweep_due(SWEEP_BATCH, home);
        if self.table.shard_due(self.now).is_some() {
            out.push(ShardDecision::TickAgain);
        }
    }

    /// The coordinator saw something due here at `now`.
    pub(super) fn on_sweep(
        &mut self,
        request: RequestId,
        now: Millis,
        home: &mut impl Home,
        out: &mut Vec<ShardDecision>,
    ) {
        self.now = self.now.max(now);
        self.sweep_due(SWEEP_BATCH, home);
        out.push(ShardDecision::Send(ToCoordinator::Swept { request }));
    }

    /// Sweeps up to `most` expired records of the shard and says how many there were.
    pub(super) fn sweep_due(&mut self, most: u32, home: &mut impl Home) -> u32 {
        let mut swept = 0;
        let mut completed = 0;
        while swept < most
            && let Some(id) = self.table.shard_due(self.now)
        {
            completed += u32::from(self.take_out(id, home));
            swept += 1;
        }
        if swept > 0 {
            home.sweep(swept, completed);
        }
        swept
    }

    /// Sweeps one expired record of a quota and says whether there was one. Counts never exceed
    /// their caps, so one is enough to come below.
    pub(super) fn sweep_one(&mut self, level: Level, begin: &Begin, home: &mut impl Home) -> bool {
        let due = self.table.due(level, begin, self.now);
        if let Some(id) = due {
            self.sweep(id, home);
        }
        due.is_some()
    }

    /// Sweeps one expired record.
    pub(super) fn sweep(&mut self, id: RecordId, home: &mut impl Home) {
        let completed = self.take_out(id, home);
        home.sweep(1, u32::from(completed));
    }

    /// Takes a record out of index and table, and says whether it was completed.
    fn take_out(&mut self, id: RecordId, home: &mut impl Home) -> bool {
        self.hide(id, home);
        matches!(self.table.remove(id), State::Completed { .. })
    }

    /// Takes a completed record out of the read index; others are not in it.
    pub(super) fn hide(&self, id: RecordId, home: &mut impl Home) {
        if let State::Completed { completion, .. } = &self.table.record(id).state {
            home.hide(completion.claim.slot);
        }
    }

    /// Puts a completed record into the read index.
    pub(super) fn show(&self, id: RecordId, home: &mut impl Home) {
        if let State::Completed { completion, .. } = &self.table.record(id).state {
            home.show(completion);
        }
    }
}
