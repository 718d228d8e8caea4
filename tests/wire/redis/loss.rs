//! Servers that forget: restarts without persistence, failovers.

use std::sync::Arc;
use std::time::Instant;

use super::{leased, numbered, shared, tag, waiting};
use crate::support::{Gate, PATIENCE, RedisServer, Reply, Upstream, eventually};

#[tokio::test]
async fn a_restart_that_forgot_everything_is_noticed_and_waited_out() {
    let upstream = Upstream::start().await;
    let server = Arc::new(RedisServer::start());
    // A begin asks for less time than it has to wait.
    let gateway = leased(&upstream, &server, "2s").set("limits", "ttl", "\"1500ms\"").start().await;
    gateway.send(&numbered(1)).await.assert_first();
    server.restart();
    // Refused, not run: for as long as the lost record would have stood.
    let refused = gateway.send(&numbered(1)).await;
    refused.assert_refused(503, "idempotency_unavailable");
    assert_eq!(gateway.admin("/readyz").await.status, 503);
    let why = gateway.status().await["store"]["error"].to_string();
    assert!(why.contains("redis has lost records"), "{why}");
    assert_eq!(upstream.hits(), 1);
    let again = eventually("the time to be over", || async {
        let answer = gateway.send(&numbered(1)).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    again.assert_first();
}

/// What keeps nothing on disk, and gives a new replica its copy at once.
pub const FORGETFUL: [&str; 4] = ["--save", "", "--repl-diskless-sync-delay", "0"];

/// A primary and its replica, in step.
pub fn pair() -> (Arc<RedisServer>, Arc<RedisServer>) {
    in_step(RedisServer::with(&FORGETFUL), RedisServer::with(&FORGETFUL))
}

/// Makes the second server a replica of the first one, and waits until it is in step.
pub fn in_step(primary: RedisServer, replica: RedisServer) -> (Arc<RedisServer>, Arc<RedisServer>) {
    replica.command::<redis::Value>(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    let deadline = Instant::now() + PATIENCE;
    let mut connection = primary.connection();
    // It has acknowledged something that was written after it came.
    let mut in_step = || {
        redis::cmd("SET").arg("probe").arg(1).exec(&mut connection)?;
        redis::cmd("WAIT").arg(1).arg(100).query::<u32>(&mut connection)
    };
    while in_step().expect("a primary") < 1 {
        assert!(Instant::now() < deadline, "the replica does not come into step");
    }
    (Arc::new(primary), Arc::new(replica))
}

#[tokio::test]
async fn with_a_replica_waited_for_a_failover_loses_no_claim() {
    let upstream = Upstream::start().await;
    let (primary, replica) = pair();
    let gate = Gate::new();
    let before = waiting(&upstream, &primary, "20s").start().await;
    let mut running = Vec::new();
    for key in 1..=20 {
        upstream.script(Reply::silent().wait(&gate).close());
        running.push(before.begin(&numbered(key)).await);
        upstream.hit(key).await;
    }
    primary.signal("KILL");
    replica.command::<redis::Value>("REPLICAOF NO ONE");
    let after = shared(&upstream, &replica).start().await;
    for key in 1..=20 {
        after.send(&numbered(key)).await.assert_refused(409, "idempotency_in_flight");
        assert_eq!(upstream.hits_with(&tag(key)), 1);
    }
    gate.open();
}

#[tokio::test]
async fn a_claim_that_too_few_replicas_have_is_refused_and_given_back() {
    let upstream = Upstream::start().await;
    let (primary, replica) = pair();
    let gateway = waiting(&upstream, &primary, "3s").start().await;
    gateway.send(&numbered(1)).await.assert_first();
    replica.signal("STOP");
    gateway.send(&numbered(2)).await.assert_refused(503, "idempotency_unavailable");
    assert_eq!(upstream.hits_with(&tag(2)), 0);
    replica.signal("CONT");
    eventually("the claim to be given back", || async {
        (gateway.send(&numbered(2)).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(upstream.hits_with(&tag(2)), 1);
}

/// What docs/GUARANTEES.md says of a failover that nobody waits for.
#[tokio::test]
async fn without_one_a_failover_may_run_a_call_again() {
    let upstream = Upstream::start().await;
    let (primary, replica) = pair();
    let gate = Gate::new();
    let before = shared(&upstream, &primary).start().await;
    // It has lost its primary, and falls behind.
    replica.command::<redis::Value>("REPLICAOF 127.0.0.1 1");
    upstream.script(Reply::silent().wait(&gate).close());
    let _running = before.begin(&numbered(1)).await;
    upstream.hit(1).await;
    primary.signal("KILL");
    replica.command::<redis::Value>("REPLICAOF NO ONE");
    let after = shared(&upstream, &replica).start().await;
    after.send(&numbered(1)).await;
    assert_eq!(upstream.hits_with(&tag(1)), 2);
    gate.open();
}
