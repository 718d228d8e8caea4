//! What `check` says of files on disk.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

const CONFIG: &str = "[policy]\npath = \"policy.yaml\"\n";
const POLICY: &str = "schema_version: v1
server: { name: pay, namespace: bank, uid: u-1, upstream: 'http://up:9/mcp?token=s3cr3t' }
auth: { mode: api_key, api_keys: [{ id: k, sha256: DIGEST, human_id: ann }] }
tools: [{ name: charge, side_effect: write }]
grants: [{ name: g, human_id: ann, allowed_side_effects: [write] }, { name: h, disabled: true }]
sessions: [{ name: s, human_id: ann }]
idempotency: { fingerprint: call, key_pointers: [/params/key] }
";

struct Files(tempfile::TempDir);

impl Files {
    fn new(config: &str, policy: &str) -> Self {
        let files = Self(tempfile::tempdir().expect("a folder"));
        files.write("onceward.toml", config);
        files.write("policy.yaml", &policy.replace("DIGEST", &"ab".repeat(32)));
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    fn check(&self) -> Result<Report, String> {
        check(&self.path("onceward.toml"), []).map_err(|errors| {
            assert!(!errors.is_empty());
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        })
    }
}

#[test]
fn a_good_configuration_is_shown_whole_and_without_secrets() {
    let token = format!("[admin]\ntoken_sha256 = \"{}\"\n", "cd".repeat(32));
    let report = Files::new(&format!("{CONFIG}{token}"), POLICY).check().expect("good");
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    let text = report.to_string();
    for part in [
        "127.0.0.1:8080",
        "127.0.0.1:8081, with a token",
        "drain: 30s",
        "memory",
        "replies 5m",
        "256 in all, 64 a principal, 32 a scope",
        "32 in all, 8 a principal, 4 a scope",
        "reply 32768 bytes, request 1048576 bytes",
        "connect 2s, response 1m, idle 1m",
        "opens after 5 failures, for 30s",
        "policy.yaml, read every 5s",
        "sha256:",
        "server pay",
        "bank",
        "u-1",
        "/mcp to http://up:9/mcp?…",
        "api_key (keys: 1)",
        "allow-list, default deny",
        "optional, in x-mcp-agent-session",
        "tools: 1, grants: 1 (disabled: 1), sessions: 1",
        "optional, format any, fingerprint call, streams tombstone",
        "/params/key",
    ] {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
    for secret in ["s3cr3t", "abab", "cdcd"] {
        assert!(!text.contains(secret) && !format!("{report:?}").contains(secret), "{secret}");
    }
}

#[test]
fn mode_oauth_is_shown_with_its_secrets_left_where_they_are() {
    let policy = "schema_version: v1
server: { name: pay, uid: u-1, upstream: 'http://up:9/mcp' }
auth:
  mode: oauth
  issuer_url: https://as.example
  resource: https://gw.example/mcp
  scopes: [mcp:call]
  introspection: { client_id: gateway, client_secret: file:secret }
session: { upstream_token_header: X-Api-Key, upstream_token: file:secret }
grants: [{ name: g, human_id: ann, allowed_side_effects: [write] }]
";
    let files = Files::new(CONFIG, policy);
    assert!(files.check().expect_err("no secret").contains("client_secret: file:"));
    files.write("secret", "s3cr3t\n");
    let report = files.check().expect("good");
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    let text = report.to_string();
    for part in [
        "oauth, tokens of https://as.example",
        "audience    https://gw.example/mcp",
        "https://gw.example/.well-known/oauth-protected-resource/mcp",
        "scopes      mcp:call",
        "RS256, PS256, ES256, EdDSA, leeway 30s",
        "human sub, agent client_id or azp, team team_id",
        "asked at the issuer as gateway (secret: file",
        "kept 30s",
        "x-api-key, from file",
    ] {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
    assert!(!text.contains("s3cr3t") && !format!("{report:?}").contains("s3cr3t"));
}

#[test]
fn tls_and_certificates_are_shown_without_the_key() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let pem = |label: &str, der: &[u8]| {
        let body = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, der);
        format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
    };
    let tls = "[listen]\nallowed_hosts = [\"mcp.example.com\"]\n[listen.tls]\ncert = \"c.pem\"\n\
               key = \"k.pem\"\nclient_ca = \"c.pem\"\nmax_handshakes = 9\n";
    let auth = "auth: { mode: mtls, trust_domain: example.org, \
                ingress_spiffe_id: 'spiffe://example.org/edge' }\n";
    let policy = POLICY.lines().map(|line| match line.starts_with("auth:") {
        true => auth.to_owned(),
        false => format!("{line}\n"),
    });
    let files = Files::new(&format!("{CONFIG}{tls}"), &policy.collect::<String>());
    assert!(files.check().expect_err("no files").contains("c.pem: cannot be read"));
    files.write("c.pem", &pem("CERTIFICATE", made.cert.der()));
    let key = pem("PRIVATE KEY", &made.signing_key.serialize_der());
    files.write("k.pem", &key);
    let report = files.check().expect("good");
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    let text = report.to_string();
    for part in [
        "hosts       mcp.example.com",
        "c.pem with ",
        "k.pem, read every 5s",
        "until 4096-01-01T00:00:00Z",
        "handshakes  9 at a time, 5s each",
        "clients     certificates of ",
        "auth        mtls (trust domain: example.org)",
        "ingress     spiffe://example.org/edge, in x-mcp-verified-spiffe-id",
    ] {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
    let secret = key.lines().nth(1).expect("a line");
    assert!(!text.contains(secret) && !format!("{report:?}").contains(secret));

    let own = rcgen::KeyPair::generate().expect("a key");
    let mut past = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
    past.not_after = rcgen::date_time_ymd(2020, 1, 1);
    files.write("c.pem", &pem("CERTIFICATE", past.self_signed(&own).expect("made").der()));
    files.write("k.pem", &pem("PRIVATE KEY", &own.serialize_der()));
    let warnings = files.check().expect("good").warnings.join("\n");
    assert!(warnings.contains("has ended"), "{warnings}");

    files.write("k.pem", &key[..key.len() / 2]);
    assert!(files.check().expect_err("torn").contains("k.pem: holds no private key"));
}

#[test]
fn every_mistake_is_named_with_its_file() {
    let config = format!("{CONFIG}[sessions]\npath = \"sessions.json\"\n");
    let files = Files::new(&config, &format!("{POLICY}colour: red\n"));
    files.write("sessions.json", "[");
    let message = files.check().expect_err("two mistakes");
    for part in ["policy.yaml:8:1: colour", "sessions.json:1:2"] {
        assert!(message.contains(part), "{message}");
    }
    files.write("onceward.toml", "[policy]\npath = \"policy.yaml\"\npoll = 1\n");
    let message = files.check().expect_err("one mistake");
    assert!(message.contains("onceward.toml: line 3: unknown key `policy.poll`"), "{message}");
    fs::remove_file(files.path("onceward.toml")).expect("removed");
    let message = files.check().expect_err("no file");
    assert_eq!(message.matches("onceward.toml").count(), 1, "{message}");
}

#[test]
fn a_policy_that_is_missing_fails() {
    let files = Files::new(CONFIG, POLICY);
    fs::remove_file(files.path("policy.yaml")).expect("removed");
    assert!(files.check().expect_err("missing").contains("policy.yaml: cannot be read"));
}

#[test]
fn what_is_hardly_meant_is_a_warning() {
    let server = |more: &str| {
        format!("schema_version: v1\nserver: {{ name: s, upstream: 'http://h' }}\n{more}")
    };
    let warned = |config: &str, policy: &str| {
        let report = Files::new(config, policy).check().expect(policy);
        assert!(report.to_string().contains(&format!("warning: {}", report.warnings[0])));
        report.warnings.join("\n")
    };
    for (more, expected) in [
        ("", "server s: has no `server.uid`"),
        ("", "`idempotency_requires_verified_identity`"),
        ("", "no grant names anybody"),
        ("auth: { mode: none }\n", "`missing_identity`"),
        ("policy: { mode: observe }\n", "`observe` allows every call"),
        ("policy: { default_decision: allow }\n", "default decision is `allow`"),
        ("grants: [{ name: g }]\n", "names nobody"),
        ("session: { required: true }\n", "a session is required"),
        ("tools: [{ name: b }, { name: a }]\n", "cannot be granted: a, b"),
        ("auth: { mode: oauth, issuer_url: 'https://i', audience: a }\n", "no `auth.resource`"),
        (
            "auth: { mode: static, human_id: a }\nidempotency: { keys: always }\n",
            "every tools/call",
        ),
        (
            "tools: [{ name: t, effect: { side_effect: write, environment: e } }]\n",
            "vendor does not dedupe: after a lost reply only a look at the vendor's own state helps: t",
        ),
        (
            "policy: { deny_unsupported_writes: [e] }\n\
             tools: [{ name: t, effect: { side_effect: write, environment: e } }]\n",
            "refuses every call: t",
        ),
        (
            "policy: { deny_unsupported_writes: [e] }\n\
             tools: [{ name: t, effect: { environment: e } }]\n",
            "cannot judge, for they have no `side_effect`: t",
        ),
        (
            "policy: { deny_unsupported_writes: [f, e] }\n\
             tools: [{ name: t, effect: { environment: E } }]\n",
            "no tool has as environment: e, f",
        ),
        ("tools: [{ name: t, effect: { retryable: [503] } }]\n", "`retryable` has no effect"),
        (
            "idempotency: { keys: off }\n\
             tools: [{ name: t, effect: { idempotency: { header: X-Key } } }]\n",
            "the server takes no keys: t",
        ),
        ("tools: [{ name: t, effect: { accepted: [] } }]\n", "`accepted` is empty: t"),
        (
            "idempotency: { key_pointers: [/params/arguments/k] }\ntools: [{ name: t, \
             effect: { idempotency: { body_pointer: /params/arguments/k } } }]\n",
            "take it out of `idempotency.key_pointers`: t",
        ),
        (
            "auth: { mode: oauth, issuer_url: 'https://i', audience: a, \
             claims: { human: [], agent: [] } }\n",
            "shares its keys",
        ),
    ] {
        let text = warned(CONFIG, &server(more));
        assert!(text.contains(expected), "{more}: {text}");
    }
    let public = format!("{CONFIG}[listen]\nmcp = \"0.0.0.0:8080\"\n");
    assert!(warned(&public, POLICY).contains("`[listen] mcp` is not loopback"));
    let later = format!("{CONFIG}[sessions]\npath = \"later.json\"\n");
    assert!(warned(&later, POLICY).contains("later.json does not exist yet"));
    let off = warned(CONFIG, &server("idempotency: { keys: off }\n"));
    assert!(!off.contains("uid") && !off.contains("verifies"), "{off}");
}

#[test]
fn effects_and_brokers_are_shown_without_values() {
    let broker = |retries_off: &str| {
        let policy = POLICY.replace(
            "/mcp?token=s3cr3t' }",
            &format!("/', broker: true, retries_off: {retries_off} }}"),
        );
        Files::new(CONFIG, &policy).check().expect(retries_off).to_string()
    };
    for (switch, expected) in [
        ("none_exist", "broker      it has no retries of its own\n"),
        ("{ header: { name: X-R, value: s3cr3t } }", "broker      retries off by header x-r\n"),
        ("{ query: { name: r, value: s3cr3t } }", "broker      retries off by query r\n"),
        (
            "{ body: { pointer: /params/r, value: s3cr3t } }",
            "broker      retries off by body /params/r\n",
        ),
    ] {
        let text = broker(switch);
        assert!(text.contains(expected) && !text.contains("s3cr3t"), "{switch}: {text}");
    }
    let tools = "policy: { deny_unsupported_writes: [production] }
tools:
  - { name: look, side_effect: read, effect: {} }
  - { name: charge, effect: { side_effect: write, environment: production,
      idempotency: { header: Idempotency-Key }, on_unknown: redispatch } }
";
    let policy = POLICY.lines().map(|line| match line.starts_with("tools:") {
        true => tools.to_owned(),
        false => format!("{line}\n"),
    });
    let report = Files::new(CONFIG, &policy.collect::<String>()).check().expect("good");
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    let text = report.to_string();
    for part in [
        "denied      writes without a binding in production",
        "tool        charge: write in production, key header idempotency-key, if unknown sent again",
        "tool        look: read in no environment, key unsupported, if unknown refused",
        "streams tombstone, scope session",
    ] {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
}

#[test]
fn the_examples_can_be_served() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let report = check(&examples.join("onceward.toml"), []).unwrap_or_else(|errors| {
        panic!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    });
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    let text = report.to_string();
    for part in ["/files to", "/payments to", "sessions.json, read every 500ms (bindings: 2)"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn sinks_and_collectors_are_shown_by_reference_and_warned_about() {
    let tables = "[audit]\nsink = \"http://logs.example/in?key=s3cr3t\"\n\
                  token = \"file:no-such-token\"\n\
                  [traces]\nendpoint = \"https://traces.example\"\nsample_percent = 5\n";
    let report = Files::new(&format!("{CONFIG}{tables}"), POLICY).check().expect("good");
    let text = report.to_string();
    for part in [
        "posted to http://logs.example/in?…, with the token of file:",
        "posted to https://traces.example/v1/traces, without a token",
        "sampled: 5 %",
        "warning: `audit.sink` speaks plain HTTP to another machine",
        "warning: `audit.sink` has a token that cannot be read here: file:",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(report.warnings.len(), 2, "{:?}", report.warnings);
    assert!(!text.contains("s3cr3t"), "{text}");
}
