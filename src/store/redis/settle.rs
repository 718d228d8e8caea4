//! Settles: sent again until they are acknowledged or nothing is left to settle, because nothing is
//! ever freed because of an error (STORE section 4, "Repeats").

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::Shared;
use super::answer::{Answer, Word};
use super::calls::Arguments;
use super::held::Claim;
use super::pool::{Failure, Refused};
use super::script::Operation;
use crate::claim::{Fence, Millis, Reply, TombstoneReason};
use crate::store::{Notes, Settled, StoreError};

/// The first and the longest time between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How a claim ends.
pub(super) enum Settlement {
    Complete(Reply),
    Tombstone(TombstoneReason),
    Release,
}

impl Settlement {
    fn operation(&self) -> Operation {
        match self {
            Self::Complete(_) => Operation::Complete,
            Self::Tombstone(_) => Operation::Tombstone,
            Self::Release => Operation::Release,
        }
    }

    /// Arguments in the order of its script.
    fn describe(&self, arguments: &mut Arguments) {
        match self {
            Self::Complete(reply) => {
                arguments.number(reply.status());
                let content_type = reply.content_type();
                arguments
                    .push(content_type.map_or(Vec::new(), |value| [b"=", &value[..]].concat()));
                arguments.push(reply.body());
                arguments.push(reply.route().map_or(&[][..], |route| &route[..]));
            }
            Self::Tombstone(TombstoneReason::Unknown) => arguments.push("unknown"),
            Self::Tombstone(TombstoneReason::NotReplayable) => arguments.push("not_replayable"),
            Self::Release => {}
        }
    }
}

/// What a receipt is told at a settle.
struct End {
    /// How attempts ended, as lines.
    ends: String,
    at: String,
    /// The number of the attempt that was given up; 0 where it is not known.
    untried: Option<u32>,
}

impl End {
    fn new(claim: &Claim, notes: &Notes) -> Self {
        Self {
            ends: claim.untold(notes),
            at: claim.wall_time(),
            untried: notes.untried.then_some(notes.attempt),
        }
    }

    /// Arguments in the order of scripts/settle.lua.
    fn describe(&self, arguments: &mut Arguments) {
        arguments.push(&self.ends);
        arguments.push(&self.at);
        arguments.push(self.untried.map_or(String::new(), |number| number.to_string()));
    }
}

/// Ever longer pauses.
struct Pauses(Duration);

impl Pauses {
    async fn next(&mut self) {
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
    }
}

impl Shared {
    /// Settles a claim of this process.
    ///
    /// # Errors
    ///
    /// Why the last attempt failed, once even a tombstone would have expired.
    pub(super) async fn settle(
        self: Arc<Self>,
        fence: Fence,
        settlement: Settlement,
        notes: Notes,
    ) -> Result<Settled, StoreError> {
        let Some(claim) = self.held.get(fence) else { return Ok(Settled::Stale) };
        let released = matches!(settlement, Settlement::Release);
        let settled = self.settle_claim(&claim, settlement, &notes).await;
        self.held.remove(fence);
        if let (true, Some(not_after)) = (released, claim.stray) {
            self.release_stray(claim, not_after);
        }
        settled
    }

    async fn settle_claim(
        &self,
        claim: &Claim,
        mut settlement: Settlement,
        notes: &Notes,
    ) -> Result<Settled, StoreError> {
        let end = End::new(claim, notes);
        let until = self.now().plus(self.lease).plus(self.limits.tombstone_ttl);
        let mut pauses = Pauses(FIRST_PAUSE);
        let mut repeated = false;
        loop {
            let operation = settlement.operation();
            let asking = self.ask_for(claim, operation, |rest| {
                end.describe(rest);
                settlement.describe(rest);
            });
            let failure = match asking.await {
                Ok(Answer { word: Word::Done, .. }) => return Ok(Settled::Done),
                // The first attempt freed it.
                Ok(Answer { word: Word::Gone, .. }) if repeated => return Ok(Settled::Done),
                Ok(_) => return Ok(Settled::Stale),
                Err(failure) => failure,
            };
            match failure {
                Failure::Refused(Refused::OutOfMemory) if operation == Operation::Complete => {
                    tracing::error!("redis has no memory for a reply, which is not kept");
                    settlement = Settlement::Tombstone(TombstoneReason::NotReplayable);
                    continue;
                }
                Failure::Lost => repeated = true,
                Failure::Unsent(_) | Failure::Refused(_) => {}
            }
            if self.now() >= until {
                return Err(failure.error());
            }
            pauses.next().await;
        }
    }

    /// Releases, in the background, what may have been claimed and was never sent: until that is
    /// acknowledged and no begin can still be on its way, or the lease has ended.
    pub(super) fn release_stray(self: &Arc<Self>, claim: Arc<Claim>, not_after: i64) {
        let shared = Arc::clone(self);
        self.spawn(async move {
            let end = End::new(&claim, &Notes::of(0, true));
            let until = shared.now().plus(shared.lease).plus(shared.patience);
            let mut pauses = Pauses(FIRST_PAUSE);
            while shared.now() < until {
                match shared.ask_for(&claim, Operation::Release, |rest| end.describe(rest)).await {
                    Ok(Answer { word: Word::Gone, clock, .. }) if clock <= not_after => {}
                    Ok(_) => return,
                    Err(_) => {}
                }
                pauses.next().await;
            }
        });
    }

    /// Renews the lease of a claim whose call runs.
    pub(super) async fn renew(&self, claim: &Claim) {
        let sent: Millis = self.now();
        match self.ask_for(claim, Operation::Renew, |_| {}).await {
            Ok(Answer { word: Word::Done, .. }) => claim.renewed(sent),
            Ok(_) => claim.lapsed(),
            // The next turn tries again.
            Err(_) => {}
        }
    }
}
