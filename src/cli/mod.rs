//! The program's commands, one file each (CONTRACT section 10).

mod check;
pub mod demo;
mod health;
mod init;
mod run;
mod serve;
mod signals;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use hyper::Uri;

/// The configuration that is read where none is named.
const CONFIG: &str = "onceward.toml";

const PROMISE: &str = "\
What Onceward promises:
  A tools/call that carries an Idempotency-Key runs at most once while its record stands.
  A retry under the same key gets the stored reply, or is told plainly why it cannot: the
  first call still runs, it was another call, its outcome is unknown, its reply was not
  kept, or there is no room. After an ambiguous outcome the gateway never runs it again.

What it does not promise:
  A call without a key passes unchanged and unprotected. By default records live in the memory
  of this process: they end at its restart and are not shared with another replica. Where they
  are kept in Redis, it must not lose them: a restart without a log, or a failover to a replica
  that is behind, may forget claims. Records expire (by default 5 minutes after the call). A
  completed record may be evicted where a quota is full. Who needs exactly-once beyond that
  must make the tool itself idempotent.

Exit codes:
  0  done, or stopped by a signal
  1  could not start, a check found a mistake, the gateway is not well, or the demo saw a
     promise broken
  2  the command line is not understood";

/// A gateway that makes a retried MCP tools/call safe
///
/// A client that loses the reply to a tools/call cannot tell whether the tool ran, and a
/// retry can run it twice. Onceward stands in front of MCP servers: the client names the
/// call with an Idempotency-Key, and a retry gets the reply of the first run.
#[derive(Debug, Parser)]
#[command(name = "onceward", version, after_long_help = PROMISE, verbatim_doc_comment)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The program's commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway until it is stopped by a signal
    ///
    /// On SIGTERM or Ctrl-C it stops accepting, lets running calls finish and settle for up to
    /// the drain time, and exits 0. What still runs then settles as unknown. On SIGHUP it opens
    /// its audit file anew, for a log rotation; with --upstream it stops.
    #[command(after_long_help = PROMISE, verbatim_doc_comment)]
    Serve(ServeArguments),
    /// Validate a configuration and its policy, and print what would run
    ///
    /// Nothing is started. Exits 0 where the gateway could start with it, and 1 with the place of
    /// every mistake where it could not.
    #[command(verbatim_doc_comment)]
    Check(CheckArguments),
    /// Write a configuration to start from
    ///
    /// A process configuration, a server, a workspace with an API key of its own, and a connector
    /// to a vendor that is made up, each with comments. Shows the API key once and keeps only its
    /// SHA-256. Overwrites nothing.
    #[command(verbatim_doc_comment)]
    Init(InitArguments),
    /// Ask a running gateway how it is
    ///
    /// Exits 0 where it runs (with --ready: where it should get traffic), and 1 where it does not.
    /// For the health check of a container, which has no other program.
    #[command(verbatim_doc_comment)]
    Health(HealthArguments),
    /// Show every outcome with a payments server, the gateway, and a client that retries
    ///
    /// Starts a small MCP payments server, the gateway in front of it, and a client that times
    /// out and retries, all on this machine, and shows what happens to the ledger of charges.
    /// Exits 0 only if every outcome was the promised one.
    #[command(verbatim_doc_comment)]
    Demo(DemoArguments),
}

/// The arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// The configuration file (TOML)
    ///
    /// Each key is also an environment variable, with two underscores between table
    /// and key: ONCEWARD_LISTEN__MCP is `mcp` of `[listen]`.
    #[arg(long, value_name = "PATH", default_value = CONFIG, verbatim_doc_comment)]
    pub config: PathBuf,
    /// Local single-user use without any file: govern this one MCP server
    ///
    /// Listens on 127.0.0.1:8080. Every caller is the same principal, so it listens on
    /// loopback only.
    #[arg(
        long,
        value_name = "URL",
        value_parser = upstream,
        conflicts_with = "config",
        verbatim_doc_comment
    )]
    pub upstream: Option<String>,
}

/// The arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// The configuration file (TOML)
    #[arg(long, value_name = "PATH", default_value = CONFIG)]
    pub config: PathBuf,
}

/// The arguments of `init`.
#[derive(Debug, Args)]
pub struct InitArguments {
    /// The folder, which is made if it is not there
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
}

/// The arguments of `health`.
#[derive(Debug, Args)]
pub struct HealthArguments {
    /// The configuration file (TOML)
    #[arg(long, value_name = "PATH", default_value = CONFIG)]
    pub config: PathBuf,
    /// The admin listener's address, instead of a configuration file
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    pub admin: Option<SocketAddr>,
    /// Ask whether it should get traffic, not only whether it runs
    #[arg(long)]
    pub ready: bool,
}

/// The arguments of `demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// Leave it up afterwards, on 127.0.0.1:8080 and :8081, and print curl lines
    #[arg(long)]
    pub keep_running: bool,
}

fn upstream(text: &str) -> Result<String, String> {
    let url: Uri = text.parse().map_err(|error| format!("{error}"))?;
    match url.scheme_str() {
        Some("http" | "https") => Ok(text.to_owned()),
        _ => Err("write an absolute URL, such as http://127.0.0.1:9000/mcp".to_owned()),
    }
}

/// Reads the command line and does what it asks.
pub fn run() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Init(arguments) => init::run(&arguments),
        Command::Health(arguments) => health::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    fn refused(line: &str) -> ErrorKind {
        Cli::try_parse_from(line.split(' ')).expect_err(line).kind()
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_takes_a_file_or_an_upstream_and_not_both() {
        let serve = |line: &str| match Cli::try_parse_from(line.split(' ')).expect(line).command {
            Command::Serve(arguments) => arguments,
            other => panic!("{line} is {other:?}"),
        };
        let file = serve("onceward serve --config my.toml");
        assert_eq!((file.config, file.upstream), ("my.toml".into(), None));
        assert_eq!(serve("onceward serve").config, PathBuf::from("onceward.toml"));
        let local = serve("onceward serve --upstream http://127.0.0.1:9000/mcp");
        assert_eq!(local.upstream, Some("http://127.0.0.1:9000/mcp".into()));
        assert_eq!(
            refused("onceward serve --config a --upstream http://b/"),
            ErrorKind::ArgumentConflict
        );
    }

    #[test]
    fn an_upstream_must_be_an_absolute_http_url() {
        for url in ["127.0.0.1:9000", "/mcp", "ftp://host/mcp", "http://"] {
            assert_eq!(
                refused(&format!("onceward serve --upstream {url}")),
                ErrorKind::ValueValidation,
                "{url}"
            );
        }
    }

    #[test]
    fn the_long_help_says_what_is_not_promised() {
        let help = Cli::command().render_long_help().to_string();
        for promise in [
            "at most once while its record stands",
            "never runs it again",
            "end at its restart",
            "make the tool itself idempotent",
            "Exit codes",
        ] {
            assert!(help.contains(promise), "the help should say: {promise}");
        }
    }

    #[test]
    fn no_help_is_wider_than_a_hundred_columns() {
        let mut program = Cli::command();
        let mut helps = vec![program.render_help(), program.render_long_help()];
        for command in program.get_subcommands_mut() {
            helps.extend([command.render_help(), command.render_long_help()]);
        }
        for help in helps.iter().map(ToString::to_string) {
            for line in help.lines() {
                assert!(line.chars().count() <= 100, "{line}");
            }
        }
    }
}
