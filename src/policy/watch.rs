//! Polling reload of the policy and of the sessions file; the last good content stays in use.
//!
//! Each look reads the whole content and compares its digest: a modification time misses two edits
//! within its resolution, and says nothing of a symbolic link that was moved.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use sha2::Digest as _;

use super::error::PolicyErrors;
use super::read;
use super::reload::{Digest, Polled, Reloads, SETTLE, Tracker, every_so_often, settled};
use super::secret::SecretLog;
use super::session::{MAX_SESSIONS_BYTES, SessionsFile};
use super::set::{Documents, LoadContext, PolicySet};
use super::slots::SlotMemory;

/// The policy in use.
#[derive(Debug)]
pub struct PolicyWatch {
    source: Option<(PathBuf, LoadContext)>,
    current: ArcSwapOption<PolicySet>,
    tracker: Tracker<SlotMemory>,
    /// The secrets that the last content named, usable or not.
    secrets: Mutex<SecretLog>,
}

impl PolicyWatch {
    /// Watches a file or folder. Nothing is loaded before the first [`PolicyWatch::poll`].
    pub fn new(path: PathBuf, context: LoadContext) -> Self {
        Self {
            source: Some((path, context)),
            current: ArcSwapOption::empty(),
            tracker: Tracker::new(SlotMemory::default()),
            secrets: Mutex::default(),
        }
    }

    /// Holds a policy that has no file and never changes.
    pub fn fixed(set: PolicySet) -> Self {
        Self {
            source: None,
            current: ArcSwapOption::from_pointee(set),
            tracker: Tracker::new(SlotMemory::default()),
            secrets: Mutex::default(),
        }
    }

    /// The policy to serve one exchange by; `None` before the first valid one.
    pub fn snapshot(&self) -> Option<Arc<PolicySet>> {
        self.current.load_full()
    }

    /// Why the last content could not be used; `None` while what is on disk is in use.
    pub fn last_error(&self) -> Option<String> {
        self.tracker.last_error()
    }

    /// How the reloads ended so far.
    pub fn reloads(&self) -> Reloads {
        self.tracker.reloads()
    }

    /// One look at the source. Blocks on the file system, and for `SETTLE` where it changed. A
    /// content that is still being written is left for the next look.
    pub fn poll(&self) -> Polled {
        let Some((path, context)) = &self.source else { return Polled::Unchanged };
        if self.secrets().is_outdated() {
            self.tracker.forget();
        }
        let read = || {
            Documents::read(path)
                .map(|documents| (documents.digest(), documents))
                .map_err(|error| error.to_string())
        };
        let Some(found) = settled(read, |digest| self.tracker.saw(digest), SETTLE) else {
            return Polled::Unchanged;
        };
        let polled = self.tracker.step(found, |documents, memory| {
            self.accept(&documents, *context, memory).map_err(|errors| errors.to_string())
        });
        self.report(polled);
        polled
    }

    fn accept(
        &self,
        documents: &Documents,
        context: LoadContext,
        memory: &mut SlotMemory,
    ) -> Result<(), PolicyErrors> {
        let secrets = SecretLog::default();
        let set = PolicySet::from_documents(documents, context, &secrets);
        *self.secrets() = secrets;
        let set = set?;
        memory.admit(&set)?;
        self.current.store(Some(Arc::new(set)));
        Ok(())
    }

    fn secrets(&self) -> MutexGuard<'_, SecretLog> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, polled: Polled) {
        match polled {
            Polled::Unchanged => {}
            Polled::Loaded => {
                let set = self.snapshot();
                let revision = set.as_ref().map(|set| set.revision());
                tracing::info!(revision, "policy loaded");
            }
            Polled::Failed => {
                let error = self.last_error();
                let kept = self.snapshot().is_some();
                tracing::error!(error, kept, "policy not loaded, the last good one stays in use");
            }
        }
    }

    /// Polls for as long as the process runs, each look on a thread that may block.
    pub async fn run(self: Arc<Self>, every: Duration) {
        every_so_often(every, move || {
            self.poll();
        })
        .await;
    }
}

/// The session bindings in use. Without a file, and before the first valid one, there are none.
#[derive(Debug)]
pub struct SessionsWatch {
    source: Option<PathBuf>,
    current: ArcSwap<SessionsFile>,
    tracker: Tracker<()>,
}

impl SessionsWatch {
    /// Watches a file, or holds no bindings. A file that is missing is reported, and read once it
    /// appears.
    pub fn new(source: Option<PathBuf>) -> Self {
        Self {
            source,
            current: ArcSwap::from_pointee(SessionsFile::default()),
            tracker: Tracker::new(()),
        }
    }

    /// The bindings to serve one exchange by.
    pub fn snapshot(&self) -> Arc<SessionsFile> {
        self.current.load_full()
    }

    /// Why the last content could not be used; `None` while what is on disk is in use.
    pub fn last_error(&self) -> Option<String> {
        self.tracker.last_error()
    }

    /// How the reloads ended so far.
    pub fn reloads(&self) -> Reloads {
        self.tracker.reloads()
    }

    /// One look at the file. Blocks on the file system. A file that is missing, torn or invalid
    /// changes nothing: revoking a session takes a valid file that says so.
    pub fn poll(&self) -> Polled {
        let Some(path) = &self.source else {
            return Polled::Unchanged;
        };
        let found = read::file(path, MAX_SESSIONS_BYTES)
            .map(|bytes| (Digest::from(sha2::Sha256::digest(&bytes)), bytes))
            .map_err(|error| error.to_string());
        let polled = self.tracker.step(found, |bytes, ()| {
            let sessions = SessionsFile::parse(path, &bytes).map_err(|error| error.to_string())?;
            self.current.store(Arc::new(sessions));
            Ok(())
        });
        match polled {
            Polled::Unchanged => {}
            Polled::Loaded => {
                tracing::info!(sessions = self.snapshot().len(), "sessions file loaded");
            }
            Polled::Failed => {
                let error = self.last_error();
                tracing::error!(error, "sessions file not loaded, the last good one stays in use");
            }
        }
        polled
    }

    /// Polls for as long as the process runs, each look on a thread that may block.
    pub async fn run(self: Arc<Self>, every: Duration) {
        every_so_often(every, move || {
            self.poll();
        })
        .await;
    }
}
