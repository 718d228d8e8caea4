//! One issuer: its keys, kept and refreshed.
//!
//! Whoever has the keys that it needs never waits: keys that are old are refreshed beside the
//! exchange. An exchange that needs another key waits for the refresh that runs, within a bound. At
//! most one refresh runs at a time, and one begins at most every [`MIN_BETWEEN`], so tokens with
//! made-up key ids cannot make the gateway a nuisance to the issuer. While the issuer does not answer, the
//! keys that it gave last go on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use tokio::time::timeout;

use super::discovery::{self, Metadata};
use super::fetch::Fetcher;
use super::keys::Keys;

/// How old keys may get before they are refreshed.
pub(super) const MAX_AGE: Duration = Duration::from_secs(300);

/// The least time from the end of one refresh to the start of the next.
pub(super) const MIN_BETWEEN: Duration = Duration::from_secs(5);

/// How long an exchange waits for a refresh.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(3);

pub(super) struct Issuer {
    name: String,
    fetcher: Fetcher,
    started: Instant,
    known: ArcSwapOption<Known>,
    /// When keys are looked for again though nobody misses one, in milliseconds since `started`.
    refresh_at_ms: AtomicU64,
    state: Mutex<State>,
    /// How many refreshes have ended.
    ended: watch::Sender<u64>,
}

/// What the last refresh that succeeded found.
pub(super) struct Known {
    pub keys: Keys,
    pub metadata: Metadata,
}

#[derive(Default)]
struct State {
    running: bool,
    last: Option<Last>,
}

#[derive(Clone, Copy)]
struct Last {
    ended: Instant,
    answered: bool,
}

/// The issuer does not answer now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unanswered;

impl Issuer {
    /// An issuer by its name, of which nothing is known yet.
    pub(super) fn new(name: String, fetcher: Fetcher, now: Instant) -> Arc<Self> {
        Arc::new(Self {
            name,
            fetcher,
            started: now,
            known: ArcSwapOption::empty(),
            refresh_at_ms: AtomicU64::new(u64::MAX),
            state: Mutex::default(),
            ended: watch::Sender::new(0),
        })
    }

    /// What is known of it.
    pub(super) fn known(&self) -> arc_swap::Guard<Option<Arc<Known>>> {
        self.known.load()
    }

    /// Begins a refresh beside the exchange where the keys are old.
    pub(super) fn keep_fresh(self: &Arc<Self>, now: Instant) {
        if self.since_start(now) >= self.refresh_at_ms.load(Ordering::Relaxed) {
            self.begin(now);
        }
    }

    /// Waits for what the issuer has now, or had a moment ago: after `Ok`, a key that is not among
    /// those of [`Issuer::known`] is not the issuer's.
    ///
    /// # Errors
    ///
    /// [`Unanswered`] where the last refresh failed and it is too early for another, where this one
    /// fails, or where it takes longer than [`MAX_WAIT`].
    pub(super) async fn refreshed(self: &Arc<Self>, now: Instant) -> Result<(), Unanswered> {
        let mut ended = self.ended.subscribe();
        if self.begin(now) {
            timeout(MAX_WAIT, ended.changed())
                .await
                .map_err(|_| Unanswered)?
                .map_err(|_| Unanswered)?;
        }
        match self.lock().last {
            Some(Last { answered: true, .. }) => Ok(()),
            _ => Err(Unanswered),
        }
    }

    /// Whether a refresh runs, of which this call may be the cause.
    fn begin(self: &Arc<Self>, now: Instant) -> bool {
        let mut state = self.lock();
        let early = |last: Last| now.saturating_duration_since(last.ended) < MIN_BETWEEN;
        if state.running || state.last.is_some_and(early) {
            return state.running;
        }
        state.running = true;
        drop(state);
        let flight = Flight { issuer: Arc::clone(self), answered: false };
        tokio::spawn(flight.run());
        true
    }

    fn since_start(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.started).as_millis();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A refresh that runs. However it ends, the next one may begin and those who wait learn of it.
struct Flight {
    issuer: Arc<Issuer>,
    answered: bool,
}

impl Flight {
    async fn run(mut self) {
        let issuer = Arc::clone(&self.issuer);
        match discovery::discover(&issuer.name, &issuer.fetcher).await {
            Ok((metadata, keys)) => {
                issuer.known.store(Some(Arc::new(Known { keys, metadata })));
                self.answered = true;
            }
            Err(error) => {
                let kept = issuer.known.load().is_some();
                tracing::warn!(
                    issuer = issuer.name,
                    %error,
                    kept,
                    "the issuer's keys cannot be fetched, those known stay in use"
                );
            }
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let ended = Instant::now();
        let next = if self.answered { MAX_AGE } else { MIN_BETWEEN };
        let next = self.issuer.since_start(ended + next);
        self.issuer.refresh_at_ms.store(next, Ordering::Relaxed);
        let mut state = self.issuer.lock();
        *state = State { running: false, last: Some(Last { ended, answered: self.answered }) };
        drop(state);
        self.issuer.ended.send_modify(|ended| *ended += 1);
    }
}

#[cfg(test)]
mod tests;
