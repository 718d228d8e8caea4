//! What a configuration may say, and how a mistake is named.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::claim::Millis;

const SMALLEST: &str = "[policy]\npath = \"policy.yaml\"\n";

fn parse_with(text: &str, environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let environment =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::parse(text, Path::new("/etc/onceward/onceward.toml"), environment)
}

fn parse(more: &str) -> Result<Config, ConfigError> {
    parse_with(&format!("{SMALLEST}{more}"), &[])
}

#[test]
fn the_defaults_are_the_contracts() {
    let config = parse("").expect("the smallest");
    assert_eq!(config.listen.mcp, "127.0.0.1:8080".parse().expect("an address"));
    assert_eq!(config.listen.admin, "127.0.0.1:8081".parse().expect("an address"));
    assert_eq!(config.listen.drain, Duration::from_secs(30));
    assert!(config.listen.allowed_origins.is_empty() && config.listen.workers >= 1);
    let path = PathBuf::from("/etc/onceward/policy.yaml");
    assert_eq!(config.policy, PolicySource::Watched { path, reload: Duration::from_secs(5) });
    assert_eq!(config.sessions, None);
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.request_bytes, 1_048_576);
    assert_eq!(
        config.upstream,
        UpstreamConfig {
            connect_timeout: Duration::from_secs(2),
            response_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            max_in_flight: 256,
            circuit_failures: 5,
            circuit_open: Duration::from_secs(30),
        }
    );
    assert_eq!(config.audit, AuditTarget::Stdout);
    assert_eq!(config.admin_token, None);
    assert!(config.load_context().loopback);
}

#[test]
fn every_key_is_taken_over() {
    let config = Config::parse(
        r#"
        [listen]
        mcp = "0.0.0.0:80"
        admin = "[::1]:81"
        allowed_origins = ["https://a.example", "http://localhost:3000"]
        workers = 3
        drain = "1m"
        [policy]
        path = "/srv/policy"
        reload = "250ms"
        [sessions]
        path = "run/sessions.json"
        sync = "2s"
        [store]
        kind = "memory"
        shards = 7
        [limits]
        ttl = "10m"
        tombstone_ttl = "1h"
        entries = 1_000
        in_flight = 0x40
        principal_entries = 100
        principal_in_flight = 10
        scope_entries = 50
        scope_in_flight = 5
        scope_tombstones = 9
        reply_bytes = 1024
        request_bytes = 2048
        [upstream]
        connect_timeout = "1s"
        response_timeout = "2s"
        idle_timeout = "3s"
        max_in_flight = 4
        circuit_failures = 5
        circuit_open = "6s"
        [audit]
        sink = "audit.jsonl"
        [admin]
        token_sha256 = "ABababababababababababababababababababababababababababababababab"
        "#,
        Path::new("/etc/onceward/onceward.toml"),
        [],
    )
    .expect("every key");
    assert_eq!(config.listen.mcp, "0.0.0.0:80".parse().expect("an address"));
    assert_eq!(config.listen.allowed_origins, ["https://a.example", "http://localhost:3000"]);
    assert_eq!((config.listen.workers, config.listen.drain), (3, Duration::from_secs(60)));
    let path = PathBuf::from("/srv/policy");
    assert_eq!(config.policy, PolicySource::Watched { path, reload: Duration::from_millis(250) });
    let path = PathBuf::from("/etc/onceward/run/sessions.json");
    assert_eq!(config.sessions, Some(SessionsSource { path, sync: Duration::from_secs(2) }));
    assert_eq!(config.store, StoreConfig::Memory { shards: 7 });
    assert_eq!(
        config.limits,
        Limits {
            ttl: Millis(600_000),
            tombstone_ttl: Millis(3_600_000),
            entries: 1000,
            in_flight: 64,
            principal_entries: 100,
            principal_in_flight: 10,
            scope_entries: 50,
            scope_in_flight: 5,
            scope_tombstones: 9,
            reply_bytes: 1024,
        }
    );
    assert_eq!(config.request_bytes, 2048);
    assert_eq!(config.upstream.circuit_open, Duration::from_secs(6));
    assert_eq!((config.upstream.max_in_flight, config.upstream.circuit_failures), (4, 5));
    assert_eq!(config.audit, AuditTarget::File("/etc/onceward/audit.jsonl".into()));
    assert_eq!(config.admin_token.expect("set").sha256(), &[0xab; 32]);
    assert!(!config.load_context().loopback);
}

