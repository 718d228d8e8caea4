//! The Redis store by itself on a real server: what its begins, reservations and settles leave, whatever
//! is lost on the way.

#![cfg(feature = "gateway")]

mod attempts;
mod pins;
#[allow(dead_code, reason = "the gateways' tests use more of it")]
#[path = "../wire/redis/proxy.rs"]
mod proxy;
mod receipts;
#[allow(dead_code, reason = "each test target uses its part")]
#[path = "../support/redis.rs"]
mod redis_server;
mod redispatch;
mod support;
mod workspaces;
