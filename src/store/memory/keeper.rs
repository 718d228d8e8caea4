//! The store's one thread: it lets the shards sweep when nobody else comes by, and takes over from
//! senders that have handled enough.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::directory::Directory;
use super::receipts::Receipts;

/// How often the shards sweep what has expired without being asked.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// What the keeper listens for. Rung twice before it is heard is rung once.
#[derive(Debug, Default)]
pub(super) struct Bell {
    call: Mutex<Call>,
    rung: Condvar,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Call {
    #[default]
    None,
    /// There is mail.
    Mail,
    /// The store is gone.
    End,
}

impl Bell {
    /// Says that mail waits.
    pub(super) fn ring(&self) {
        self.say(Call::Mail);
    }

    /// Sends the keeper home, for good.
    pub(super) fn end(&self) {
        self.say(Call::End);
    }

    fn say(&self, call: Call) {
        let mut standing = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        if *standing != Call::End {
            *standing = call;
        }
        self.rung.notify_one();
    }

    /// Waits for a call, no longer than until `deadline`.
    fn listen(&self, deadline: Instant) -> Call {
        let patience = deadline.saturating_duration_since(Instant::now());
        let call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.rung.wait_timeout_while(call, patience, |call| *call == Call::None);
        let (mut call, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let heard = *call;
        if heard == Call::Mail {
            *call = Call::None;
        }
        heard
    }
}

/// Starts the keeper. It ends when it is told to, or finds the store gone.
pub(super) fn start(
    bell: Arc<Bell>,
    directory: Weak<Directory>,
    receipts: Arc<Receipts>,
) -> io::Result<()> {
    let keep = move || {
        let mut sweep = Instant::now() + SWEEP_EVERY;
        loop {
            let call = bell.listen(sweep);
            let Some(directory) = directory.upgrade() else { return };
            match call {
                Call::Mail => directory.resume(),
                Call::None => {
                    directory.tick();
                    receipts.sweep();
                    sweep = Instant::now() + SWEEP_EVERY;
                }
                Call::End => return,
            }
        }
    };
    Builder::new().name("store keeper".to_owned()).spawn(keep).map(drop)
}
