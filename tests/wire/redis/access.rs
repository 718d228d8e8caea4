//! Ways to a server: a user with little more than it needs, TLS; and what `check` tells of it.

use std::sync::Arc;

use super::{numbered, shared};
use crate::support::{RedisServer, Upstream, run};
use crate::tls::Secured;

/// What docs/CONFIGURATION.md says that the user needs.
const RIGHTS: &str = "ACL SETUSER app on >pa55 ~onceward:* -@all +eval +evalsha +script|load +info \
                      +wait +time +del +pexpireat +@hash +@sortedset";

#[tokio::test]
async fn a_user_with_the_documented_rights_is_enough() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    server.command::<redis::Value>(RIGHTS);
    let url = |user: &str| format!("\"redis://{user}@127.0.0.1:{}\"", server.port());
    let setup = |user: &str| shared(&upstream, &server).set("store", "url", &url(user));
    let gateway = setup("app:pa55").start().await;
    let first = gateway.send(&numbered(1)).await;
    first.assert_first();
    gateway.send(&numbered(1)).await.assert_replays(&first);
    assert!(!gateway.status().await.to_string().contains("pa55"));
    let stranger = setup("app:wrong").start().await;
    stranger.send(&numbered(2)).await.assert_refused(503, "idempotency_unavailable");
    assert!(!stranger.stderr().contains("wrong"), "a password is in the log");
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn a_server_behind_tls_is_talked_to_if_its_certificate_is_trusted() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let secured = Secured::in_front_of(([127, 0, 0, 1], server.port()).into()).await;
    let url = format!("\"rediss://{}\"", secured.authority());
    let setup = || shared(&upstream, &server).set("store", "url", &url);
    let trusting = setup().env("SSL_CERT_FILE", &secured.root()).start().await;
    let first = trusting.send(&numbered(1)).await;
    first.assert_first();
    trusting.send(&numbered(1)).await.assert_replays(&first);
    let wary = setup().start().await;
    wary.send(&numbered(2)).await.assert_refused(503, "idempotency_unavailable");
    assert_eq!(upstream.hits(), 1);
}

#[tokio::test]
async fn check_tells_what_the_server_is_and_does_not_protect_from() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let setup = shared(&upstream, &server);
    let config = setup.write();
    let arguments = ["check".as_ref(), "--config".as_ref(), config.as_os_str()];
    let found = run(&arguments).await;
    assert!(found.status.success(), "{}", found.stderr);
    let version = server.command::<String>("INFO server");
    let version = version.lines().find_map(|line| line.strip_prefix("redis_version:"));
    for part in [
        &format!("version {}, primary, replicas 0, cluster off", version.expect("a version")),
        "maxmemory-policy noeviction",
        "appendonly no",
        "8 loaded",
        "warning: redis has `appendonly no`",
        "warning: redis has no `maxmemory`",
    ] {
        assert!(found.stdout.contains(part), "`{part}` is missing:\n{}", found.stdout);
    }
    server.command::<redis::Value>("CONFIG SET maxmemory 100mb");
    server.command::<redis::Value>("CONFIG SET appendonly yes");
    let kept = run(&arguments).await;
    assert!(!kept.stdout.contains("warning: redis"), "{}", kept.stdout);
    server.command::<redis::Value>("CONFIG SET maxmemory-policy allkeys-lru");
    let evicting = run(&arguments).await;
    assert!(!evicting.status.success() && evicting.stderr.contains("noeviction"));
    drop(server);
}

#[tokio::test]
async fn a_keyed_call_takes_two_round_trips() {
    let (upstream, server) = (Upstream::start().await, Arc::new(RedisServer::start()));
    let gateway = shared(&upstream, &server).start().await;
    gateway.send(&numbered(0)).await.assert_first();
    server.command::<redis::Value>("CONFIG RESETSTAT");
    for key in 1..=100 {
        gateway.send(&numbered(key)).await.assert_first();
    }
    let stats = server.command::<String>("INFO commandstats");
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("scripts");
    let calls = line.split(['=', ',']).nth(1).and_then(|calls| calls.parse::<u32>().ok());
    let looks = stats.lines().find_map(|line| line.strip_prefix("cmdstat_info:calls="));
    let looks = looks.and_then(|rest| rest.split(',').next()?.parse::<u32>().ok()).unwrap_or(0);
    // Each look at the server counts the one domain too; the last one may be under way.
    let others = calls.expect("a count") - 200;
    assert!(others <= looks + 1, "200 for 100 calls, {others} beside {looks} looks");
}
