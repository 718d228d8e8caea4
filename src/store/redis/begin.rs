//! Begin: one claim, asked for until there is an answer or no time left (STORE section 4,
//! "Repeats").

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::answer::Word;
use super::calls::Arguments;
use super::domain::{Domain, Seen};
use super::events::Opened;
use super::held::{Claim, TICKET};
use super::keys::{Named, Victim};
use super::pool::{Failure, Link, Refused};
use super::script::Operation;
use super::settings;
use super::{Guard, Shared, micros, millis};
use crate::claim::protocol::Pin;
use crate::claim::{Dispatch, Millis};
use crate::store::{Asked, Begun, StoreError, Ticket};

/// How often a begin asks again because others took the room that it was about to make.
const MAX_EVICTIONS: u32 = 32;

/// How often a begin follows its keys to another node of a cluster.
pub(super) const MAX_MOVES: u32 = 5;

/// Between two attempts of a begin whose answer was lost.
const PAUSE: Duration = Duration::from_millis(20);

/// A begin on its way.
pub(super) struct Asking {
    shared: Arc<Shared>,
    domain: Arc<Domain>,
    named: Named,
    opened: Option<Opened>,
    ticket: [u8; TICKET],
    /// When the server must not take it any more, in its own microseconds.
    not_after: i64,
    /// When the first attempt was sent: the lease may have begun then.
    sent: Option<Millis>,
    /// Whether the claim may have been made without being handed out, or may still be.
    stray: bool,
    victims: Vec<Victim>,
}

/// What one attempt came to.
enum Attempt {
    Answered(Begun),
    /// Make room first, with the keys of the victims.
    Again,
    /// The server's clock is not where it was thought to be.
    Late,
}

impl Asking {
    /// # Errors
    ///
    /// Without randomness there is no ticket.
    pub(super) fn new(shared: Arc<Shared>, mut asked: Asked<'_>) -> Result<Self, StoreError> {
        if shared.receipts.entries == 0 {
            asked.opening = None;
        }
        let ticket = random()?;
        let opened = match asked.opening {
            Some(_) => Opened::new(&mut asked, random()?),
            None => None,
        };
        let (domain, named) = (shared.domains.of(&asked.domain), Named::new(&asked));
        let (sent, stray, victims) = (None, false, Vec::new());
        Ok(Self { shared, domain, named, opened, ticket, not_after: 0, sent, stray, victims })
    }

    /// Asks until there is an answer. What may have been claimed without our hearing of it is
    /// released in the background.
    pub(super) async fn run(mut self) -> Result<Begun, StoreError> {
        let answer = self.attempts().await;
        if self.stray && !matches!(answer, Ok(Begun::First(_))) {
            self.shared.release_stray(Arc::new(self.claim()), self.not_after);
        }
        answer
    }

    async fn attempts(&mut self) -> Result<Begun, StoreError> {
        let deadline = self.shared.now().plus(self.shared.patience);
        let (mut rooms, mut moves) = (0, 0);
        loop {
            self.shared.stopping()?;
            let failed = match self.attempt(deadline).await {
                Ok(Attempt::Answered(begun)) => return Ok(begun),
                Ok(Attempt::Again) if rooms < MAX_EVICTIONS => {
                    rooms += 1;
                    continue;
                }
                Ok(Attempt::Again) => return Err(StoreError::Overloaded),
                Ok(Attempt::Late) => StoreError::Timeout,
                Err(Failure::Refused(Refused::Moved)) if moves < MAX_MOVES => {
                    moves += 1;
                    continue;
                }
                Err(Failure::Lost) => {
                    self.stray = true;
                    StoreError::Timeout
                }
                // It will be released, so it must not be handed out after all.
                Err(Failure::Unsent(StoreError::Unreplicated)) => {
                    self.stray = true;
                    return Err(StoreError::Unreplicated);
                }
                // An attempt that may have been done is asked after for as long as there is time.
                Err(failure) if self.stray => failure.error(),
                Err(failure) => return Err(failure.error()),
            };
            if self.shared.now() >= deadline {
                return Err(failed);
            }
            sleep(PAUSE).await;
        }
    }

