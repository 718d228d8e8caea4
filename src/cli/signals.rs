//! The signals that end the program in good order, and the one of log rotation.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, Ctrl-C and SIGHUP, caught from the moment that this is made.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Catches them from now on, inside a running runtime.
    ///
    /// # Errors
    ///
    /// The operating system lets no handler be set.
    pub(super) fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the first of any.
    pub(super) async fn first(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }

    /// Waits for SIGTERM or Ctrl-C; each SIGHUP until then calls `reopen`.
    pub(super) async fn stop(&mut self, reopen: impl Fn()) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => reopen(),
            }
        }
    }
}
