//! A cluster of three nodes: every server of the policy on one of them, also while it moves.

use std::process::Command;
use std::sync::Arc;

use super::{numbered, patient, shared, tag};
use crate::support::{
    Gate, Policy, RedisServer, Reply, Setup, Upstream, eventually, json_reply, pay, result_for,
};

/// The domain of the default policy.
const DOMAIN: &str = "{uid-payments}";

/// What makes a server a node.
pub const NODE: [&str; 6] = ["--cluster-enabled", "yes", "--save", "", "--appendonly", "no"];

/// Its first three nodes are masters at the start.
pub struct Cluster {
    pub nodes: Vec<Arc<RedisServer>>,
}

impl Cluster {
    async fn start() -> Self {
        Self::of((0..3).map(|_| RedisServer::with(&NODE)), 0).await
    }

    /// A cluster of these nodes, so many of them replicas of each master.
    pub async fn of(nodes: impl IntoIterator<Item = RedisServer>, replicas: usize) -> Self {
        let nodes: Vec<_> = nodes.into_iter().map(Arc::new).collect();
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]);
        create.args(nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())));
        create.args(["--cluster-replicas", &replicas.to_string(), "--cluster-yes"]);
        let created = create.output().expect("redis-cli");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
        let cluster = Self { nodes };
        eventually("the nodes to agree", || async {
            let agree = |node: &Arc<RedisServer>| {
                node.command::<String>("CLUSTER INFO").contains("cluster_state:ok")
            };
            cluster.nodes.iter().all(agree).then_some(())
        })
        .await;
        cluster
    }

    fn setup(&self, upstream: &Upstream) -> Setup {
        shared(upstream, &self.nodes[0]).set("store", "url", &self.url())
    }

    /// The URL by its masters.
    pub fn url(&self) -> String {
        let masters = self.nodes[..3].iter().map(|node| format!("127.0.0.1:{}", node.port()));
        format!("\"redis+cluster://{}\"", masters.collect::<Vec<_>>().join(","))
    }

    fn id(&self, node: usize) -> String {
        self.nodes[node].command("CLUSTER MYID")
    }

    fn slot(&self) -> u32 {
        self.nodes[0].command(&format!("CLUSTER KEYSLOT {DOMAIN}"))
    }

    /// The node that has the domain's keys.
    pub fn owner(&self) -> usize {
        let keys = format!("CLUSTER COUNTKEYSINSLOT {}", self.slot());
        let held = self.nodes.iter().position(|node| node.command::<u32>(&keys) > 0);
        held.expect("a node with keys")
    }

    /// Says on both sides that the slot is on its way.
    fn open_the_move(&self, from: usize, to: usize) {
        let slot = self.slot();
        let (from_id, to_id) = (self.id(from), self.id(to));
        let importing = format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}");
        self.nodes[to].command::<redis::Value>(&importing);
        let migrating = format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}");
        self.nodes[from].command::<redis::Value>(&migrating);
    }

    /// Moves up to so many keys.
    fn move_keys(&self, from: usize, to: usize, count: u32) {
        let mut connection = self.nodes[from].connection();
        let mut keys = redis::cmd("CLUSTER");
        keys.arg("GETKEYSINSLOT").arg(self.slot()).arg(count);
        let keys: Vec<Vec<u8>> = keys.query(&mut connection).expect("keys");
        if keys.is_empty() {
            return;
        }
        let mut migrate = redis::cmd("MIGRATE");
        migrate.arg("127.0.0.1").arg(self.nodes[to].port()).arg("").arg(0).arg(10_000);
        migrate.arg("KEYS").arg(keys).exec(&mut connection).expect("moved");
    }

    fn close_the_move(&self, to: usize) {
        let close = format!("CLUSTER SETSLOT {} NODE {}", self.slot(), self.id(to));
        for node in [to, (to + 1) % 3, (to + 2) % 3] {
            self.nodes[node].command::<redis::Value>(&close);
        }
    }
}

