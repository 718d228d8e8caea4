//! A rendered document of the platform, with every field that it has, loads unchanged.

use super::{LOOPBACK, load};
use crate::policy::*;

const RENDERED: &str = r#"{
  "schema_version": "v1",
  "revision": "sha256:0c7d",
  "generated_at": "2026-01-02T03:04:05Z",
  "server": {
    "name": "files", "namespace": "mcp-servers", "uid": "3f6c1c9e-5a0e-4d0c-9d8e-0e2b7d1f7a11",
    "team_id": "team-acme", "cluster": "prod-eu"
  },
  "auth": {
    "mode": "header", "human_id_header": "X-MCP-Human-ID", "agent_id_header": "X-MCP-Agent-ID",
    "team_id_header": "X-MCP-Team-ID", "session_id_header": "X-MCP-Agent-Session",
    "token_header": "Authorization", "issuer_url": "", "audience": ""
  },
  "policy": {
    "mode": "allow-list", "default_decision": "deny", "enforce_on": "call_tool",
    "policy_version": "v1"
  },
  "session": {
    "required": true, "store": "kubernetes", "header_name": "X-MCP-Agent-Session",
    "max_lifetime": "24h", "idle_timeout": "1h", "upstream_token_header": ""
  },
  "tools": [
    {"name": "read-file", "description": "Read a file", "required_trust": "low",
     "side_effect": "read", "risk_level": "low", "labels": {"category": "filesystem"}},
    {"name": "write-file", "description": "Write a file", "required_trust": "HIGH",
     "side_effect": "Write", "risk_level": "", "labels": null}
  ],
  "grants": [
    {"name": "developers", "namespace": "mcp-servers", "human_id": "user@example.com",
     "agent_id": "", "team_id": "team-acme", "max_trust": "high",
     "allowed_side_effects": ["read", "write"], "policy_version": "v1", "disabled": false,
     "tool_rules": [
       {"name": "read-file", "decision": "allow", "required_trust": "low"},
       {"name": "write-file", "decision": "", "required_trust": ""}
     ]},
    {"name": "agents", "agent_id": "agent-123", "max_trust": "medium",
     "allowed_side_effects": ["read"], "disabled": true, "tool_rules": []}
  ],
  "sessions": [
    {"name": "session-1", "namespace": "mcp-servers", "human_id": "user@example.com",
     "agent_id": "agent-123", "team_id": "team-acme", "consented_trust": "high",
     "revoked": false, "expires_at": "2027-01-02T03:04:05Z", "policy_version": "v1",
     "upstream_token_ref": "upstream-token/key"}
  ]
}"#;

/// The one field that this gateway needs beside the platform's.
fn with_upstream(rendered: &str) -> String {
    rendered.replace(r#""name": "files","#, r#""name": "files", "upstream": "http://files:8080/","#)
}

#[test]
fn every_field_of_the_platform_is_accepted() {
    let set = PolicySet::from_text("p.json", &with_upstream(RENDERED), LOOPBACK)
        .unwrap_or_else(|errors| panic!("{errors}"));
    let server = set.server("/mcp").expect("at the default path");
    assert_eq!(server.uid.as_deref(), Some("3f6c1c9e-5a0e-4d0c-9d8e-0e2b7d1f7a11"));
    assert_eq!(
        (server.team_id.as_deref(), server.cluster.as_deref()),
        (Some("team-acme"), Some("prod-eu"))
    );
    let write = server.tool("write-file").expect("listed");
    assert_eq!((write.required_trust, write.side_effect), (Trust::High, Some(SideEffect::Write)));
    assert_eq!((server.grants.len(), server.grants.disabled()), (1, 1));
    let session = server.session("session-1").expect("listed");
    assert_eq!(session.expires_at, Some("2027-01-02T03:04:05Z".parse().expect("a time")));
}

#[test]
fn a_platform_document_is_yaml_too() {
    assert!(load(&with_upstream(RENDERED)).is_ok());
}

#[test]
fn an_upstream_credential_is_refused_rather_than_forgotten() {
    let text = with_upstream(RENDERED)
        .replace(r#""upstream_token_header": """#, r#""upstream_token_header": "X-Token""#);
    let message = PolicySet::from_text("p.json", &text, LOOPBACK).expect_err("refused").to_string();
    assert!(message.contains("session.upstream_token_header"), "{message}");
}
