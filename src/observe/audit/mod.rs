//! The audit trail: one JSON object per line, one line per exchange (CONTRACT section 8).
//!
//! A worker turns its event into a line and hands it to a bounded queue; one thread writes, or sends
//! batches to an HTTP server. A full queue drops the line, counts it and says so, because an audit
//! sink that stands still must not stop traffic.

mod batches;
mod event;
mod line;
mod stream;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

pub use batches::CONTENT_TYPE;
pub use event::{AuditDecision, AuditEvent};
pub use line::MAX_VALUE_BYTES;

use super::feed::{Consumer, Feed, Settings};
use super::post::{Endpoint, PostError, Poster};
use batches::Batches;
use stream::Stream;

/// Lines that may wait for the writer. A line is a few hundred bytes, and 16 KiB at the very most,
/// so the queue holds about 2 MiB and never more than 64.
pub const QUEUE_LINES: usize = 4096;

/// How long [`Audit::close`] waits for the sink to take what is queued.
pub const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// How long lines are gathered before they are written to a file or standard output; lines that
/// young are lost where the process is killed.
pub const FILE_LINGER: Duration = Duration::from_millis(5);

/// The same before they are posted.
pub const POST_LINGER: Duration = Duration::from_millis(500);

/// Lines are written together up to this many bytes, and one line more.
const FILE_BATCH_BYTES: usize = 64 * 1024;

/// The same of a posted body.
pub const POST_BATCH_BYTES: usize = 512 * 1024;

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
    /// The operator's endpoint cannot be posted to.
    #[error("the audit endpoint cannot be used; check `[audit]`: {0}")]
    Endpoint(#[from] PostError),
    /// The system has no thread to give.
    #[error("the audit writer could not be started: {0}")]
    Thread(io::Error),
    /// The sink did not take everything in time, or its thread failed: the last lines are missing.
    #[error("the audit sink did not take every line in time; the last ones may be missing")]
    Incomplete,
}

/// Where the trail ends.
#[derive(Debug, Clone)]
pub enum AuditSink {
    /// Standard output.
    Stdout,
    /// A file to append to, made with mode 0600 where it does not exist.
    File(PathBuf),
    /// An HTTP server that takes batches of lines, under this TLS configuration.
    Post(Endpoint, std::sync::Arc<rustls::ClientConfig>),
}

/// The audit trail of the process. Share it behind an `Arc`; close it after the last exchange.
#[derive(Debug)]
pub struct Audit {
    feed: Feed<Vec<u8>>,
}

impl Audit {
    /// Opens the trail.
    ///
    /// # Errors
    ///
    /// [`AuditError::Open`], [`AuditError::Endpoint`] or [`AuditError::Thread`].
    pub fn open(sink: AuditSink) -> Result<Self, AuditError> {
        match sink {
            AuditSink::Stdout => Self::with_sink(Box::new(io::stdout())),
            AuditSink::File(path) => match Stream::file(&path) {
                Ok(stream) => Self::start(stream, of_stream(QUEUE_LINES)),
                Err(source) => Err(AuditError::Open { path, source }),
            },
            AuditSink::Post(endpoint, tls) => {
                Self::start(Batches::new(Poster::new(endpoint, tls)?), of_post())
            }
        }
    }

    /// A trail that ends in any writer.
    ///
    /// # Errors
    ///
    /// [`AuditError::Thread`].
    pub fn with_sink(sink: Box<dyn Write + Send>) -> Result<Self, AuditError> {
        Self::start(Stream::new(sink), of_stream(QUEUE_LINES))
    }

    fn start(consumer: impl Consumer<Vec<u8>>, settings: Settings) -> Result<Self, AuditError> {
        Feed::start(settings, consumer).map(|feed| Self { feed }).map_err(AuditError::Thread)
    }

    /// Queues the line of one exchange. Never waits: where the queue is full, or the trail is
    /// closed, the line is dropped and counted.
    pub fn record(&self, event: &AuditEvent<'_>) {
        self.feed.offer(event.to_line());
    }

    /// Lines that were not written since the start: the queue was full, the sink failed, or the
    /// trail was closed.
    pub fn dropped(&self) -> u64 {
        self.feed.dropped()
    }

    /// Opens a file sink anew under its path, for a log rotation that has renamed it; no line is
    /// lost. Other sinks stay as they are.
    pub fn reopen(&self) {
        self.feed.reopen();
    }

    /// Writes what is queued and ends the writer. Blocks for at most [`CLOSE_WAIT`] and a second.
    /// A second call does nothing.
    ///
    /// # Errors
    ///
    /// [`AuditError::Incomplete`].
    pub fn close(&self) -> Result<(), AuditError> {
        self.close_within(CLOSE_WAIT)
    }

    fn close_within(&self, wait: Duration) -> Result<(), AuditError> {
        self.feed.close(wait).map_err(|_| AuditError::Incomplete)
    }
}

fn of_stream(queue: usize) -> Settings {
    Settings { name: "audit", queue, linger: FILE_LINGER, batch: FILE_BATCH_BYTES }
}

fn of_post() -> Settings {
    let (linger, batch) = (POST_LINGER, POST_BATCH_BYTES);
    Settings { name: "audit", queue: QUEUE_LINES, linger, batch }
}

#[cfg(test)]
mod tests;
