//! docs/POLICY.md: every example loads or is refused as it says, every field and default is real.

use std::collections::BTreeSet;
use std::path::Path;

use onceward::native::{
    MAX_BODY_BYTES, MAX_EXPLANATION_BYTES, MAX_FIELDS, MAX_HEADER_BYTES, MAX_SCHEMA_BYTES,
    MAX_SHOWN_BYTES, MAX_TARGET_BYTES,
};
use onceward::policy::{
    LoadContext, MAX_API_KEYS, MAX_CONNECTIONS, MAX_CONNECTOR_TOOLS, MAX_CONNECTORS,
    MAX_DESCRIPTION, MAX_ENVIRONMENT, MAX_FACTS, MAX_ID, MAX_KEY_POINTERS, MAX_REMEMBERED,
    MAX_ROUTES, MAX_SERVERS, MAX_SESSIONS, MAX_TOOL_NAME, PolicySet, ServerPolicy, SessionsFile,
};
use serde_json::{Value, json};

use crate::markdown::{code, fences, rows, section};

const PAGE: &str = include_str!("../../docs/POLICY.md");
const DOCUMENT: &str = concat!(
    include_str!("../../src/policy/document.rs"),
    include_str!("../../src/policy/oauth/fields.rs"),
    include_str!("../../src/policy/broker/fields.rs"),
    include_str!("../../src/policy/effect/fields.rs"),
    include_str!("../../src/policy/connector/fields.rs"),
    include_str!("../../src/policy/workspace/fields.rs"),
);
const CONTEXT: LoadContext = LoadContext { loopback: true, client_ca: true };

/// What the shorter examples leave out.
const LEFT_OUT: &str =
    "schema_version: v1\nserver: {name: ledger, upstream: 'http://127.0.0.1:1'}\n";

#[test]
fn every_yaml_example_loads_or_is_refused_as_it_says() {
    let examples = fences(PAGE, "yaml");
    assert!(examples.len() >= 4, "the examples were found");
    let mut refused = 0;
    for example in examples.into_iter().filter(|example| !example.starts_with(FILE)) {
        let text = match example.contains("schema_version") {
            true => example.to_owned(),
            false => format!("{LEFT_OUT}{example}"),
        };
        // Any variable that is set where tests run.
        let text = text
            .replace("env:INTROSPECTION_SECRET", "env:CARGO_PKG_NAME")
            .replace("env:UPSTREAM_KEY", "env:CARGO_PKG_NAME");
        let loaded = PolicySet::from_text("example.yaml", &text, CONTEXT);
        match example.strip_prefix("# refused: ").and_then(|rest| rest.lines().next()) {
            None => {
                loaded.unwrap_or_else(|errors| panic!("{errors}\n{example}"));
            }
            Some(why) => {
                let errors = loaded.expect_err(example).to_string();
                assert!(errors.contains(why), "{errors}");
                refused += 1;
            }
        }
    }
    assert!(refused >= 2, "some are refused");
}

/// What an example begins with that is one file of several.
const FILE: &str = "# file: ";

#[test]
fn the_examples_of_several_files_load_together() {
    let mut folders = Vec::new();
    for example in fences(PAGE, "yaml") {
        let Some(name) = example.strip_prefix(FILE).and_then(|rest| rest.lines().next()) else {
            continue;
        };
        let text =
            ["STRIPE_KEY", "ACME_STRIPE_KEY"].iter().fold(example.to_owned(), |text, name| {
                text.replace(&format!("env:{name}"), "env:CARGO_PKG_NAME")
            });
        // A set begins with its connector.
        if text.contains("kind: connector") {
            folders.push(tempfile::tempdir().expect("a folder"));
        }
        let folder = folders.last().expect("a connector first");
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    assert_eq!(folders.len(), 2, "the examples were found");
    for folder in &folders {
        PolicySet::load(folder.path(), CONTEXT).unwrap_or_else(|errors| panic!("{errors}"));
    }
}

#[test]
fn every_json_example_is_a_sessions_file() {
    let examples = fences(PAGE, "json");
    assert!(!examples.is_empty());
    for example in examples {
        let file = SessionsFile::parse(Path::new("sessions.json"), example.as_bytes());
        let file = file.unwrap_or_else(|error| panic!("{error}"));
        assert!(!file.is_empty());
    }
}

/// A document with one of everything, and nothing that has a default.
fn base() -> Value {
    json!({
        "schema_version": "v1",
        "server": {"name": "ledger", "upstream": "http://127.0.0.1:1"},
        "auth": {},
        "policy": {},
        "session": {},
        "tools": [{"name": "pay"}],
        "grants": [{"name": "g", "human_id": "ana"}],
        "idempotency": {},
    })
}

/// The table or list element that a field of the page stands in, and the field's own name.
fn place<'d>(document: &'d mut Value, field: &str) -> (&'d mut Value, String) {
    let (parent, name) = field.rsplit_once('.').unwrap_or(("", field));
    let parent = match parent {
        "" => document,
        list if list.ends_with("[]") => &mut document[list.trim_end_matches("[]")][0],
        table => &mut document[table],
    };
    (parent, name.to_owned())
}

