//! TLS of the MCP listener: certificates that are read again while they are in use, and handshakes
//! that cannot hold the listener (CONTRACT sections 9 and 10).
//!
//! [`TlsWatch`] holds the configuration of this moment, [`Acceptor`] begins a connection with it.
//! Connections that stand keep what they began with.

mod accept;
mod material;
mod watch;

pub use accept::{Acceptor, HandshakeError, Secured, peer};
pub use material::{MAX_PEM_BYTES, Material, TlsError, TlsFiles};
pub use watch::TlsWatch;
