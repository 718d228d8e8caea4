//! The contract of the policy floor, by capability.

mod authorize;
mod brokers;
mod documents;
mod effects;
mod folders;
mod keys;
mod mistakes;
mod mtls;
mod native;
mod oauth;
mod platform;
mod schemas;
mod sessions;
mod watch;

use super::{LoadContext, PolicyErrors, PolicySet};

const LOOPBACK: LoadContext = LoadContext { loopback: true, client_ca: true };
const PUBLIC: LoadContext = LoadContext { loopback: false, client_ca: true };

/// A vendor with one tool.
const VENDOR: &str = "schema_version: v1
kind: connector
name: vendor
base_url: http://127.0.0.1:9
tools:
  - name: look
    input_schema: { type: object }
    request: { method: GET, path: /look }
    effect: { side_effect: read }
";

/// A workspace with one key, and an account at that vendor.
fn workspace() -> String {
    format!(
        "schema_version: v1\nkind: workspace\nid: acme\n\
         api_keys: [{{ id: k, sha256: {}, human_id: ann }}]\n\
         connections: [{{ id: main, connector: vendor }}]\n",
        "ab".repeat(32)
    )
}

/// A server of the vendor's tools; `mode` ends the table of `auth`.
fn vendor_server(mode: &str, idempotency: &str) -> String {
    format!(
        "schema_version: v1\nserver: {{ name: s, uid: u, connectors: [vendor] }}\n\
         auth: {{ mode: {mode}\nidempotency: {{ {idempotency} }}\n"
    )
}

/// The smallest document, with more YAML after it.
fn document(more: &str) -> String {
    format!(
        "schema_version: v1\nserver:\n  name: payments\n  uid: uid-1\n  upstream: http://127.0.0.1:9/mcp\n{more}"
    )
}

fn load(text: &str) -> Result<PolicySet, PolicyErrors> {
    PolicySet::from_text("policy.yaml", text, LOOPBACK)
}

/// The only server of a document that must load.
fn server(text: &str) -> std::sync::Arc<super::ServerPolicy> {
    let set = load(text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    set.servers().next().expect("one server").clone()
}

/// Every line of YAML is refused after the smallest document, and says each of its texts.
#[track_caller]
fn assert_refused(lines: &[(&str, &[&str])]) {
    for (yaml, expected) in lines {
        let message = refusal(&document(yaml));
        for part in *expected {
            assert!(message.contains(part), "{yaml}: `{message}` should name `{part}`");
        }
    }
}

/// What a document that must not load is refused for.
fn refusal(text: &str) -> String {
    match load(text) {
        Ok(_) => panic!("should be refused:\n{text}"),
        Err(errors) => errors.to_string(),
    }
}
