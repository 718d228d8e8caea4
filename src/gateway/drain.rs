//! Shutdown: running exchanges finish, new ones are refused, and what was answered is written before
//! its connection is closed (CONTRACT section 10).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Counts running exchanges and open connections, and knows whether new exchanges are still welcome.
#[derive(Debug, Default)]
pub struct Drain {
    draining: AtomicBool,
    tracker: TaskTracker,
    connections: TaskTracker,
    closing: CancellationToken,
}

impl Drain {
    /// Nothing runs, everything is welcome.
    pub fn new() -> Self {
        Self::default()
    }

    /// A token for one exchange, or `None` where the process is stopping. The exchange runs until
    /// its last token is dropped.
    pub fn enter(&self) -> Option<TaskTrackerToken> {
        // The token comes first: a drain that starts in between then still waits for it.
        let token = self.tracker.token();
        match self.is_draining() {
            true => None,
            false => Some(token),
        }
    }

    /// Whether the process is stopping.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Refuses new exchanges from now on.
    pub fn begin(&self) {
        self.draining.store(true, Ordering::SeqCst);
        self.tracker.close();
    }

    /// Waits until no exchange runs, at most `limit`; says whether that was reached.
    pub async fn finished(&self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.tracker.wait()).await.is_ok()
    }

    /// A token for one connection of a client, to be kept for as long as it is open.
    pub fn connection(&self) -> TaskTrackerToken {
        self.connections.token()
    }

    /// Ends once connections are to be closed: idle ones at once, others when their answer is
    /// written. A stream that a client merely listens to ends then, too.
    pub fn closing(&self) -> WaitForCancellationFutureOwned {
        self.closing.clone().cancelled_owned()
    }

    /// Has the connections closed and waits until they are, at most `limit`: an exchange that has
    /// its answer may still be writing it.
    pub async fn closed(&self, limit: Duration) {
        self.connections.close();
        self.closing.cancel();
        if tokio::time::timeout(limit, self.connections.wait()).await.is_err() {
            tracing::warn!("a client did not take its answer in the drain time and is cut off");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_drain_waits_for_what_runs_and_refuses_what_comes() {
        let drain = Drain::new();
        let running = drain.enter().expect("welcome");
        drain.begin();
        assert!(drain.enter().is_none());
        assert!(!drain.finished(Duration::from_millis(1)).await);
        drop(running);
        assert!(drain.finished(Duration::from_secs(60)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_are_told_to_close_and_waited_for_within_the_limit() {
        let drain = Drain::new();
        let (told, connection) = (drain.closing(), drain.connection());
        let client = tokio::spawn(async move {
            told.await;
            drop(connection);
        });
        drain.closed(Duration::from_secs(60)).await;
        assert!(client.is_finished());
        let _stuck = drain.connection();
        drain.closed(Duration::from_secs(60)).await;
    }
}