fn load(document: &Value) -> Result<ServerPolicy, String> {
    let set = PolicySet::from_text("base.json", &document.to_string(), CONTEXT);
    let set = set.map_err(|errors| errors.to_string())?;
    Ok(set.servers().next().expect("one server").as_ref().clone())
}

#[test]
fn every_field_is_accepted_and_every_default_is_the_real_one() {
    let plain = load(&base()).expect("the base");
    for row in rows(section(PAGE, "Fields"), "field") {
        for field in code(&row[0]) {
            let mut document = base();
            let (parent, name) = place(&mut document, field);
            match (row[1].as_str(), code(&row[1]).first()) {
                ("required", _) => {
                    parent.as_object_mut().expect("a table").remove(&name);
                    load(&document).expect_err(field);
                }
                ("none" | "empty" | "unknown", _) => {
                    if parent.get(&name).is_none() {
                        parent[name] = Value::Null;
                    }
                    assert_eq!(load(&document).as_ref(), Ok(&plain), "{field}");
                }
                (_, Some(default)) => {
                    parent[name] = match *default {
                        "false" => Value::Bool(false),
                        text => text.into(),
                    };
                    assert_eq!(load(&document).as_ref(), Ok(&plain), "{field}");
                }
                (other, None) => panic!("{field} has no default that could be checked: {other}"),
            }
        }
    }
    let mut document = base();
    document["server"]["nickname"] = "l".into();
    load(&document).expect_err("an unknown field");
}

#[test]
fn every_field_of_an_effect_is_accepted_and_every_default_is_the_real_one() {
    let with = |effect: Value| {
        let mut document = base();
        document["tools"][0]["effect"] = effect;
        load(&document)
    };
    let plain = with(json!({})).expect("an empty spec");
    let mut seen = 0;
    for row in rows(section(PAGE, "Effects"), "field") {
        for field in code(&row[0]) {
            let value = match (row[1].as_str(), code(&row[1])[..].first()) {
                ("none", _) => Value::Null,
                (_, Some(range)) if range.contains('-') => json!([range]),
                (_, Some(word)) => (*word).into(),
                (other, None) => panic!("{field} has no default that could be checked: {other}"),
            };
            assert_eq!(with(json!({ field: value })).as_ref(), Ok(&plain), "{field}");
            seen += 1;
        }
    }
    assert_eq!(seen, 7, "the table was read");
    with(json!({"colour": "red"})).expect_err("an unknown field");
}

/// The fields of a table of the section on mode `oauth`, each with its default.
fn oauth_fields(first: &str) -> Vec<(String, String)> {
    let section = section(PAGE, "OAuth");
    let (_, table) = section.split_once(&format!("\n| `{first}`")).expect("the table");
    let table = format!("| field |\n| `{first}`{}", table.split("\n\n").next().expect("its rows"));
    let rows = rows(&table, "field").into_iter();
    rows.flat_map(|row| {
        let fields: Vec<_> = code(&row[0]).into_iter().map(str::to_owned).collect();
        fields.into_iter().map(move |field| (field, row[1].clone()))
    })
    .collect()
}

/// A server of mode `oauth` with a change of its `auth`.
fn oauth(change: impl FnOnce(&mut Value)) -> Result<ServerPolicy, String> {
    let mut document = base();
    document["auth"] = json!({
        "mode": "oauth", "issuer_url": "https://as.example", "audience": "a",
        "introspection": {"client_id": "c", "client_secret": "env:CARGO_PKG_NAME"},
    });
    change(&mut document["auth"]);
    load(&document)
}

#[test]
fn every_field_of_mode_oauth_is_accepted_and_every_default_is_the_real_one() {
    let plain = oauth(|_| {}).expect("the base");
    let mut seen = 0;
    let fields =
        oauth_fields("issuer_url").into_iter().map(|(field, default)| (field, default, ""));
    let asked = oauth_fields("client_id").into_iter();
    let asked = asked.map(|(field, default)| (field, default, "introspection"));
    for (field, default, table) in fields.chain(asked) {
        let (parent, name) = field.split_once('.').unwrap_or((table, &field));
        let set = |value: Value| {
            oauth(|auth| match parent {
                "" => auth[name] = value,
                parent => auth[parent][name] = value,
            })
        };
        let listed: Vec<_> = code(&default).into_iter().map(str::to_owned).collect();
        match (default.as_str(), name) {
            ("required", "client_secret") => assert!(set(Value::Null).is_err(), "{field}"),
            ("required", _) => assert!(set("".into()).is_err(), "{field}"),
            ("none", "audience") => assert!(set(Value::Null).is_err(), "or a resource"),
            ("none", "introspection") => assert!(set(Value::Null).is_ok()),
            ("none", _) => assert_eq!(set(Value::Null).as_ref(), Ok(&plain), "{field}"),
            (_, "leeway" | "cache") => {
                assert_eq!(set(listed[0].clone().into()).as_ref(), Ok(&plain), "{field}");
                assert!(set("5m".into()).is_ok());
                assert!(set("301s".into()).is_err(), "{field}");
            }
            _ => assert_eq!(set(listed.into()).as_ref(), Ok(&plain), "{field}"),
        }
        seen += 1;
    }
    assert_eq!(seen, 14, "the tables were read");
}

