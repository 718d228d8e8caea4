//! The contract, black box over HTTP against the built program: one module per capability.

#![cfg(feature = "gateway")]

#[path = "../support/mod.rs"]
mod support;

mod audit_sinks;
mod authorization;
mod capacity;
mod certificates;
mod circuit;
mod cors;
mod cut;
mod disconnect;
mod effects;
mod era;
mod errors;
mod fingerprint_call;
mod framing;
mod headers;
mod hosts;
mod ids;
mod isolation;
mod json;
mod keys;
mod media;
mod mtls;
mod oauth;
mod observability;
mod outcomes;
mod overlaps;
mod program;
mod redis;
mod reload;
mod replies;
mod shutdown;
mod streams;
mod tls;
mod tls_listener;
mod traces;
