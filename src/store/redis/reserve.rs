//! The next attempt under a claim, reserved before its first byte is sent (EFFECTS section 5).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::Shared;
use super::answer::Word;
use super::begin::MAX_MOVES;
use super::held::Claim;
use super::pool::{Failure, Refused};
use super::script::Operation;
use crate::claim::Fence;
use crate::store::{Notes, Settled, StoreError};

/// Between two questions whose answers were lost.
const PAUSE: Duration = Duration::from_millis(20);

/// An attempt to reserve.
struct Next {
    number: u32,
    /// How the ones before ended, as lines.
    ends: String,
    at: String,
}

impl Shared {
    /// Reserves the attempt that the notes name, as long as a begin may take: a lost answer is asked
    /// for again. It renews the lease too.
    ///
    /// # Errors
    ///
    /// Nothing may be sent then, whether or not the attempt was reserved.
    pub(super) async fn reserve(
        self: Arc<Self>,
        fence: Fence,
        notes: Notes,
    ) -> Result<Settled, StoreError> {
        let Some(claim) = self.held.get(fence) else { return Ok(Settled::Stale) };
        let next =
            Next { number: notes.attempt, ends: claim.untold(&notes), at: claim.wall_time() };
        let deadline = self.now().plus(self.patience);
        let (mut moves, mut lost) = (0, false);
        loop {
            self.stopping()?;
            let failure = match self.reserve_once(&claim, &next).await {
                Ok(settled) => return Ok(settled),
                Err(failure) => failure,
            };
            match failure {
                Failure::Refused(Refused::Moved) if moves < MAX_MOVES => {
                    moves += 1;
                    continue;
                }
                Failure::Lost => lost = true,
                Failure::Unsent(StoreError::Unreplicated) => return Err(failure.error()),
                // One that may have been done is asked after for as long as there is time.
                Failure::Unsent(_) | Failure::Refused(_) if lost => {}
                Failure::Unsent(_) | Failure::Refused(_) => return Err(failure.error()),
            }
            if self.now() >= deadline {
                return Err(failure.error());
            }
            sleep(PAUSE).await;
        }
    }

    async fn reserve_once(&self, claim: &Claim, next: &Next) -> Result<Settled, Failure> {
        let sent = self.now();
        let asking = self.ask_linked(claim, Operation::Reserve, |rest| {
            rest.number(next.number);
            rest.push(&next.ends);
            rest.push(&next.at);
        });
        let (answer, mut link) = asking.await?;
        match answer.word {
            Word::Done => {
                claim.told();
                self.replicated(&mut link).await?;
            }
            _ => {
                link.give_back();
                claim.lapsed();
                return Ok(Settled::Stale);
            }
        }
        link.give_back();
        claim.renewed(sent);
        Ok(Settled::Done)
    }
}
