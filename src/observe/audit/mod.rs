//! The audit trail: one JSON object per line, one line per exchange (CONTRACT section 8).
//!
//! A worker turns its event into a line and hands it to a bounded queue; one thread writes. A full
//! queue drops the line, counts it and says so, because an audit sink that stands still must not
//! stop traffic.

mod event;
mod line;
mod writer;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub use event::{AuditDecision, AuditEvent};
pub use line::MAX_VALUE_BYTES;

use super::throttle::Throttle;
use writer::{Message, Writer};

/// Lines that may wait for the writer. A line is a few hundred bytes, and 16 KiB at the very most,
/// so the queue holds about 2 MiB and never more than 64.
pub const QUEUE_LINES: usize = 4096;

/// How long [`Audit::close`] waits for the sink to take what is queued.
pub const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// How often dropped lines, and a failing sink, are said in the log.
pub const REPORT_PERIOD: Duration = Duration::from_secs(10);

/// Why the audit could not be opened or closed.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The operator's path cannot be appended to.
    #[error("the audit file {path} cannot be opened for appending; check `[audit] sink`: {source}")]
    Open {
        /// The configured path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system has no thread to give.
    #[error("the audit writer could not be started: {0}")]
    Thread(io::Error),
    /// The sink did not take everything in time, or its thread failed: the last lines are missing.
    #[error("the audit sink did not take every line in time; the last ones may be missing")]
    Incomplete,
}

/// The audit trail of the process. Share it behind an `Arc`; close it after the last exchange.
#[derive(Debug)]
pub struct Audit {
    queue: SyncSender<Message>,
    state: Arc<State>,
    writer: Mutex<Option<Running>>,
}

/// What workers and the writer share.
#[derive(Debug)]
struct State {
    started: Instant,
    dropped: AtomicU64,
    closing: AtomicBool,
    full_reports: Throttle,
    error_reports: Throttle,
}

/// The writer's thread; the receiver disconnects when it ends.
#[derive(Debug)]
struct Running {
    thread: JoinHandle<()>,
    ended: Receiver<()>,
}

impl Audit {
    /// Opens the trail: a file to append to, made with mode 0600 where it does not exist, or
    /// standard output.
    ///
    /// # Errors
    ///
    /// [`AuditError::Open`] or [`AuditError::Thread`].
    pub fn open(path: Option<&Path>) -> Result<Self, AuditError> {
        match path {
            Some(path) => match append_to(path) {
                Ok(file) => Self::with_sink(Box::new(file)),
                Err(source) => Err(AuditError::Open { path: path.to_owned(), source }),
            },
            None => Self::with_sink(Box::new(io::stdout())),
        }
    }

    /// A trail that ends in any writer.
    ///
    /// # Errors
    ///
    /// [`AuditError::Thread`].
    pub fn with_sink(sink: Box<dyn Write + Send>) -> Result<Self, AuditError> {
        Self::start(sink, QUEUE_LINES)
    }

    fn start(sink: Box<dyn Write + Send>, queue_lines: usize) -> Result<Self, AuditError> {
        let (queue, lines) = mpsc::sync_channel(queue_lines);
        let (alive, ended) = mpsc::channel();
        let state = Arc::new(State::new());
        let writer = Writer::new(lines, sink, Arc::clone(&state));
        let thread = thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || {
                writer.run();
                drop(alive);
            })
            .map_err(AuditError::Thread)?;
        Ok(Self { queue, state, writer: Mutex::new(Some(Running { thread, ended })) })
    }

    /// Queues the line of one exchange. Never waits: where the queue is full, or the trail is
    /// closed, the line is dropped and counted.
    pub fn record(&self, event: &AuditEvent<'_>) {
        match self.queue.try_send(Message::Line(event.to_line())) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.state.report_drop(&"the queue is full"),
            Err(TrySendError::Disconnected(_)) => self.state.report_drop(&"the trail is closed"),
        }
    }

    /// Lines that were not written since the start: the queue was full, the sink failed, or the
    /// trail was closed.
    pub fn dropped(&self) -> u64 {
        self.state.dropped.load(Ordering::Relaxed)
    }

    /// Writes what is queued and ends the writer. Blocks for at most [`CLOSE_WAIT`]. A second call
    /// does nothing.
    ///
    /// # Errors
    ///
    /// [`AuditError::Incomplete`].
    pub fn close(&self) -> Result<(), AuditError> {
        self.close_within(CLOSE_WAIT)
    }

    fn close_within(&self, wait: Duration) -> Result<(), AuditError> {
        self.state.closing.store(true, Ordering::SeqCst);
        // Only to wake a writer that waits for a line: a full queue keeps it awake, and a
        // disconnected one has none.
        let _ = self.queue.try_send(Message::Wake);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = writer.take() else {
            return Ok(());
        };
        if running.ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            *writer = Some(running);
            return Err(AuditError::Incomplete);
        }
        running.thread.join().map_err(|_| AuditError::Incomplete)
    }
}

impl State {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            dropped: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            full_reports: Throttle::new(REPORT_PERIOD),
            error_reports: Throttle::new(REPORT_PERIOD),
        }
    }

    fn report_drop(&self, why: &dyn std::fmt::Display) {
        let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        if self.full_reports.allow(self.started.elapsed()) {
            tracing::warn!(dropped, "an audit line was dropped: {why}");
        }
    }
}

fn append_to(path: &Path) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests;
