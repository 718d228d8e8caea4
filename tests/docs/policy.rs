//! docs/POLICY.md: every example loads or is refused as it says, every field and default is real.

use std::collections::BTreeSet;
use std::path::Path;

use onceward::policy::{
    LoadContext, MAX_API_KEYS, MAX_KEY_POINTERS, MAX_REMEMBERED, MAX_SERVERS, MAX_SESSIONS,
    PolicySet, ServerPolicy, SessionsFile,
};
use serde_json::{Value, json};

use crate::markdown::{code, fences, rows, section};

const PAGE: &str = include_str!("../../docs/POLICY.md");
const DOCUMENT: &str = include_str!("../../src/policy/document.rs");
const CONTEXT: LoadContext = LoadContext { loopback: true, client_ca: true };

/// What the shorter examples leave out.
const LEFT_OUT: &str =
    "schema_version: v1\nserver: {name: ledger, upstream: 'http://127.0.0.1:1'}\n";

#[test]
fn every_yaml_example_loads_or_is_refused_as_it_says() {
    let examples = fences(PAGE, "yaml");
    assert!(examples.len() >= 4, "the examples were found");
    let mut refused = 0;
    for example in examples {
        let text = match example.contains("schema_version") {
            true => example.to_owned(),
            false => format!("{LEFT_OUT}{example}"),
        };
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
    let renamed = DOCUMENT.split("rename = \"").skip(1).filter_map(|rest| rest.split('"').next());
    let plain = DOCUMENT.lines().filter_map(|line| {
        let (name, _) = line.trim().strip_prefix("pub ")?.split_once(": ")?;
        Some(name)
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
        ("at most {} servers and API keys", MAX_REMEMBERED),
    ] {
        let text = text.replace("{}", &bound.to_string());
        assert!(page.contains(&text), "the page should say: {text}");
    }
    assert_eq!(onceward::policy::MAX_DOCUMENT_BYTES, 1024 * 1024);
    assert_eq!(onceward::policy::MAX_SESSIONS_BYTES, 8 * 1024 * 1024);
}
