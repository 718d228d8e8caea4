//! The end of a claim.

use super::Shard;
use super::table::State;
use crate::claim::shared::Home;
use crate::claim::{Fence, Settled, Settlement, SlotKey};

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
        let stands = matches!(record.state, State::InFlight(_));
        if !stands || self.table.claim(record).fence != fence {
            return Settled::Stale;
        }
        match settlement {
            Settlement::Complete(reply) => {
                let expires = self.now.plus(self.limits.ttl);
                let seq = home.complete(expires);
                self.table.complete(id, seq, expires, reply);
                self.show(id, home);
            }
            Settlement::Tombstone(reason) => {
                let expires = self.now.plus(self.limits.tombstone_ttl);
                home.tombstone(expires);
                self.table.tombstone(id, reason, expires);
            }
            Settlement::Release => {
                self.table.remove(id);
                home.release();
            }
        }
        Settled::Done
    }
}
