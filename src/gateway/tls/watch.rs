//! The certificates and key of this moment; the last good ones stay in use.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::material::{Material, TlsError, TlsFiles};
use crate::policy::{Polled, Reloads, SETTLE, Tracker, every_so_often, settled};

/// What the listener's connections begin with now.
#[derive(Debug)]
pub struct TlsWatch {
    files: TlsFiles,
    current: ArcSwap<Material>,
    tracker: Tracker<()>,
}

impl TlsWatch {
    /// Loads the files. Blocks on the file system.
    ///
    /// # Errors
    ///
    /// [`TlsError`]: there is no last good content to begin with.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let read = files.read()?;
        let current = ArcSwap::from_pointee(files.material(&read)?);
        let tracker = Tracker::new(());
        tracker.step(Ok((read.digest(), ())), |(), ()| Ok(()));
        Ok(Self { files, current, tracker })
    }

    /// What a connection begins with.
    pub fn snapshot(&self) -> Arc<Material> {
        self.current.load_full()
    }

    /// Why the last content could not be used; `None` while what is on disk is in use.
    pub fn last_error(&self) -> Option<String> {
        self.tracker.last_error()
    }

    /// How the reloads ended so far, the first load included.
    pub fn reloads(&self) -> Reloads {
        self.tracker.reloads()
    }

    /// One look at the files. Blocks on the file system, and for `SETTLE` where they changed. Files
    /// that are still being written are left for the next look; a pair of which one is old and one
    /// new is refused, until the other one follows.
    pub fn poll(&self) -> Polled {
        let read = || {
            self.files.read().map(|read| (read.digest(), read)).map_err(|error| error.to_string())
        };
        let Some(found) = settled(read, |digest| self.tracker.saw(digest), SETTLE) else {
            return Polled::Unchanged;
        };
        let polled = self.tracker.step(found, |read, ()| {
            let material = self.files.material(&read).map_err(|error| error.to_string())?;
            self.current.store(Arc::new(material));
            Ok(())
        });
        match polled {
            Polled::Unchanged => {}
            Polled::Loaded => {
                let now = self.snapshot();
                let (certificate, until) = (&now.fingerprint, now.not_after);
                tracing::info!(certificate, %until, "certificates loaded");
            }
            Polled::Failed => {
                let error = self.last_error();
                tracing::error!(error, "certificates not loaded, the last good ones stay in use");
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