#[test]
fn tombstones_last_as_long_as_replies_unless_they_are_told_otherwise() {
    let ttls = |more| parse(more).map(|config| (config.limits.ttl, config.limits.tombstone_ttl));
    assert_eq!(ttls("[limits]\nttl = \"9m\"\n"), Ok((Millis(540_000), Millis(540_000))));
    assert_eq!(ttls("[limits]\ntombstone_ttl = \"9m\"\n"), Ok((Millis(300_000), Millis(540_000))));
    let error = ttls("[limits]\ntombstone_ttl = \"4m\"\n").expect_err("shorter").to_string();
    assert!(error.contains("line 4") && error.contains("`tombstone_ttl`"), "{error}");
}

/// More TOML after the smallest configuration's two lines, and what its refusal must say.
const REFUSED: &[(&str, &[&str])] = &[
    // Unknown and repeated names.
    ("reloads = \"5s\"\n", &["line 3", "`policy.reloads`"]),
    ("[listen]\nport = 80\n", &["line 4", "`listen.port`"]),
    ("[listens]\nmcp = \"127.0.0.1:1\"\n", &["line 4", "`listens.mcp`"]),
    ("[listens]\n", &["line 3", "`listens`"]),
    ("[limits]\nttl = \"5m\"\nttl = \"6m\"\n", &["line 5", "duplicate"]),
    ("[limits\n", &["line 3"]),
    ("[limits]\nttl.ms = 5\n", &["`limits.ttl`"]),
    // What this build does not have.
    (
        "[store]\nkind = \"redis\"\nurl = \"redis+unix://h\"\n",
        &["line 5", "`store.url`", "redis+sentinel://"],
    ),
    (
        "[store]\nkind = \"redis\"\nurl = \"redis+sentinel://h\"\n",
        &["`store.url`", "redis+sentinel://"],
    ),
    // TLS.
    ("[listen.tls]\ncert = \"c\"\n", &["line 4", "`listen.tls.cert`", "needs `listen.tls.key`"]),
    ("[listen.tls]\nkey = \"k\"\n", &["line 4", "`listen.tls.key`", "needs `listen.tls.cert`"]),
    ("[listen.tls]\nclient_ca = \"c\"\n", &["`listen.tls.client_ca`", "no effect without"]),
    ("[listen.tls]\nreload = \"1s\"\n", &["`listen.tls.reload`", "no effect without"]),
    ("[listen.tls]\n", &["line 3", "`listen.tls`", "`cert` and `key`"]),
    ("[listen]\ntls = true\n", &["line 4", "`listen.tls`", "`cert` and `key`"]),
    ("[listen.tls]\ncert = \"c\"\nkey = \"k\"\nca = \"c\"\n", &["line 6", "`listen.tls.ca`"]),
    ("[listen.tls]\ncert = \"c\"\nkey = \"\"\n", &["line 5", "`listen.tls.key`", "empty"]),
    (
        "[listen.tls]\ncert = \"c\"\nkey = \"k\"\nmax_handshakes = 0\n",
        &["`listen.tls.max_handshakes`", "1 to 65536"],
    ),
    ("[listen.tcp]\ncert = \"c\"\n", &["line 3", "`listen.tcp`"]),
    ("[listen]\nallowed_hosts = [\"a:80\"]\n", &["`listen.allowed_hosts`", "without a port"]),
    ("[listen]\nallowed_hosts = [\"http://a\"]\n", &["`listen.allowed_hosts`"]),
    ("[listen]\nallowed_hosts = [\"*\"]\n", &["`listen.allowed_hosts`"]),
    ("[store]\nkind = \"disk\"\n", &["`store.kind`", "\"memory\""]),
    ("[store]\nkind = \"redis\"\n", &["line 4", "`store.kind`", "`store.url`"]),
    ("[store]\nlease = \"30s\"\n", &["line 4", "`store.lease`", "has no effect"]),
    // Types and bounds.
    ("[listen]\nmcp = 8080\n", &["line 4", "`listen.mcp`", "text"]),
    ("[listen]\nmcp = \"localhost:8080\"\n", &["`listen.mcp`", "IP address"]),
    ("[listen]\nworkers = 0\n", &["`listen.workers`", "1 to 256"]),
    ("[listen]\nworkers = 257\n", &["`listen.workers`", "1 to 256"]),
    ("[listen]\nmax_connections = 65537\n", &["`listen.max_connections`", "1 to 65536"]),
    ("[listen]\nworkers = -1\n", &["`listen.workers`"]),
    ("[listen]\nworkers = 1.5\n", &["`listen.workers`"]),
    ("[listen]\nworkers = \"2\"\n", &["`listen.workers`"]),
    ("[listen]\nallowed_origins = \"https://a\"\n", &["`listen.allowed_origins`", "list"]),
    ("[listen]\nallowed_origins = [1]\n", &["`listen.allowed_origins`", "list"]),
    ("[listen]\nallowed_origins = [\"https://a/\"]\n", &["`listen.allowed_origins`", "origins"]),
    ("[listen]\nallowed_origins = [\"*\"]\n", &["`listen.allowed_origins`", "origins"]),
    ("[store]\nshards = 0\n", &["`store.shards`"]),
    ("[limits]\nreply_bytes = 0\n", &["`limits.reply_bytes`"]),
    ("[limits]\nrequest_bytes = 67108865\n", &["`limits.request_bytes`", "67108864"]),
    ("[limits]\nentries = 2097152\n", &["`limits.entries`", "2097151"]),
    ("[limits]\nentries = 99999999999999999999\n", &["`limits.entries`"]),
    ("[upstream]\nmax_in_flight = 0\n", &["`upstream.max_in_flight`"]),
    ("[upstream]\ncircuit_failures = 0\n", &["`upstream.circuit_failures`"]),
    ("[upstream]\nidle_timeout = \"0s\"\n", &["`upstream.idle_timeout`", "duration"]),
    ("[upstream]\nidle_timeout = 60\n", &["`upstream.idle_timeout`", "duration"]),
    ("[audit]\nsink = \"\"\n", &["`audit.sink`", "empty"]),
    // Rules over several settings.
    (
        "[limits]\nscope_entries = 65\n",
        &["line 4", "`scope_entries` (65)", "`principal_entries` (64)"],
    ),
    ("[limits]\nentries = 63\n", &["line 4", "`principal_entries` (64)", "`entries` (63)"]),
    ("[limits]\nscope_in_flight = 9\n", &["line 4", "`scope_in_flight`", "`principal_in_flight`"]),
    ("[limits]\nin_flight = 7\n", &["line 4", "`principal_in_flight`", "`in_flight`"]),
    ("[sessions]\nsync = \"1s\"\n", &["line 4", "`sessions.sync`", "`sessions.path`"]),
    ("[listen]\nadmin = \"0.0.0.0:8081\"\n", &["line 4", "`listen.admin`", "`admin.token_sha256`"]),
    ("[admin]\ntoken_sha256 = \"s3cr3t\"\n", &["line 4", "`admin.token_sha256`", "64 hex digits"]),
];

