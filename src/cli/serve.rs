//! `onceward serve`: the gateway, until a signal ends it.

use std::process::ExitCode;
use std::sync::Arc;

use actix_web::rt;

use super::ServeArguments;
use super::run::{self, Running, StartError};
use super::signals::Signals;
use crate::config::{self, Config, ConfigError, PolicySource};
use crate::observe::{LogError, init_logging};
use crate::policy::{PolicyErrors, PolicySet, PolicyWatch, SessionsWatch};

/// Why `serve` could not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The log filter of the environment.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The policy of `--upstream`.
    #[error(transparent)]
    Policy(#[from] PolicyErrors),
    /// What could not be opened.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No handler for the signals.
    #[error("cannot listen for signals: {0}")]
    Signal(std::io::Error),
}

/// Runs until SIGTERM or Ctrl-C; with a configuration file, SIGHUP has the audit file opened anew.
pub fn run(arguments: &ServeArguments) -> ExitCode {
    match rt::System::new().block_on(serve(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("onceward: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(arguments: &ServeArguments) -> Result<(), ServeError> {
    init_logging()?;
    let config = match &arguments.upstream {
        Some(upstream) => Config::local(upstream.clone(), config::environment())?,
        None => Config::load(&arguments.config, config::environment())?,
    };
    let mut signals = Signals::catch().map_err(ServeError::Signal)?;
    let running = start(&config).await?;
    // Scripts wait for this line, whatever the log level.
    eprintln!("onceward listening mcp={} admin={}", running.mcp, running.admin);
    match &arguments.upstream {
        // Local use belongs to a terminal, and ends with it.
        Some(_) => signals.first().await,
        None => signals.stop(|| running.reopen_audit()).await,
    }
    tracing::info!("stopping: running calls may finish");
    running.stop().await;
    Ok(())
}

/// Loads what can be loaded, starts, and keeps looking for changes. A policy that cannot be loaded
/// yet leaves the gateway running and not ready.
///
/// # Errors
///
/// A listener, the audit sink or the system's trust store could not be opened.
pub async fn start(config: &Config) -> Result<Running, ServeError> {
    let sessions =
        Arc::new(SessionsWatch::new(config.sessions.as_ref().map(|source| source.path.clone())));
    sessions.poll();
    let policy = Arc::new(match &config.policy {
        PolicySource::Local { upstream } => {
            PolicyWatch::fixed(PolicySet::local(upstream, config.load_context())?)
        }
        PolicySource::Watched { path, .. } => PolicyWatch::new(path.clone(), config.load_context()),
    });
    policy.poll();
    let running = run::start(config, Arc::clone(&policy), Arc::clone(&sessions)).await?;
    if let PolicySource::Watched { reload, .. } = &config.policy {
        rt::spawn(policy.run(*reload));
    }
    if let Some(source) = &config.sessions {
        rt::spawn(sessions.run(source.sync));
    }
    Ok(running)
}
