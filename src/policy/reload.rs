//! What polled files have in common: has the content changed, did the last reload fail.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;

/// How often a polled file changed, by how that ended. A failure that stays the same counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reloads {
    /// Contents that were taken over, the first included.
    pub ok: u64,
    /// Contents that were refused, and times at which the file stopped being readable.
    pub failed: u64,
}

/// How long a changed content must stay as it is before it is taken over: far longer than an editor
/// needs between truncating a file and writing it.
pub(crate) const SETTLE: Duration = Duration::from_millis(20);

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
pub(crate) type Digest = [u8; 32];

/// The book-keeping of one polled file; `M` is what must be remembered from one good content to
/// the next.
#[derive(Debug)]
pub(crate) struct Tracker<M> {
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
    pub(crate) fn new(memory: M) -> Self {
        Self {
            state: Mutex::new(State { seen: None, memory }),
            last_error: ArcSwapOption::empty(),
            ok: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Whether the last look saw this content.
    pub(crate) fn saw(&self, digest: &Digest) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.seen.as_ref().is_some_and(|seen| seen.as_ref() == Ok(digest))
    }

    /// Forgets what the last look saw, so that the next one takes it for new.
    pub(super) fn forget(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).seen = None;
    }

    /// One look: `found` is a content with its digest, `accept` takes a new one into use or says
    /// why not.
    pub(crate) fn step<C>(
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

    pub(crate) fn last_error(&self) -> Option<String> {
        self.last_error.load().as_deref().cloned()
    }

    pub(crate) fn reloads(&self) -> Reloads {
        Reloads { ok: self.ok.load(Ordering::Relaxed), failed: self.failed.load(Ordering::Relaxed) }
    }
}

/// A content, or why there is none.
type Found<C> = Result<(Digest, C), String>;

/// Reads; a new content is read again after a pause, and is `None` if it is changing. A document
/// that is written in place is valid YAML at many a line that is not its last, and the first half
/// of a list of rules may allow what the second half denies.
pub(crate) fn settled<C>(
    mut read: impl FnMut() -> Found<C>,
    known: impl FnOnce(&Digest) -> bool,
    pause: Duration,
) -> Option<Found<C>> {
    let first = read();
    match &first {
        Ok((digest, _)) if !known(digest) => {
            std::thread::sleep(pause);
            let again = read();
            matches!(&again, Ok((now, _)) if now == digest).then_some(again)
        }
        _ => Some(first),
    }
}

/// Looks for as long as the process runs, each time on a thread that may block.
pub(crate) async fn every_so_often(every: Duration, look: impl Fn() + Clone + Send + 'static) {
    loop {
        if let Err(error) = tokio::task::spawn_blocking(look.clone()).await {
            tracing::error!(%error, "a look at a polled file did not end");
        }
        tokio::time::sleep(every).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What [`settled`] makes of these contents, one a read, after `known`.
    fn seen(contents: &[Option<u8>], known: u8) -> Option<Result<u8, String>> {
        let mut contents = contents.iter();
        let read = || match contents.next().expect("no more reads") {
            Some(content) => Ok(([*content; 32], *content)),
            None => Err("gone".to_owned()),
        };
        settled(read, |digest| *digest == [known; 32], Duration::ZERO)
            .map(|found| found.map(|(_, content)| content))
    }

    #[test]
    fn only_a_content_that_stays_is_taken_over() {
        assert_eq!(seen(&[Some(1)], 1), Some(Ok(1)), "known, read once");
        assert_eq!(seen(&[Some(2), Some(2)], 1), Some(Ok(2)));
        assert_eq!(seen(&[Some(2), Some(3)], 1), None, "still being written");
        assert_eq!(seen(&[Some(2), None], 1), None);
        assert_eq!(seen(&[None], 1), Some(Err("gone".to_owned())));
    }
}
