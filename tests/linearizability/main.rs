//! A running store under real concurrency: threads hammer it, what each of them saw is recorded
//! with when, and a checker looks for one order of the operations in which the sequential model
//! would have answered the same.
//!
//! Any [`onceward::store::Store`] can be the subject. `ONCEWARD_HISTORIES` says how many histories
//! each test records, `ONCEWARD_SEED` repeats the operations of one seed as often; threads
//! interleave as they like, so a history that fails is printed whole.

#![cfg(feature = "gateway")]

mod broken;
mod checker;
mod clock;
#[path = "../store_model/dispatches.rs"]
mod dispatches;
mod hammer;
mod history;
mod memory;
#[expect(dead_code, reason = "the checks of the machines use more of it")]
#[path = "../store_model/naive.rs"]
mod naive;
mod records;
mod redis;
#[allow(dead_code, reason = "each test target uses its part")]
#[path = "../support/redis.rs"]
mod redis_server;
mod self_test;
mod spec;
