//! What the story is played in: the payments server, and the gateway in front of it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use super::folder::Folder;
use super::payments::Payments;
use crate::cli::run::Running;
use crate::cli::serve::{self, ServeError};
use crate::config::{Config, ConfigError};

/// The gateway's MCP listener when it is left running.
pub const MCP_PORT: u16 = 8080;
/// The gateway's admin listener when it is left running.
pub const ADMIN_PORT: u16 = 8081;

/// Where the gateway listens, on this machine alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// Wherever there is room.
    Free,
    /// At [`MCP_PORT`] and [`ADMIN_PORT`], so that lines to paste stay the same.
    Fixed,
}

/// Why the demo could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The payments server has no port.
    #[error("the payments server cannot listen: {0}")]
    Payments(io::Error),
    /// The demo's folder.
    #[error("cannot write the demo's files to the temporary folder: {0}")]
    Folder(io::Error),
    /// The configuration in it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The gateway.
    #[error(transparent)]
    Gateway(#[from] ServeError),
    /// A fixed port is taken.
    #[error(
        "{0} (`demo --keep-running` uses the ports {MCP_PORT} and {ADMIN_PORT}; without it any \
         free ones do)"
    )]
    Fixed(ServeError),
}

/// A running payments server with a running gateway in front of it.
pub struct World {
    /// The upstream.
    pub payments: Payments,
    /// The gateway.
    pub gateway: Running,
    /// The gateway's files.
    pub folder: Folder,
}

impl World {
    /// Starts both, inside a running actix system.
    ///
    /// # Errors
    ///
    /// See [`WorldError`]; what had been started is stopped again.
    pub async fn start(ports: Ports) -> Result<Self, WorldError> {
        let payments = Payments::start(local(0)).map_err(WorldError::Payments)?;
        match gateway(&payments, ports).await {
            Ok((gateway, folder)) => Ok(Self { payments, gateway, folder }),
            Err(error) => {
                payments.stop().await;
                Err(error)
            }
        }
    }

    /// Stops both, the gateway first.
    pub async fn stop(self) {
        self.gateway.stop().await;
        self.payments.stop().await;
    }
}

async fn gateway(payments: &Payments, ports: Ports) -> Result<(Running, Folder), WorldError> {
    let (mcp, admin) = match ports {
        Ports::Free => (local(0), local(0)),
        Ports::Fixed => (local(MCP_PORT), local(ADMIN_PORT)),
    };
    let folder = Folder::create(payments.address(), mcp, admin).map_err(WorldError::Folder)?;
    // The environment configures the user's own gateway, not this one.
    let config = Config::load(&folder.config(), [])?;
    let running = serve::start(&config).await.map_err(|error| match ports {
        Ports::Free => WorldError::Gateway(error),
        Ports::Fixed => WorldError::Fixed(error),
    })?;
    Ok((running, folder))
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
