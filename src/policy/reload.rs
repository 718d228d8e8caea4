//! What two polled files have in common: has the content changed, did the last reload fail.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;

/// How often a polled file changed, by how that ended. A failure that stays the same counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reloads {
    /// Contents that were taken over, the first included.
    pub ok: u64,
    /// Contents that were refused, and times at which the file stopped being readable.
    pub failed: u64,
}

/// What one look at a polled file found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled {
    /// Nothing new.
    Unchanged,
    /// A new content, which is now in use.
    Loaded,
    /// A new content that cannot be used, or a new failure to read; the last good one stays.
    Failed,
}

/// Tells contents apart.
pub(super) type Digest = [u8; 32];

/// The book-keeping of one polled file; `M` is what must be remembered from one good content to
/// the next.
#[derive(Debug)]
pub(super) struct Tracker<M> {
    state: Mutex<State<M>>,
    last_error: ArcSwapOption<String>,
    ok: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug)]
struct State<M> {
    /// What the last look saw: a content, or why there was none.
    seen: Option<Result<Digest, String>>,
    memory: M,
}

impl<M> Tracker<M> {
    pub(super) fn new(memory: M) -> Self {
        Self {
            state: Mutex::new(State { seen: None, memory }),
            last_error: ArcSwapOption::empty(),
            ok: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Whether the last look saw this content.
    pub(super) fn saw(&self, digest: &Digest) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.seen.as_ref().is_some_and(|seen| seen.as_ref() == Ok(digest))
    }

    /// Forgets what the last look saw, so that the next one takes it for new.
    pub(super) fn forget(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).seen = None;
    }

    /// One look: `found` is a content with its digest, `accept` takes a new one into use or says
    /// why not.
    pub(super) fn step<C>(
        &self,
        found: Result<(Digest, C), String>,
        accept: impl FnOnce(C, &mut M) -> Result<(), String>,
    ) -> Polled {
        // A panic in another look leaves nothing half-written: each field is replaced as a whole.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, content) = match found {
            Ok((digest, content)) => (Ok(digest), Ok(content)),
            Err(problem) => (Err(problem.clone()), Err(problem)),
        };
        if state.seen.as_ref() == Some(&seen) {
            return Polled::Unchanged;
        }
        state.seen = Some(seen);
        let outcome = content.and_then(|content| accept(content, &mut state.memory));
        let failed = outcome.is_err();
        self.last_error.store(outcome.err().map(Arc::new));
        let counter = if failed { &self.failed } else { &self.ok };
        counter.fetch_add(1, Ordering::Relaxed);
        if failed { Polled::Failed } else { Polled::Loaded }
    }

    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error.load().as_deref().cloned()
    }

    pub(super) fn reloads(&self) -> Reloads {
        Reloads { ok: self.ok.load(Ordering::Relaxed), failed: self.failed.load(Ordering::Relaxed) }
    }
}
