//! Records in a real Redis, shared by several gateways (STORE section 4).

mod access;
mod clocks;
mod cluster;
mod failover;
mod faults;
mod leases;
mod loss;
mod proxy;
mod replicas;
mod slow;

use std::sync::Arc;

use crate::support::{RedisServer, Request, Setup, Upstream, call};
use serde_json::json;

/// A gateway with its records in `server`, which may be slow: no test of it depends on how fast the
/// machine is.
fn patient(setup: Setup, server: &Arc<RedisServer>) -> Setup {
    let setup = setup.redis(server).set("store", "timeout", "\"10s\"");
    setup.set("store", "connect_timeout", "\"10s\"")
}

/// A gateway in front of `upstream` with its records in `server`, and room for many calls.
fn shared(upstream: &Upstream, server: &Arc<RedisServer>) -> Setup {
    let setup = patient(Setup::new(upstream), server);
    let limits = [
        ("entries", "100000"),
        ("principal_entries", "100000"),
        ("scope_entries", "100000"),
        ("in_flight", "2000"),
        ("principal_in_flight", "2000"),
        ("scope_in_flight", "2000"),
        ("scope_tombstones", "5000"),
    ];
    let setup = limits.iter().fold(setup, |setup, (key, value)| setup.set("limits", key, value));
    setup.set("listen", "workers", "1").set("upstream", "max_in_flight", "5000")
}

/// The same with a lease that a test can wait out; a server that does not answer is given up soon.
fn leased(upstream: &Upstream, server: &Arc<RedisServer>, lease: &str) -> Setup {
    shared(upstream, server)
        .set("store", "lease", &format!("{lease:?}"))
        .set("store", "timeout", "\"300ms\"")
        .set("store", "connect_timeout", "\"300ms\"")
        .set("upstream", "connect_timeout", "\"200ms\"")
}

/// A gateway that waits for one replica, for half of this time.
fn waiting(upstream: &Upstream, primary: &Arc<RedisServer>, timeout: &str) -> Setup {
    let setup = shared(upstream, primary).set("store", "wait_replicas", "1");
    setup.set("store", "timeout", &format!("{timeout:?}"))
}

/// A keyed call that the upstream can tell from all others.
fn numbered(number: usize) -> Request {
    Request::keyed(&format!("key-{number}"), call("pay", json!({ "order": tag(number) })))
}

/// What is in the arguments of [`numbered`] alone.
fn tag(number: usize) -> String {
    format!("order-{number}-")
}
