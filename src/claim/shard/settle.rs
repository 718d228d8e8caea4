//! The end of a claim.

use super::Shard;
use super::list::RecordId;
use super::table::State;
use crate::claim::shared::Home;
use crate::claim::{Fence, Settled, Settlement, SlotKey, TombstoneReason};

impl Shard {
    /// Settles a claim. A ticket that is not the standing record's, or settled before, is stale and
    /// changes nothing.
    pub(super) fn settle(
        &mut self,
        slot: SlotKey,
        fence: Fence,
        settlement: Settlement,
        home: &mut impl Home,
    ) -> Settled {
        let Some(id) = self.table.find(&slot) else {
            return Settled::Stale;
        };
        let record = self.table.record(id);
        let State::InFlight { again, .. } = record.state else {
            return Settled::Stale;
        };
        if self.table.fence(record) != Some(fence) {
            return Settled::Stale;
        }
        match settlement {
            Settlement::Complete(reply) => {
                let expires = self.now.plus(self.limits.ttl);
                let seq = home.complete(expires);
                self.table.complete(id, seq, expires, reply);
                self.show(id, home);
            }
            Settlement::Tombstone(reason) => self.bury(id, reason, home),
            // Nothing was executed now, which says nothing of the attempt that ended as unknown.
            Settlement::Release if again => self.bury(id, TombstoneReason::Unknown, home),
            Settlement::Release => {
                self.table.remove(id);
                home.release();
            }
        }
        Settled::Done
    }

    fn bury(&mut self, id: RecordId, reason: TombstoneReason, home: &mut impl Home) {
        let expires = self.now.plus(self.limits.tombstone_ttl);
        home.tombstone(expires);
        self.table.tombstone(id, reason, expires);
    }
}