#[test]
fn each_mistake_is_refused_with_its_line() {
    for (toml, expected) in REFUSED {
        let message = parse(toml).expect_err(toml).to_string();
        for part in *expected {
            assert!(message.contains(part), "{toml}: `{message}` should name `{part}`");
        }
        assert!(message.starts_with("/etc/onceward/onceward.toml: line "), "{message}");
        assert!(!message.contains("s3cr3t"), "a value leaked: {message}");
    }
    let message = parse_with("", &[]).expect_err("no policy").to_string();
    assert!(message.contains("onceward.toml: `policy.path` is required"), "{message}");
}

#[test]
fn durations_have_a_number_and_a_unit() {
    let ttl = |text: &str| parse(&format!("[limits]\nttl = \"{text}\"\n")).map(|c| c.limits.ttl);
    for (text, milliseconds) in
        [("1ms", 1), ("500ms", 500), ("2s", 2000), ("5m", 300_000), ("720h", 2_592_000_000)]
    {
        assert_eq!(ttl(text), Ok(Millis(milliseconds)), "{text}");
    }
    for bad in [
        "",
        "5",
        "s",
        "5 m",
        "5min",
        "1.5s",
        "-1s",
        "+1s",
        "0ms",
        "1m30s",
        "2592000001ms",
        "721h",
        "99999999999999999999s",
        "18446744073709551615h",
    ] {
        assert!(ttl(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_variable_goes_over_the_file() {
    let text = "[listen]\nmcp = \"127.0.0.1:1\"\nworkers = 2\n[limits]\nttl = \"1m\"\n";
    let config = parse_with(
        text,
        &[
            ("ONCEWARD_LISTEN__MCP", "127.0.0.1:2"),
            ("ONCEWARD_LISTEN__ALLOWED_ORIGINS", "https://a.example, https://b.example"),
            ("ONCEWARD_POLICY__PATH", "/p.yaml"),
            ("ONCEWARD_LIMITS__TTL", "2m"),
            ("ONCEWARD_LIMITS__SCOPE_ENTRIES", "16"),
            ("ONCEWARD_LOG", "debug"),
            ("ONCEWARD_", "x"),
            ("OTHER_LISTEN__MCP", "x"),
            ("PATH", "/bin"),
        ],
    )
    .expect("valid");
    assert_eq!(config.listen.mcp.port(), 2);
    assert_eq!(config.listen.workers, 2);
    assert_eq!(config.listen.allowed_origins, ["https://a.example", "https://b.example"]);
    assert_eq!((config.limits.ttl, config.limits.scope_entries), (Millis(120_000), 16));
}

#[test]
fn a_wrong_variable_is_named() {
    for (name, value, expected) in [
        ("ONCEWARD_LISTEN__PORT", "1", "`listen.port`"),
        ("ONCEWARD_LISTENS__MCP", "127.0.0.1:1", "`listens.mcp`"),
        ("ONCEWARD_LISTEN__MCP", "x", "`listen.mcp`"),
        ("ONCEWARD_LISTEN__MCP", "", "`listen.mcp`"),
        ("ONCEWARD_LISTEN__WORKERS", "two", "`listen.workers`"),
        ("ONCEWARD_LIMITS__SCOPE_ENTRIES", "65", "`scope_entries`"),
        ("ONCEWARD_ADMIN__TOKEN_SHA256", "s3cr3t", "`admin.token_sha256`"),
        ("ONCEWARD_STORE__URL", "redis://s3cr3t@h", "`store.url`"),
    ] {
        let message = parse_with(SMALLEST, &[(name, value)]).expect_err(name).to_string();
        assert!(message.contains(name) && message.contains(expected), "{message}");
        assert!(!message.contains("s3cr3t"), "a value leaked: {message}");
    }
}

#[test]
fn the_listeners_have_two_addresses() {
    for (same, good) in [
        ("mcp = \"127.0.0.1:8081\"", false),
        ("admin = \"127.0.0.1:8080\"", false),
        ("mcp = \"[::1]:8081\"", true),
        ("mcp = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"", true),
    ] {
        let outcome = parse(&format!("[listen]\n{same}\n"));
        assert_eq!(outcome.is_ok(), good, "{same}: {outcome:?}");
    }
}

#[test]
fn a_public_admin_listener_needs_a_token() {
    let token = format!("[admin]\ntoken_sha256 = \"{}\"\n", "ab".repeat(32));
    let public = "[listen]\nadmin = \"0.0.0.0:8081\"\n";
    assert!(parse(&format!("{public}{token}")).is_ok());
    assert!(parse(&format!("{token}{public}")).is_ok());
    assert!(parse("[listen]\nadmin = \"[::1]:8081\"\n").is_ok());
}

#[test]
fn a_file_is_read_with_its_folder_for_relative_paths() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("onceward.toml");
    std::fs::write(&file, SMALLEST).expect("written");
    let config = Config::load(&file, []).expect("valid");
    let PolicySource::Watched { path, .. } = config.policy else { panic!("a file") };
    assert_eq!(path, folder.path().join("policy.yaml"));
    let missing = Config::load(&folder.path().join("none.toml"), []).expect_err("missing");
    assert!(missing.to_string().contains("none.toml: cannot be read"), "{missing}");
    std::fs::write(&file, "#".repeat(1024 * 1024 + 1)).expect("written");
    assert!(Config::load(&file, []).expect_err("too large").to_string().contains("1048576"));
}

#[test]
fn tls_is_a_table_of_the_listener() {
    let files = "[listen.tls]\ncert = \"tls/cert.pem\"\nkey = \"/run/key.pem\"\n";
    let config = parse(&format!("[listen]\nworkers = 1\n{files}")).expect("valid");
    assert!(!config.load_context().client_ca);
    let tls = config.listen.tls.expect("a table");
    assert_eq!(
        tls,
        TlsConfig {
            cert: "/etc/onceward/tls/cert.pem".into(),
            key: "/run/key.pem".into(),
            client_ca: None,
            reload: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(5),
            max_handshakes: 256,
        }
    );
    let variable = ("ONCEWARD_LISTEN__TLS__CLIENT_CA", "ca.pem");
    let config = parse_with(&format!("{SMALLEST}{files}"), &[variable]).expect("valid");
    assert!(config.load_context().client_ca);
    assert_eq!(config.listen.tls.expect("a table").client_ca, Some("/etc/onceward/ca.pem".into()));
    assert_eq!(parse("").expect("the smallest").listen.tls, None);
}

#[test]
fn names_are_for_loopback_listeners() {
    let names = "allowed_hosts = [\"mcp.example.com\", \"10.0.0.1\", \"[fd00::1]\"]\n";
    let config = parse(&format!("[listen]\n{names}")).expect("valid");
    assert_eq!(config.listen.allowed_hosts, ["mcp.example.com", "10.0.0.1", "[fd00::1]"]);
    let token = format!("[admin]\ntoken_sha256 = \"{}\"\n", "ab".repeat(32));
    let public = "[listen]\nmcp = \"0.0.0.0:80\"\nadmin = \"0.0.0.0:81\"\n";
    let refused = parse(&format!("{token}{public}{names}")).expect_err("no effect").to_string();
    assert!(refused.contains("`listen.allowed_hosts` has no effect"), "{refused}");
    let one = "[listen]\nmcp = \"0.0.0.0:80\"\n";
    assert!(parse(&format!("{one}{names}")).is_ok());
}

#[test]
fn debug_output_has_no_token() {
    let config = parse(&format!("[admin]\ntoken_sha256 = \"{}\"\n", "ab".repeat(32)));
    let shown = format!("{:?}", config.expect("valid"));
    assert!(!shown.contains("171") && !shown.to_lowercase().contains("abab"), "{shown}");
}

#[test]
fn local_use_is_loopback_and_every_default() {
    let config = Config::local("http://127.0.0.1:9000/mcp".to_owned(), []).expect("valid");
    assert!(config.load_context().loopback && config.listen.admin.ip().is_loopback());
    let upstream = "http://127.0.0.1:9000/mcp".to_owned();
    assert_eq!(config.policy, PolicySource::Local { upstream });
    assert_eq!(config.limits, Limits::default());
}

#[test]
fn variables_stand_over_the_defaults_of_an_upstream_alone() {
    let local = |name: &str, value: &str| {
        Config::local("http://127.0.0.1:9/mcp".to_owned(), [(name.to_owned(), value.to_owned())])
    };
    let config = local("ONCEWARD_LISTEN__MCP", "127.0.0.1:9999").expect("valid");
    assert_eq!(config.listen.mcp.port(), 9999);
    let refused = local("ONCEWARD_POLICY__PATH", "p.yaml").expect_err("no policy file");
    assert!(refused.to_string().contains("ONCEWARD_POLICY__PATH"), "{refused}");
}
