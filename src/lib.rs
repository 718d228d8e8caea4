//! Onceward: a gateway that makes a retried MCP tool call safe.
//!
//! The floors, from the ground up; a lower floor never imports a higher one:
//!
//! - [`claim`]: the pure core. No clock, no I/O, no lock, no async, no actor. Builds alone with
//!   `--no-default-features`.
//! - [`ledger`]: the lock-free global counts.
//! - [`mailbox`]: actors that their senders run.
//! - [`store`]: the `Store` trait, the ticket, the memory store, the Redis store.
//! - [`files`], `urls`: files of the operator's, read within a bound, and URLs as they are shown.
//! - [`secret`]: references to secrets, which policy and configuration name and never hold.
//! - [`native`]: a vendor's API as tools.
//! - [`policy`], [`identity`], [`upstream`], [`observe`]: beside the store, which they do not know.
//! - [`gateway`]: the pipeline, one file a stage.
//! - [`admin`] and [`cli`]: on top.

// The pure floors: clippy.toml says what must not enter them, and why.
#[deny(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod claim;
#[deny(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod ledger;
pub mod mailbox;

#[cfg(feature = "gateway")]
pub mod admin;
#[cfg(feature = "gateway")]
pub mod cli;
#[cfg(feature = "gateway")]
pub mod config;
#[cfg(feature = "gateway")]
pub mod files;
#[cfg(feature = "gateway")]
pub mod gateway;
#[cfg(feature = "gateway")]
pub mod identity;
#[cfg(feature = "gateway")]
pub mod native;
#[cfg(feature = "gateway")]
pub mod observe;
#[cfg(feature = "gateway")]
mod patience;
#[cfg(feature = "gateway")]
pub mod policy;
#[cfg(feature = "gateway")]
pub mod secret;
#[cfg(feature = "gateway")]
pub mod store;
#[cfg(feature = "gateway")]
pub mod upstream;
#[cfg(feature = "gateway")]
mod urls;
