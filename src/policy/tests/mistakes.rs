//! What a document must not say, and how its refusal names the place.

use super::{document, refusal, server};

/// Each line of YAML after the smallest document, and what its refusal must say.
const REFUSED: &[(&str, &[&str])] = &[
    // Unknown fields, with line, column and path.
    ("grants:\n  - name: g\n    tool_ruls: []\n", &["policy.yaml:8:", "grants[0]", "tool_ruls"]),
    ("colour: red\n", &["policy.yaml:6:1", "colour"]),
    (
        "auth: { mode: api_key, api_keys: [{ id: a, secret: s3cr3t }] }\n",
        &["api_keys[0]", "`secret`"],
    ),
    // What this build does not have.
    ("auth: { token_header: X-Token }\n", &["auth.token_header", "not supported by this build"]),
    ("tools: [{ name: t, approval: required }]\n", &["tools[0].approval", "not supported"]),
    // Documents of other kinds have other fields.
    ("kind: connector\n", &["unknown field `server`"]),
    ("kind: grant\n", &["kind", "`connector`, `capability` or `workspace`"]),
    // Words.
    ("policy: { mode: enforce }\n", &["policy.mode", "`allow-list` or `observe`"]),
    ("policy: { default_decision: maybe }\n", &["policy.default_decision", "`allow` or `deny`"]),
    (
        "tools: [{ name: t, required_trust: max }]\n",
        &["tools[0].required_trust", "`low` or `medium` or `high`"],
    ),
    ("tools: [{ name: t, side_effect: wipe }]\n", &["tools[0].side_effect", "`destructive`"]),
    (
        "grants: [{ name: g, allowed_side_effects: [''] }]\n",
        &["grants[0].allowed_side_effects", "`read`"],
    ),
    (
        "grants: [{ name: g, tool_rules: [{ name: t, decision: ask }] }]\n",
        &["tool_rules[0].decision"],
    ),
    ("session: { required: yes }\n", &["session.required", "bool"]),
    // Values.
    ("  path: mcp\n", &["server.path", "start with `/`"]),
    ("  path: /a b\n", &["server.path"]),
    ("  path: '/a?b'\n", &["server.path"]),
    ("  path: /{id}\n", &["server.path"]),
    ("  namespace: a b\n", &["server.namespace"]),
    ("session: { header_name: 'a b' }\n", &["session.header_name", "not a valid HTTP header name"]),
    ("session: { header_name: Idempotency-Key }\n", &["session.header_name", "taken"]),
    ("session: { header_name: Mcp-Session-Id }\n", &["session.header_name", "taken"]),
    ("idempotency: { key_pointers: [params] }\n", &["key_pointers[0]", "begin with `/`"]),
    ("idempotency: { key_pointers: [''] }\n", &["key_pointers[0]"]),
    ("idempotency: { key_pointers: [/a, /a] }\n", &["key_pointers[1]", "twice"]),
    ("idempotency: { keys: off, key_pointers: [/a] }\n", &["key_pointers", "`keys: off`"]),
    ("sessions: [{ name: s, expires_at: tomorrow }]\n", &["sessions[0].expires_at", "RFC 3339"]),
    // Names that come twice or not at all.
    ("tools: [{ name: t }, { name: t }]\n", &["tools[1].name", "already used"]),
    ("tools: [{ name: '' }]\n", &["tools[0].name", "empty"]),
    ("grants: [{ name: g }, { name: g }]\n", &["grants[1].name", "already used"]),
    ("grants: [{ name: '' }]\n", &["grants[0].name", "empty"]),
    (
        "grants: [{ name: g, tool_rules: [{ name: t }, { name: t }] }]\n",
        &["grants[0].tool_rules[1].name"],
    ),
    ("sessions: [{ name: s }, { name: s }]\n", &["sessions[1].name", "already used"]),
    ("sessions: [{ name: '' }]\n", &["sessions[0].name", "empty"]),
    // What YAML would let through.
    ("policy: { mode: observe }\npolicy: { mode: observe }\n", &["policy.yaml:7:1", "duplicate"]),
    ("tools: [{ name: t, labels: { a: x, a: y } }]\n", &["duplicate"]),
    ("policy: { <<: { mode: observe } }\n", &["merge"]),
    ("tools: [{ name: !secret t }]\n", &["tag"]),
    ("---\nschema_version: v1\n", &["policy.yaml"]),
    // Mode `oauth`.
    ("auth: { issuer_url: 'https://i' }\n", &["auth.issuer_url", "needs `mode: oauth`"]),
    ("auth: { audience: a }\n", &["auth.audience", "needs `mode: oauth`"]),
    ("auth: { resource: 'https://a' }\n", &["auth.resource", "needs `mode: oauth`"]),
    ("auth: { scopes: [a] }\n", &["auth.scopes", "needs `mode: oauth`"]),
    ("auth: { algorithms: [ES256] }\n", &["auth.algorithms", "needs `mode: oauth`"]),
    ("auth: { leeway: 1s }\n", &["auth.leeway", "needs `mode: oauth`"]),
    ("auth: { claims: { human: [sub] } }\n", &["auth.claims", "needs `mode: oauth`"]),
    (
        "auth: { introspection: { client_id: c, client_secret: env:CARGO_PKG_NAME } }\n",
        &["auth.introspection", "needs `mode: oauth`"],
    ),
    ("auth: { mode: oauth }\n", &["auth.issuer_url", "required"]),
    ("auth: { mode: oauth, issuer_url: 'https://i', human_id: h }\n", &["auth.human_id"]),
    ("auth: { mode: oauth, issuer_url: 'https://i' }\n", &["auth.audience", "any other server"]),
    ("auth: { mode: oauth, issuer_url: 'http://i', audience: a }\n", &["auth.issuer_url", "https"]),
    (
        "auth: { mode: oauth, issuer_url: 'https://u:s3cr3t@i', audience: a }\n",
        &["auth.issuer_url", "password"],
    ),
    ("auth: { mode: oauth, issuer_url: 'https://i?x', audience: a }\n", &["auth.issuer_url"]),
    (
        "auth: { mode: oauth, issuer_url: 'https://i', resource: /mcp }\n",
        &["auth.resource", "absolute"],
    ),
    ("auth: { OAUTH, scopes: ['a b'] }\n", &["auth.scopes[0]"]),
    ("auth: { OAUTH, scopes: ['a\"b'] }\n", &["auth.scopes[0]"]),
    ("auth: { OAUTH, scopes: [a, a] }\n", &["auth.scopes[1]", "twice"]),
    ("auth: { OAUTH, algorithms: [HS256] }\n", &["auth.algorithms", "`RS256`"]),
    ("auth: { OAUTH, algorithms: [none] }\n", &["auth.algorithms", "`RS256`"]),
    ("auth: { OAUTH, leeway: 6m }\n", &["auth.leeway", "at most 300s"]),
    ("auth: { OAUTH, leeway: 5 }\n", &["auth.leeway"]),
    ("auth: { OAUTH, claims: { human: [''] } }\n", &["auth.claims.human[0]"]),
    (
        "auth: { OAUTH, claims: { human: [], agent: [], team: [] } }\n",
        &["auth.claims", "one part of the principal"],
    ),
    (
        "auth: { OAUTH, introspection: { client_id: c, client_secret: s3cr3t } }\n",
        &["auth.introspection.client_secret", "`env:NAME` or `file:PATH`"],
    ),
    (
        "auth: { OAUTH, introspection: { client_id: c, client_secret: '' } }\n",
        &["auth.introspection.client_secret", "`env:NAME` or `file:PATH`"],
    ),
    (
        "auth: { OAUTH, introspection: { client_id: '', client_secret: env:CARGO_PKG_NAME } }\n",
        &["auth.introspection.client_id"],
    ),
    (
        "auth: { OAUTH, introspection: { client_id: c, client_secret: env:CARGO_PKG_NAME, \
         endpoint: 'http://i' } }\n",
        &["auth.introspection.endpoint", "https"],
    ),
    (
        "auth: { OAUTH, introspection: { client_id: c, client_secret: env:CARGO_PKG_NAME, cache: 1h } }\n",
        &["auth.introspection.cache", "at most 300s"],
    ),
    // The upstream's credential.
    (
        "session: { upstream_token_header: X-Up }\n",
        &["session.upstream_token_header", "`session.upstream_token`"],
    ),
    (
        "session: { upstream_token: s3cr3t }\n",
        &["session.upstream_token", "`env:NAME` or `file:PATH`"],
    ),
    ("session: { upstream_token: { env: s3cr3t } }\n", &["session.upstream_token", "string"]),
    (
        "session: { upstream_token: env:ONCEWARD_TEST_UNSET }\n",
        &["session.upstream_token", "env:ONCEWARD_TEST_UNSET: the environment variable is not set"],
    ),
    (
        "session: { upstream_token_header: Host, upstream_token: env:CARGO_PKG_NAME }\n",
        &["session.upstream_token_header", "taken"],
    ),
    (
        "session: { upstream_token_header: Transfer-Encoding, upstream_token: env:CARGO_PKG_NAME }\n",
        &["session.upstream_token_header", "taken"],
    ),
    (
        "session: { upstream_token_header: X-S, header_name: X-S, upstream_token: env:CARGO_PKG_NAME }\n",
        &["session.header_name", "credential"],
    ),
    // Authentication. A secret in the wrong place must not be quoted.
    ("auth: { mode: api_key, api_keys: s3cr3t }\n", &["auth.api_keys", "sequence"]),
    ("auth: { mode: api_key, api_keys: [s3cr3t] }\n", &["auth.api_keys[0]", "expected"]),
    ("auth: { mode: api_key, api_keys: [{ id: a, sha256: [s3cr3t] }] }\n", &["api_keys[0].sha256"]),
    ("auth: s3cr3t\n", &["auth", "expected"]),
    ("auth: { mode: api_key }\n", &["auth.api_keys", "at least one"]),
    (
        "auth: { api_keys: [{ id: a, sha256: DIGEST, human_id: h }] }\n",
        &["auth.api_keys", "mode: api_key"],
    ),
    ("auth: { mode: static }\n", &["auth", "at least one of"]),
    ("auth: { mode: static, human_id: 'two words' }\n", &["auth", "`human_id`", "visible ASCII"]),
    ("auth: { human_id: h }\n", &["auth.human_id", "mode: static"]),
    (
        "auth: { mode: api_key, api_keys: [{ id: a, sha256: DIGEST }] }\n",
        &["api_keys[0]", "at least one of"],
    ),
    (
        "auth: { mode: api_key, api_keys: [{ id: '', sha256: DIGEST, human_id: h }] }\n",
        &["api_keys[0].id"],
    ),
    (
        "auth: { mode: api_key, api_keys: [{ id: a, sha256: s3cr3t, human_id: h }] }\n",
        &["api_keys[0].sha256", "64 hex"],
    ),
    (
        "auth: { mode: api_key, api_keys: [{ id: a, sha256: DIGEST, human_id: h }, { id: a, sha256: OTHER, human_id: h }] }\n",
        &["api_keys[1].id", "already used"],
    ),
    (
        "auth: { mode: api_key, api_keys: [{ id: a, sha256: DIGEST, human_id: h }, { id: b, sha256: DIGEST, human_id: h }] }\n",
        &["api_keys[1].sha256", "already used"],
    ),
];

