//! The pure machines of the store against the sequential model of STORE section 2.

mod dispatches;
mod interleaving;
mod naive;
mod shard;
mod world;