#[tokio::test]
async fn every_server_has_its_records_on_one_node() {
    let (upstream, cluster) = (Upstream::start().await, Cluster::start().await);
    let names: Vec<_> = (0..8).map(|number| format!("server-{number}")).collect();
    let policies = names.iter().map(|name| Policy::new(&upstream.url()).at(name));
    let url = format!("\"redis+cluster://127.0.0.1:{}\"", cluster.nodes[1].port());
    let setup = patient(Setup::policies(policies), &cluster.nodes[0]).set("store", "url", &url);
    let gateway = setup.start().await;
    for (number, name) in names.iter().enumerate() {
        let request = numbered(number).to(&format!("/mcp/{name}"));
        let first = gateway.send(&request).await;
        first.assert_first();
        gateway.send(&request).await.assert_replays(&first);
    }
    let held = |node: &Arc<RedisServer>| node.command::<u32>("DBSIZE") > 0;
    assert!(cluster.nodes.iter().filter(|node| held(node)).count() > 1, "all on one node");
    assert_eq!(upstream.hits(), names.len());
}

#[tokio::test]
async fn a_slot_that_moves_under_load_loses_nothing() {
    let (upstream, cluster) = (Upstream::start().await, Cluster::start().await);
    let gateway = cluster.setup(&upstream).start().await;
    let mut kept = Vec::new();
    for key in 1..=10 {
        kept.push(gateway.send(&numbered(key)).await);
    }
    let gate = Gate::new();
    let late = json_reply(200, &result_for(pay().as_bytes(), "late"));
    upstream.script(Reply::silent().wait(&gate).send(late));
    let mut running = gateway.begin(&numbered(11)).await;
    upstream.hit(11).await;
    let from = cluster.owner();
    let to = (from + 1) % 3;
    cluster.open_the_move(from, to);
    // Held open, with none, some and all keys moved: a call runs whole or not at all.
    let mut tried = 11;
    for moved in [0, 7, 1000] {
        cluster.move_keys(from, to, moved);
        for _ in 0..5 {
            tried += 1;
            let answer = gateway.send(&numbered(tried)).await;
            let refused = answer.reason() == "idempotency_unavailable";
            assert!(answer.status == 200 || refused, "{}", answer.text());
            let ran = upstream.hits_with(&tag(tried));
            assert_eq!(ran, usize::from(!refused), "key {tried}");
        }
        if moved == 7 {
            gate.open();
        }
    }
    cluster.move_keys(from, to, 1000);
    cluster.close_the_move(to);
    let late = running.response().await.expect("an answer");
    late.assert_first();
    for (key, first) in (1..).zip(&kept) {
        gateway.send(&numbered(key)).await.assert_replays(first);
    }
    gateway.settled(&numbered(11)).await.assert_replays(&late);
    for key in 12..=tried {
        eventually("every call to have run", || async {
            (gateway.send(&numbered(key)).await.status == 200).then_some(())
        })
        .await;
        assert_eq!(upstream.hits_with(&tag(key)), 1, "key {key}");
    }
    // No script was left half-done: the sets hold the records and nothing else.
    let sets = ["f", "c", "t"].map(|set| {
        cluster.nodes[to].command::<u32>(&format!("ZCARD onceward:quota:{DOMAIN}:{set}"))
    });
    assert_eq!(sets, [0, tried as u32, 0]);
}

#[tokio::test]
async fn sentinels_lead_to_the_new_primary_without_a_restart() {
    let upstream = Upstream::start().await;
    let (primary, replica) = super::loss::pair();
    let sentinel = RedisServer::sentinel(&primary);
    eventually("the sentinel to know the replica", || async {
        let known: String = sentinel.command("INFO sentinel");
        known.contains("slaves=1").then_some(())
    })
    .await;
    let url = format!("\"redis+sentinel://127.0.0.1:{}/main\"", sentinel.port());
    let setup = super::waiting(&upstream, &primary, "3s").set("store", "url", &url);
    let gateway = setup.set("store", "wait_replicas", "0").start().await;
    let first = gateway.send(&numbered(1)).await;
    first.assert_first();
    // What the replica has not got may be lost, so it is given time to get it.
    eventually("the replica to have the reply", || async {
        (replica.command::<u32>("DBSIZE") == primary.command::<u32>("DBSIZE")).then_some(())
    })
    .await;
    primary.signal("KILL");
    eventually("the new primary to be found", || async {
        (gateway.send(&numbered(2)).await.status == 200).then_some(())
    })
    .await;
    assert!(replica.command::<String>("INFO replication").contains("role:master"));
    gateway.send(&numbered(1)).await.assert_replays(&first);
    assert_eq!((upstream.hits_with(&tag(1)), upstream.hits_with(&tag(2))), (1, 1));
}
