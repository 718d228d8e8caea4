//! Policy documents.

use super::message::{TOKEN_A, TOKEN_B, sha256_hex};
use serde_json::{Value, json};

/// One server's policy document.
#[derive(Clone)]
pub struct Policy(pub Value);

impl Policy {
    /// Two principals with API keys, alice (A) and bob (B), who may call `pay`, `refund`, `read`
    /// and `ping`.
    pub fn new(upstream: &str) -> Self {
        Self(json!({
            "schema_version": "v1",
            "server": {
                "name": "payments",
                "namespace": "test",
                "uid": "uid-payments",
                "path": "/mcp",
                "upstream": upstream,
            },
            "auth": {"mode": "api_key", "api_keys": [
                {
                    "id": "a", "sha256": sha256_hex(TOKEN_A.as_bytes()),
                    "human_id": "alice", "agent_id": "agent-a", "team_id": "team-a",
                },
                {
                    "id": "b", "sha256": sha256_hex(TOKEN_B.as_bytes()),
                    "human_id": "bob", "agent_id": "agent-b", "team_id": "team-b",
                },
            ]},
            "policy": {
                "mode": "allow-list", "default_decision": "deny", "policy_version": "1",
            },
            "session": {"required": false},
            "tools": [
                {"name": "pay", "required_trust": "low", "side_effect": "write"},
                {"name": "refund", "required_trust": "low", "side_effect": "write"},
                {"name": "read", "required_trust": "low", "side_effect": "read"},
                {"name": "ping", "required_trust": "low", "side_effect": "read"},
            ],
            "grants": [grant("grant-a", "alice"), grant("grant-b", "bob")],
            "sessions": [],
            "idempotency": {},
        }))
    }

    /// The same for another server: its name, uid and path.
    pub fn at(self, name: &str) -> Self {
        self.with(|document| {
            document["server"]["name"] = json!(name);
            document["server"]["uid"] = json!(format!("uid-{name}"));
            document["server"]["path"] = json!(format!("/mcp/{name}"));
        })
    }

    /// The document with a change.
    pub fn with(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.0);
        self
    }

    /// The document with a member of its `idempotency` set.
    pub fn idempotency(self, name: &str, value: Value) -> Self {
        self.with(|document| document["idempotency"][name] = value)
    }
}

/// A grant of everything to a human.
pub fn grant(name: &str, human: &str) -> Value {
    json!({
        "name": name, "namespace": "test", "human_id": human, "max_trust": "high",
        "allowed_side_effects": ["read", "write", "destructive"],
    })
}

/// A session binding of a human.
pub fn session(name: &str, human: &str) -> Value {
    json!({"name": name, "namespace": "test", "human_id": human, "consented_trust": "high"})
}