#[test]
fn each_mistake_is_refused_with_its_place() {
    for (yaml, expected) in REFUSED {
        let yaml = yaml.replace("DIGEST", &"ab".repeat(32)).replace("OTHER", &"cd".repeat(32));
        let yaml = yaml.replace("OAUTH", "mode: oauth, issuer_url: 'https://i', audience: a");
        let message = refusal(&document(&yaml));
        for part in *expected {
            assert!(message.contains(part), "{yaml}: `{message}` should name `{part}`");
        }
        assert!(!message.contains("s3cr3t"), "a value leaked: {message}");
    }
}

#[test]
fn all_mistakes_of_a_document_are_named_at_once() {
    let message = refusal(&document(
        "  path: mcp\ntools: [{ name: t }, { name: t }]\nsession: { header_name: host }\n",
    ));
    for field in ["server.path", "tools[1].name", "session.header_name"] {
        assert!(message.contains(field), "{message}");
    }
    assert_eq!(message.lines().count(), 3);
}

#[test]
fn the_required_fields_are_required() {
    for (text, expected) in [
        ("server: { name: a, upstream: 'http://h' }\n", "schema_version"),
        ("schema_version: v2\nserver: { name: a, upstream: 'http://h' }\n", "must be `v1`"),
        ("schema_version: v1\n", "server"),
        ("schema_version: v1\nserver: { name: a }\n", "upstream"),
        ("schema_version: v1\nserver: { upstream: 'http://h' }\n", "name"),
        ("schema_version: v1\nserver: { name: '', upstream: 'http://h' }\n", "server.name"),
        ("schema_version: v1\nserver: { name: a, uid: a/b, upstream: 'http://h' }\n", "server.uid"),
        ("", "policy.yaml"),
    ] {
        let message = refusal(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
    assert_eq!(
        server("schema_version: v1\nserver: { name: a, upstream: 'http://h' }\n").uid,
        None,
        "a document without a uid loads"
    );
    assert_eq!(
        server("schema_version: v1\nserver: { name: a, uid: 'A-z_0.9:', upstream: 'http://h' }\n")
            .uid
            .as_deref(),
        Some("A-z_0.9:")
    );
}
