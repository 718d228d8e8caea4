//! The process's own log: text on standard error, never on standard output, where the audit may be.

use std::io::{self, IsTerminal};

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// The environment variable that holds the filter, in the syntax of `EnvFilter`: `debug`, or
/// `warn,onceward::store=debug`. Absent or empty means `DEFAULT_FILTER`.
pub const LOG_VARIABLE: &str = "ONCEWARD_LOG";

/// What is logged unless asked otherwise. The HTTP server's own news of workers and threads that
/// start says nothing to an operator, and it calls each malformed request an error: anybody who
/// reaches the listener could fill the log.
pub const DEFAULT_FILTER: &str = "info,actix_server=warn,actix_http=off";

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The operator's filter cannot be read.
    #[error(
        "`{LOG_VARIABLE}` is not a log filter ({0}); use a level such as `info`, or `target=level` pairs"
    )]
    Filter(#[from] ParseError),
    /// A defect of this program: the log is set up once.
    #[error("the log is already set up")]
    Twice(#[from] TryInitError),
}

/// Sends every `tracing` event of the process that `ONCEWARD_LOG` lets through to standard error,
/// with colours only on a terminal (and not where `NO_COLOR` is set). Call it once.
///
/// # Errors
///
/// [`LogError::Filter`] where the operator has to mend the variable; [`LogError::Twice`].
pub fn init_logging() -> Result<(), LogError> {
    let asked = std::env::var(LOG_VARIABLE).unwrap_or_default();
    let filter = if asked.is_empty() { DEFAULT_FILTER } else { &asked };
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let ansi = io::stderr().is_terminal() && !plain;
    subscriber(filter, ansi, io::stderr)?.try_init()?;
    Ok(())
}

fn subscriber<W>(
    filter: &str,
    ansi: bool,
    writer: W,
) -> Result<impl Subscriber + Send + Sync + 'static, ParseError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter =
        EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).parse(filter)?;
    Ok(tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(ansi)
        .with_writer(writer)
        .finish())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What the events of `emit` look like under a filter.
    fn logged(filter: &str, ansi: bool, emit: impl FnOnce()) -> String {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let subscriber =
            subscriber(filter, ansi, move || Shared(Arc::clone(&sink))).expect("a valid filter");
        tracing::subscriber::with_default(subscriber, emit);
        let bytes = lines.lock().expect("not poisoned").clone();
        String::from_utf8(bytes).expect("text")
    }

    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn one_of_each() {
        tracing::debug!("quiet");
        tracing::info!("normal");
        tracing::warn!(target: "elsewhere", "loud");
    }

    #[test]
    fn the_default_is_info() {
        let text = logged("", false, one_of_each);
        assert!(!text.contains("quiet"), "{text}");
        assert!(text.contains("normal") && text.contains("loud"), "{text}");
    }

    #[test]
    fn a_filter_chooses_by_target() {
        let text = logged("off,elsewhere=warn", false, one_of_each);
        assert!(!text.contains("normal"), "{text}");
        assert!(text.contains("loud"), "{text}");
    }

    #[test]
    fn there_is_no_escape_sequence_without_a_terminal() {
        assert!(!logged("", false, one_of_each).contains('\x1b'));
        assert!(logged("", true, one_of_each).contains('\x1b'));
    }

    #[test]
    fn a_bad_filter_is_an_error_that_names_the_variable() {
        let error = subscriber("onceward=loudest", false, io::sink).err().expect("no such level");
        let text = LogError::from(error).to_string();
        assert!(text.starts_with("`ONCEWARD_LOG` is not a log filter"), "{text}");
    }
}
