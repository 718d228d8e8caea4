//! docs/CONFIGURATION.md: keys, defaults, bounds and variables are those of `Config::parse`;
//! metrics, audit fields and admin pages are those of the program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use onceward::claim::{Limits, SlotKey};
use onceward::config::{Config, ConfigError};
use onceward::observe::{
    AttemptResult, AuditDecision, AuditEvent, HandshakeFailures, IdempotencyOutcome, Metrics,
    Readings, Reloads, StatusClass,
};
use onceward::store::Occupancy;

use crate::markdown::{code, fences, rows, section};

const PAGE: &str = include_str!("../../docs/CONFIGURATION.md");
const SOURCES: [&str; 6] = [
    include_str!("../../src/config/mod.rs"),
    include_str!("../../src/config/limits.rs"),
    include_str!("../../src/config/observe.rs"),
    include_str!("../../src/config/receipts.rs"),
    include_str!("../../src/config/store.rs"),
    include_str!("../../src/config/tls.rs"),
];
const ADMIN: &str = include_str!("../../src/admin/mod.rs");

/// One row of a table of keys.
struct Setting {
    key: String,
    kind: String,
    default: String,
    bounds: String,
    variable: String,
}

fn settings() -> Vec<Setting> {
    let read = |row: Vec<String>| {
        let [key, kind, default, bounds, variable, meaning] =
            <[String; 6]>::try_from(row).expect("six cells");
        assert!(!meaning.is_empty(), "{key}");
        let bare = |cell: String| cell.trim_matches('`').to_owned();
        Setting { key: bare(key), kind, default, bounds, variable: bare(variable) }
    };
    rows(PAGE, "key").into_iter().map(read).collect()
}

impl Setting {
    /// The default as TOML; `None` where there is none.
    fn default(&self) -> Option<String> {
        match self.default.as_str() {
            "none" | "required" => None,
            "one per core" => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                Some(cores.min(256).to_string())
            }
            "the value of `limits.ttl`" => Some("\"5m\"".to_owned()),
            literal => Some(
                code(literal)
                    .first()
                    .unwrap_or_else(|| panic!("{}: {literal}", self.key))
                    .to_string(),
            ),
        }
    }

    /// Any value that it takes, as TOML.
    fn sample(&self) -> String {
        self.default().unwrap_or_else(|| match self.kind.as_str() {
            "path" => "\"other.yaml\"".to_owned(),
            "Redis URL" => "\"rediss://db.test:6380/1\"".to_owned(),
            "digest" => format!("\"{}\"", "0f".repeat(32)),
            "URL" => "\"http://127.0.0.1:4318/v1/traces\"".to_owned(),
            "secret" => "\"env:TOKEN\"".to_owned(),
            kind => panic!("{}: a sample of {kind}", self.key),
        })
    }

    fn with(&self, value: &str) -> Result<Config, ConfigError> {
        let own = (self.key.as_str(), value);
        configured(&[self.needed(), &[own]].concat(), &[])
    }

    /// The settings without which this one is an error.
    fn needed(&self) -> &'static [(&'static str, &'static str)] {
        match self.key.as_str() {
            "audit.token" => &[("audit.sink", "\"https://audit.test/\"")],
            "traces.token" | "traces.sample_percent" => {
                &[("traces.endpoint", "\"https://traces.test/\"")]
            }
            "store.kind" | "store.shards" => &[],
            key if key.starts_with("store.") => {
                &[("store.kind", "\"redis\""), ("store.url", "\"redis://h\"")]
            }
            _ => &[],
        }
    }
}

/// Parses what is required, with these settings in the file and these variables.
fn configured(
    settings: &[(&str, &str)],
    variables: &[(&str, &str)],
) -> Result<Config, ConfigError> {
    let mut all = BTreeMap::from([
        ("policy.path", "\"policy.yaml\""),
        ("sessions.path", "\"sessions.json\""),
        ("listen.tls.cert", "\"cert.pem\""),
        ("listen.tls.key", "\"key.pem\""),
    ]);
    all.extend(settings.iter().copied());
    let mut tables: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in all {
        let (table, key) = name.rsplit_once('.').expect("table.key");
        *tables.entry(table).or_default() += &format!("{key} = {value}\n");
    }
    let text: String = tables.iter().map(|(name, body)| format!("[{name}]\n{body}")).collect();
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    Config::parse(&text, Path::new("onceward.toml"), variables)
}