    async fn attempt(&mut self, deadline: Millis) -> Result<Attempt, Failure> {
        let mut link = self.shared.link(&self.domain).await?;
        let now = self.shared.now();
        let seen = self.domain.seen(now).map_err(Failure::Unsent)?;
        self.sent.get_or_insert(now);
        let left = Millis(deadline.0.saturating_sub(now.0));
        self.not_after = self.not_after.max(self.domain.server_time.after(now, left));
        let (keys, arguments) = self.declare(&seen);
        let asking =
            self.shared.ask(&mut link, &self.domain, &seen, Operation::Begin, &keys, &arguments);
        let answer = asking.await?;
        let begun = match answer.word {
            Word::First(attempt) => return self.first(link, attempt).await,
            Word::Evict(victims) => {
                self.victims = victims;
                link.give_back();
                return Ok(Attempt::Again);
            }
            Word::Late => {
                link.give_back();
                return Ok(Attempt::Late);
            }
            Word::Replay(reply) => Begun::Replay(Arc::new(reply)),
            Word::Conflict => Begun::Conflict,
            Word::OtherRoute => Begun::OtherRoute,
            Word::InFlight => Begun::InFlight,
            Word::Unknown => Begun::Unknown,
            Word::NotReplayable => Begun::NotReplayable,
            Word::Capacity(limit) => Begun::Capacity(limit),
            Word::Lost => return Err(Failure::Unsent(StoreError::Lost)),
            Word::Limits(theirs) => return Err(Failure::Unsent(self.other_limits(&theirs))),
            Word::Done | Word::Stale | Word::Gone | Word::Occupancy(_) | Word::Receipts(_) => {
                return Err(Failure::Lost);
            }
        };
        link.give_back();
        Ok(Attempt::Answered(begun))
    }

    /// The claim is ours, once as many replicas have it as must.
    async fn first(&self, mut link: Link<'_>, attempt: u32) -> Result<Attempt, Failure> {
        self.shared.replicated(&mut link).await?;
        link.give_back();
        let fence = self.shared.held.add(self.claim());
        let guard = Arc::new(Guard(Arc::clone(&self.shared)));
        let ticket = Ticket::numbered(self.named.begin.slot, fence, 0, guard, attempt);
        Ok(Attempt::Answered(Begun::First(ticket)))
    }

    fn claim(&self) -> Claim {
        let sent = self.sent.unwrap_or_else(|| self.shared.now());
        let stray = self.stray.then_some(self.not_after);
        Claim::new(
            Arc::clone(&self.domain),
            self.named.clone(),
            self.ticket,
            sent,
            stray,
            self.opened.is_some(),
        )
    }

    fn other_limits(&self, theirs: &str) -> StoreError {
        let shared = &self.shared;
        let lease = Duration::from_millis(shared.lease.0);
        let error = settings::difference(&shared.limits, lease, theirs);
        let error = error.unwrap_or(StoreError::Refused);
        self.domain.refused(error);
        error
    }

    /// What a script is told of the receipt.
    fn open(&self, arguments: &mut Arguments) {
        let id = self.opened.as_ref().map(|opened| opened.id.to_string()).unwrap_or_default();
        let (line, at) = match &self.opened {
            Some(opened) => (opened.line.as_str(), opened.at.as_str()),
            None => ("", ""),
        };
        [&id, line, at].iter().for_each(|text| arguments.push(text));
        arguments.number(micros(millis(self.shared.receipts.retention)));
        arguments.number(self.shared.receipts.entries);
    }

    /// Keys and arguments in the order of scripts/begin.lua.
    fn declare(&self, seen: &Seen) -> (Vec<String>, Arguments) {
        let (limits, lease) = (&self.shared.limits, self.shared.lease);
        let Named { begin, record } = &self.named;
        let mut arguments = Arguments::of(begin, record, &self.ticket, limits, lease);
        arguments.push(begin.hash.as_bytes());
        describe(&begin.dispatch, &mut arguments);
        arguments.number(self.not_after);
        arguments.number(seen.stamp);
        arguments.push(&seen.born);
        arguments.push(&self.shared.shown_limits);
        for cap in [
            limits.scope_in_flight,
            limits.principal_in_flight,
            limits.in_flight,
            limits.scope_tombstones,
            limits.scope_entries,
            limits.principal_entries,
            limits.entries,
        ] {
            arguments.number(cap);
        }
        self.open(&mut arguments);
        let mut keys = self.domain.keys.of(&self.named);
        if self.opened.is_some() {
            keys.extend(self.domain.keys.receipts());
        }
        for victim in &self.victims {
            arguments.push(victim.member());
            keys.extend(self.domain.keys.of_victim(victim));
        }
        (keys, arguments)
    }
}

fn random() -> Result<[u8; TICKET], StoreError> {
    let mut bytes = [0; TICKET];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "the system gives no random numbers");
        StoreError::Down
    })?;
    Ok(bytes)
}

/// What a script is told of where a call goes.
fn describe(dispatch: &Dispatch, arguments: &mut Arguments) {
    arguments.push(dispatch.hash.as_ref().map_or(&[][..], |hash| hash.as_bytes()));
    arguments.push(match dispatch.pin {
        Pin::Free => "free",
        Pin::Open => "open",
        Pin::Always => "always",
    });
    arguments.push(if dispatch.redispatch { "redispatch" } else { "" });
}
