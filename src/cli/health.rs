//! `onceward health`: asks a running gateway how it is, for a container that has no shell.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use super::HealthArguments;
use crate::config::{self, Config, ConfigError};

/// How long connecting, asking and each part of the answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What of an answer is read; the pages are far smaller.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// Why the gateway is not well, or cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// Its configuration does not say where it listens.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nobody answers there.
    #[error("the admin listener at {address} does not answer: {source}; is the gateway running?")]
    NoAnswer {
        /// Where it was asked.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// It answers that it is not.
    #[error("the gateway at {address} says: {answer}")]
    Unwell {
        /// Where it was asked.
        address: SocketAddr,
        /// Status line and body.
        answer: String,
    },
}

/// Exits 0 where the gateway is well, and 1 with the reason where it is not.
pub fn run(arguments: &HealthArguments) -> ExitCode {
    match check(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("onceward: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check(arguments: &HealthArguments) -> Result<(), HealthError> {
    let address = match arguments.admin {
        Some(address) => address,
        None => Config::load(&arguments.config, config::environment())?.listen.admin,
    };
    let address = reachable(address);
    let page = if arguments.ready { "/readyz" } else { "/healthz" };
    let answer = ask(address, page).map_err(|source| HealthError::NoAnswer { address, source })?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200") => Ok(()),
        _ => Err(HealthError::Unwell { address, answer: format!("{status} {body}") }),
    }
}

/// The address at which a listener of this machine is reached: one that listens everywhere listens
/// on loopback too.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

fn ask(address: SocketAddr, page: &str) -> io::Result<String> {
    let mut connection = TcpStream::connect_timeout(&address, PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    write!(connection, "GET {page} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    connection.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_every_address_is_asked_on_loopback() {
        for (listener, asked) in [
            ("0.0.0.0:8081", "127.0.0.1:8081"),
            ("[::]:8081", "[::1]:8081"),
            ("127.0.0.1:8081", "127.0.0.1:8081"),
            ("10.0.0.1:81", "10.0.0.1:81"),
        ] {
            let listener = listener.parse().expect("an address");
            assert_eq!(reachable(listener), asked.parse().expect("an address"));
        }
    }
}