#[test]
fn the_bounds_of_mode_oauth_are_the_real_ones() {
    let page = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
    for (text, bound) in [
        ("at most {} KiB, and nowhere else", onceward::identity::MAX_TOKEN_BYTES / 1024),
        ("A list has at most {} entries", onceward::policy::MAX_LISTED),
        ("It is one line of 1 to {} printable ASCII bytes", onceward::secret::MAX_SECRET_BYTES),
    ] {
        let text = text.replace("{}", &bound.to_string());
        assert!(page.contains(&text), "the page should say: {text}");
    }
}

#[test]
fn every_session_field_is_accepted_and_every_default_is_the_real_one() {
    let file = |binding: &Value| {
        let text = json!([binding]).to_string();
        SessionsFile::parse(Path::new("sessions.json"), text.as_bytes())
    };
    let plain = json!({"name": "s"});
    for row in rows(section(PAGE, "Sessions"), "field") {
        for field in code(&row[0]) {
            let mut binding = plain.clone();
            binding[field] = match code(&row[1]).first() {
                Some(&"false") => Value::Bool(false),
                Some(text) => (*text).into(),
                None if field == "name" => "s".into(),
                None => Value::Null,
            };
            assert_eq!(file(&binding), file(&plain), "{field}");
        }
    }
    assert!(file(&json!({})).is_err(), "name is required");
    assert!(file(&json!({"name": "s", "owner": "ana"})).is_err(), "an unknown field");
}

#[test]
fn no_field_of_the_code_is_left_out() {
    let is_word = |character: char| character.is_ascii_lowercase() || "_256".contains(character);
    let without_fences = PAGE.replace("```", "");
    let words: BTreeSet<&str> = code(&without_fences)
        .into_iter()
        .flat_map(|span| span.split(|character| !is_word(character)))
        .collect();
    // A schema's own name is a type's, in capitals.
    let renamed = DOCUMENT.split("rename = \"").skip(1).filter_map(|rest| rest.split('"').next());
    let renamed = renamed.filter(|name| name.starts_with(char::is_lowercase));
    let plain = DOCUMENT.lines().filter_map(|line| {
        let (name, _) = line.trim().strip_prefix("pub ")?.split_once(": ")?;
        (!name.contains(' ')).then_some(name)
    });
    let fields: BTreeSet<&str> = renamed.chain(plain).collect();
    assert!(fields.len() > 40, "the source was read: {fields:?}");
    for field in fields {
        assert!(words.contains(field), "{field} is not in the page");
    }
}

#[test]
fn the_bounds_are_the_real_ones() {
    let page = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
    for (text, bound) in [
        ("server (at most {}, 1 MiB each", MAX_SERVERS),
        ("1 to {}: `id`", MAX_API_KEYS),
        ("At most {} JSON Pointers", MAX_KEY_POINTERS),
        ("8 MiB and {} bindings", MAX_SESSIONS),
        ("the names of 1 to {} connectors", MAX_CONNECTORS),
        ("Unique; 1 to {} letters", MAX_ID),
        ("| `tools` | required | 1 to {} |", MAX_CONNECTOR_TOOLS),
        ("At most {} letters, digits, `_ - . /`", MAX_TOOL_NAME),
        ("| none | At most {} bytes |", MAX_DESCRIPTION),
        ("at most {} KiB. It cannot refer", MAX_SCHEMA_BYTES / 1024),
        ("Names and texts, at most {} of each", MAX_FIELDS),
        ("Path and query have at most {} KiB", MAX_TARGET_BYTES / 1024),
        ("a header {} KiB", MAX_HEADER_BYTES / 1024),
        ("a body {} MiB", MAX_BODY_BYTES / 1024 / 1024),
        ("explanation, up to {} KiB", MAX_EXPLANATION_BYTES / 1024),
        ("over {} MiB only the length", MAX_SHOWN_BYTES / 1024 / 1024),
        ("at most {} over all workspaces", MAX_API_KEYS),
        ("| `connections` | none | At most {} |", MAX_CONNECTIONS),
        ("At most {} texts about the account", MAX_FACTS.0),
        ("1 to {}, at most one for each connector", MAX_ROUTES),
        ("at most {} characters, compared exactly", MAX_ENVIRONMENT),
        ("at most {} servers and API keys", MAX_REMEMBERED),
    ] {
        let text = text.replace("{}", &bound.to_string());
        assert!(page.contains(&text), "the page should say: {text}");
    }
    assert_eq!(onceward::policy::MAX_DOCUMENT_BYTES, 1024 * 1024);
    assert_eq!(onceward::policy::MAX_SESSIONS_BYTES, 8 * 1024 * 1024);
}