#[test]
fn every_key_is_accepted_from_file_and_variable_and_no_other() {
    for setting in settings() {
        let value = setting.sample();
        let (table, _) = setting.key.split_once('.').expect("table.key");
        let variable = format!("ONCEWARD_{}", setting.key.to_uppercase().replace('.', "__"));
        assert_eq!(setting.variable, variable);
        let from_file = setting.with(&value).unwrap_or_else(|error| panic!("{error}"));
        let bare = value.trim_matches(['"', '[', ']']);
        let from_variable = configured(setting.needed(), &[(&variable, bare)]);
        assert_eq!(from_variable, Ok(from_file), "{variable}");
        let local = Config::local("http://127.0.0.1:1".into(), [(variable, bare.into())]);
        // `sessions.sync` has no effect without its path, nor has a part of TLS alone.
        let part = setting.key == "sessions.sync" || setting.key.starts_with("listen.tls.");
        let alone = table != "policy" && !part && setting.needed().is_empty();
        assert_eq!(local.is_ok(), alone, "{} with --upstream", setting.key);
    }
    let unknown = configured(&[("listen.port", "8080")], &[]);
    assert!(matches!(unknown, Err(ConfigError::Unknown { .. })), "{unknown:?}");
}

#[test]
fn every_default_is_the_real_one() {
    for setting in settings() {
        let untouched = configured(setting.needed(), &[]).expect("the required keys");
        match setting.default() {
            Some(value) => {
                assert_eq!(setting.with(&value).as_ref(), Ok(&untouched), "{}", setting.key);
            }
            None => {
                let kinds = ["path", "digest", "URL", "Redis URL", "secret"];
                assert!(kinds.contains(&setting.kind.as_str()), "{}", setting.key);
            }
        }
    }
    let ttl = ("limits.ttl", "\"7m\"");
    let both = configured(&[ttl, ("limits.tombstone_ttl", "\"7m\"")], &[]);
    assert_eq!(configured(&[ttl], &[]), both, "tombstone_ttl follows ttl");
    assert!(Config::parse("", Path::new("onceward.toml"), []).is_err(), "policy.path is required");
    let minimal = fences(PAGE, "toml")[0];
    let minimal =
        Config::parse(minimal, Path::new("onceward.toml"), []).expect("the first example");
    assert_eq!((minimal.sessions, minimal.admin_token), (None, None));
}

#[test]
fn every_bound_is_the_real_one() {
    let mut checked = 0;
    for setting in settings() {
        let Some((least, most)) = setting.bounds.split_once(" to ") else { continue };
        let inside = |value: &str| {
            // Caps must nest, so one at its bound may break a rule of several.
            match setting.with(value) {
                Ok(_) | Err(ConfigError::Limits { .. }) => {}
                Err(error) => panic!("{value} is within the bounds: {error}"),
            }
        };
        let outside = |value: &str| {
            let parsed = setting.with(value);
            assert!(matches!(parsed, Err(ConfigError::Value { .. })), "{}: {value}", setting.key);
        };
        match (setting.kind.as_str(), least.parse::<u64>(), most.parse::<u64>()) {
            ("whole number", Ok(least), Ok(most)) => {
                inside(&least.to_string());
                inside(&most.to_string());
                outside(&least.checked_sub(1).map_or("-1".to_owned(), |below| below.to_string()));
                outside(&(most + 1).to_string());
            }
            ("duration", ..) => {
                assert!(["1ms", "`limits.ttl`"].contains(&least), "{least}");
                assert_eq!(most, "720h");
                inside("\"1ms\"");
                inside("\"720h\"");
                outside("\"0ms\"");
                outside("\"2592000001ms\"");
            }
            ("list of texts", ..) => {
                let (one, bound) = match setting.key.as_str() {
                    "listen.allowed_origins" => ("http://a", "256 origins"),
                    _ => ("a.example", "256 hosts"),
                };
                let list = |count| format!("[{}]", format!("\"{one}\",").repeat(count));
                assert_eq!((least, most), ("0", bound));
                inside(&list(256));
                outside(&list(257));
            }
            (kind, ..) => panic!("{}: bounds of {kind}", setting.key),
        }
        checked += 1;
    }
    assert!(checked > 20, "the bounds were read");
    let short = configured(&[("limits.tombstone_ttl", "\"299999ms\"")], &[]);
    assert!(matches!(short, Err(ConfigError::Limits { .. })), "below ttl: {short:?}");
    let same = configured(&[("listen.admin", "\"127.0.0.1:8080\"")], &[]);
    assert!(same.is_err(), "the listeners have an address each");
    let far = configured(&[("listen.admin", "\"10.0.0.1:8081\"")], &[]);
    assert!(far.is_err(), "an admin listener without a token is loopback");
}

