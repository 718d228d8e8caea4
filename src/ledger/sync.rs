//! The atomics of the ledger: the standard library's, or loom's where loom checks them.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering};
