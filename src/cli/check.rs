//! `onceward check`: what would run, or everything that stands in its way (CONTRACT section 10).

mod effects;
mod report;
mod warnings;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

pub use report::Report;

use super::CheckArguments;
use crate::config::{self, Config, ConfigError, PolicySource, StoreConfig};
use crate::gateway::tls::{Material, TlsError};
use crate::policy::{PolicyError, PolicyErrors, PolicySet, SessionsFile};
use crate::store::StoreError;
use crate::store::redis::{self, Examination, RedisSettings};

/// One thing that stands in the way, with its file and place.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// In the process configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// In a policy document or the sessions file.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// In the shared store's server.
    #[error("{url}: {problem}")]
    Store {
        /// The server, without user and password.
        url: String,
        /// What keeps it from holding claims.
        problem: StoreError,
    },
    /// The system gives no event loop to ask the server with.
    #[error("cannot ask the store's server: {0}")]
    System(String),
    /// In the listener's certificates or key.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Prints what would run and exits 0, or prints every mistake and exits 1.
pub fn run(arguments: &CheckArguments) -> ExitCode {
    match check(&arguments.config, config::environment()) {
        Ok(report) => {
            // A reader that closes the pipe has seen enough.
            let _ = write!(std::io::stdout(), "{report}");
            ExitCode::SUCCESS
        }
        Err(errors) => {
            for error in errors {
                eprintln!("onceward: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Reads a configuration, its policy, its sessions file and its certificates, as `serve` would, and
/// asks the shared store's server what it is. Opens no listener and writes no file and no record.
///
/// # Errors
///
/// Every mistake with its file and place; never an empty list.
pub fn check(
    file: &Path,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Report, Vec<CheckError>> {
    let config = Config::load(file, environment).map_err(|error| vec![error.into()])?;
    match (policy(&config), sessions(&config), certificates(&config), store(&config)) {
        (Ok(policy), Ok(sessions), Ok(tls), Ok(store)) => {
            Ok(Report::new(config, policy, sessions, tls, store))
        }
        (policy, sessions, certificates, store) => {
            let of_policy = policy.err().map(Vec::from).unwrap_or_default();
            let errors = of_policy.into_iter().chain(sessions.err()).map(CheckError::from);
            let errors = errors.chain(certificates.err().map(CheckError::from));
            Err(errors.chain(store.err()).collect())
        }
    }
}

fn certificates(config: &Config) -> Result<Option<Material>, TlsError> {
    config.listen.tls.as_ref().map(|tls| tls.files().load()).transpose()
}

/// `None` where records live in the process.
fn store(config: &Config) -> Result<Option<Examination>, CheckError> {
    match &config.store {
        StoreConfig::Memory { .. } => Ok(None),
        StoreConfig::Redis(settings) => examine(settings).map(Some),
    }
}

fn examine(settings: &RedisSettings) -> Result<Examination, CheckError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CheckError::System(error.to_string()))?;
    runtime
        .block_on(redis::examine(settings))
        .map_err(|problem| CheckError::Store { url: settings.url.to_string(), problem })
}

fn policy(config: &Config) -> Result<PolicySet, PolicyErrors> {
    match &config.policy {
        PolicySource::Watched { path, .. } => PolicySet::load(path, config.load_context()),
        PolicySource::Local { upstream } => PolicySet::local(upstream, config.load_context()),
    }
}

/// `None` where there is no file, also where it is configured but not there yet: it may be made
/// later.
fn sessions(config: &Config) -> Result<Option<SessionsFile>, PolicyError> {
    match &config.sessions {
        Some(source) if source.path.exists() => SessionsFile::load(&source.path).map(Some),
        Some(_) | None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