#[test]
fn no_key_of_the_code_is_left_out() {
    let listed: BTreeSet<String> = settings().into_iter().map(|setting| setting.key).collect();
    let refused = section(PAGE, "Refused");
    let mut found = 0;
    for source in SOURCES {
        let source = source.split("#[cfg(test)]").next().unwrap_or(source);
        for literal in source.split('"') {
            let is_key = literal.rsplit_once('.').is_some_and(|(table, key)| {
                PAGE.contains(&format!("`{table}."))
                    && !key.is_empty()
                    && key.bytes().all(|byte| byte.is_ascii_lowercase() || b"_256".contains(&byte))
            });
            if is_key {
                found += 1;
                let table = PAGE.contains(&format!("\n## {literal}\n"));
                let named = table || listed.contains(literal) || code(refused).contains(&literal);
                assert!(named, "{literal} is not in the page");
            }
        }
    }
    assert!(found > 20, "the sources were read");
    for setting in code(refused) {
        let (key, value) = setting.split_once(" = ").unwrap_or((setting, "\"x\""));
        assert!(configured(&[(key, value)], &[]).is_err(), "{setting} is refused");
    }
    let socket = "store.url = \"redis+unix://h\"";
    assert!(code(refused).contains(&socket), "a value is refused, not a key");
}

fn exposition() -> String {
    let metrics = Metrics::new();
    metrics.server("payments", "ledger").request(200, std::time::Duration::ZERO);
    let readings = Readings {
        occupancy: &Occupancy::default(),
        limits: &Limits::default(),
        policy_reloads: Reloads::default(),
        sessions_reloads: Reloads::default(),
        certificate_reloads: Reloads::default(),
        handshake_failures: HandshakeFailures::default(),
        audit_dropped: 0,
        traces_dropped: 0,
    };
    metrics.render(&readings).expect("the text")
}

/// The labels of a family's series, the buckets' bounds left out.
fn labels(text: &str, family: &str) -> BTreeSet<String> {
    let series = text.lines().filter_map(|line| line.strip_prefix(family));
    let pairs = series.filter_map(|rest| rest.split_once('{')?.1.split_once('}'));
    pairs
        .flat_map(|(pairs, _)| pairs.split(','))
        .filter_map(|pair| Some(pair.split_once('=')?.0.to_owned()))
        .filter(|name| name != "le")
        .collect()
}

#[test]
fn the_metrics_are_those_of_the_rendered_text() {
    let text = exposition();
    let mut rendered: BTreeMap<&str, &str> = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("name and type");
        rendered.insert(name, kind);
    }
    for row in rows(section(PAGE, "Metrics"), "name") {
        let name = row[0].trim_matches('`');
        assert_eq!(rendered.remove(name), Some(row[1].as_str()), "{name}");
        let documented = code(&row[2]).into_iter().map(str::to_owned).collect();
        assert_eq!(labels(&text, name), documented, "{name}");
    }
    assert!(rendered.is_empty(), "not in the page: {rendered:?}");
    let values = IdempotencyOutcome::ALL.map(IdempotencyOutcome::as_str).into_iter();
    let values = values
        .chain(AttemptResult::ALL.map(AttemptResult::as_str))
        .chain(StatusClass::ALL.map(StatusClass::as_str));
    for value in values {
        assert!(code(section(PAGE, "Metrics")).contains(&value), "the label value {value}");
    }
}

#[test]
fn the_audit_fields_are_those_of_a_full_line() {
    let some = Some("x");
    let event = AuditEvent {
        time: jiff::Timestamp::UNIX_EPOCH,
        server: some,
        namespace: some,
        human: some,
        agent: some,
        team: some,
        session: some,
        rpc_method: some,
        tool: some,
        decision: AuditDecision::Allow,
        reason: some,
        matched_grant: some,
        status: 200,
        latency: std::time::Duration::ZERO,
        idempotency: Some(IdempotencyOutcome::First),
        idempotency_key_hash: Some(SlotKey::from_bytes([0; 32])),
    };
    let line: serde_json::Value = serde_json::from_slice(&event.to_line()).expect("JSON");
    let written: BTreeSet<&str> =
        line.as_object().expect("an object").keys().map(String::as_str).collect();
    let fields = rows(section(PAGE, "Audit"), "field");
    let documented = fields.iter().flat_map(|row| code(&row[0])).collect();
    assert_eq!(written, documented);
}

#[test]
fn the_admin_pages_are_those_that_are_served() {
    let served: BTreeSet<&str> =
        ADMIN.split("page(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let pages = rows(section(PAGE, "Admin listener"), "path");
    let documented = pages.iter().flat_map(|row| code(&row[0])).collect();
    assert_eq!(served, documented);
}
