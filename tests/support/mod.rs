//! The harness of the black-box tests: the built program, a raw HTTP/1.1 client and a scripted
//! upstream. Nothing here knows the program's code; everything goes over sockets.

mod gateway;
mod http;
mod issuer;
mod message;
mod metrics;
mod policy;
#[allow(dead_code, reason = "each test target uses its part")]
mod redis;
mod reply;
mod tls;
mod upstream;

pub use gateway::{Finished, Gateway, Setup, run, store_of_the_run};
pub use http::{Conn, Piece};
pub use issuer::{Issuer, RESOURCE, Signer, now_s, unsigned};
pub use message::{
    KEY, Request, Response, TOKEN_B, call, call_with_id, continuation, key_hash, pay, sha256_hex,
};
pub use policy::{Policy, grant, session};
pub use redis::RedisServer;
pub use reply::{Gate, Live, Reply, http, json_reply, result_for};
pub use tls::{Authority, Issued, TlsClient};
pub use upstream::Upstream;

use std::future::Future;
use std::time::Duration;

/// How long a test waits for something that must happen: long enough for a loaded machine, and
/// never part of what a test asserts.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Awaits `future`, or fails the test with `what` when it does not come.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain for: {what}"),
    }
}

/// Polls `probe` until it gives a value, or fails the test with `what`.
pub async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut probe: impl FnMut() -> F,
) -> T {
    within(what, async {
        loop {
            if let Some(value) = probe().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}
