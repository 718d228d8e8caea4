//! What a tool declares of its effect, and what follows from it (EFFECTS).

mod attempts;
mod brokers;
mod capability;
mod crash;
mod effective_key;
mod native;
mod propagation;
mod receipts;
mod redispatch;
mod vendor;
mod workspace;

use crate::support::{Gateway, Policy, Request, Response, Setup, Upstream, pay, sha256_hex};
use serde_json::{Value, json};

/// A gateway in front of an upstream whose `pay` declares an effect.
struct World {
    upstream: Upstream,
    gateway: Gateway,
}

impl World {
    async fn start(effect: Value) -> Self {
        Self::with(|policy| declare(policy, effect.clone())).await
    }

    async fn with(change: impl Fn(Policy) -> Policy) -> Self {
        let upstream = Upstream::start().await;
        let gateway = Setup::new(&upstream).policy(change).start().await;
        Self { upstream, gateway }
    }

    async fn pay(&self, key: &str) -> Response {
        self.gateway.call(key, pay()).await
    }

    /// The one receipt that there is.
    async fn receipt(&self) -> Value {
        let receipts = receipts(&self.gateway, "").await;
        assert_eq!(receipts.len(), 1, "{receipts:?}");
        receipts[0].clone()
    }

    /// Fails the test unless the one receipt counts what the upstream received, with these results.
    async fn assert_counted(&self, outcome: &str, results: &[Value]) {
        let receipt = self.receipt().await;
        assert_eq!(receipt["outcome"], outcome, "{receipt}");
        assert_eq!(receipt["attempt_count"], self.upstream.hits(), "{receipt}");
        assert_eq!(results_of(&receipt), results, "{receipt}");
    }
}

/// The policy with an effect of `pay`.
fn declare(policy: Policy, effect: Value) -> Policy {
    policy.with(|document| document["tools"][0]["effect"] = effect)
}

/// An effect whose vendor dedupes by a header.
fn by_header(extra: &Value) -> Value {
    with_members(
        json!({"side_effect": "write", "idempotency": {"header": "Idempotency-Key"}}),
        extra,
    )
}

fn with_members(mut object: Value, extra: &Value) -> Value {
    for (name, value) in extra.as_object().expect("an object") {
        object[name] = value.clone();
    }
    object
}

/// Receipts, newest first: of one page where the query says how many, else of all.
async fn receipts(gateway: &Gateway, query: &str) -> Vec<Value> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = gateway.admin(&format!("/v1/receipts?{query}{after}")).await;
        assert_eq!(page.status, 200, "{}", page.text());
        let page = page.json();
        found.extend(page["receipts"].as_array().expect("a list").clone());
        match page["next"].as_str() {
            Some(next) if !query.contains("limit") => after = format!("&after={next}"),
            _ => return found,
        }
    }
}

/// How the attempts of a receipt ended.
fn results_of(receipt: &Value) -> Vec<Value> {
    let attempts = receipt["attempts"].as_array().expect("attempts");
    for (attempt, number) in attempts.iter().zip(1..) {
        assert_eq!(attempt["number"], number, "{receipt}");
    }
    attempts.iter().map(|attempt| attempt["end"]["result"].clone()).collect()
}

/// The vendor key of a call of alice's at the default policy, by the published definition.
fn vendor_key(subject: [&str; 3], key: &str) -> String {
    let fields = |fields: &[&[u8]]| {
        let mut bytes = Vec::new();
        for field in fields {
            bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
            bytes.extend_from_slice(field);
        }
        sha256_hex(&bytes)
    };
    let [human, agent, team] = subject.map(str::as_bytes);
    let uid: &[u8] = b"uid-payments";
    let slot = fields(&[b"onceward.session.v1", human, agent, team, b"", uid, key.as_bytes(), b""]);
    let slot: Vec<u8> = (0..slot.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&slot[at..at + 2], 16).expect("hex"))
        .collect();
    format!("idt_{}", &fields(&[b"onceward.vendor.v1", &slot, uid])[..32])
}

/// The default policy's two callers.
const ALICE: [&str; 3] = ["alice", "agent-a", "team-a"];
const BOB: [&str; 3] = ["bob", "agent-b", "team-b"];

/// A call of `pay` with these arguments as JSON text.
fn pay_with(arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"pay","arguments":{arguments}}}}}"#
    )
}

fn unkeyed() -> Request {
    Request::post(pay())
}
