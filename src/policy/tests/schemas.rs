//! The JSON Schemas under `schemas/` against the types that they come from, and against documents.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::policy::schemas;

const PAGE: &str = include_str!("../../../docs/POLICY.md");

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn validator(name: &str) -> jsonschema::Validator {
    let (_, schema) =
        schemas().into_iter().find(|(file, _)| *file == name).expect("a schema of this name");
    jsonschema::validator_for(&schema).expect("the schema can be used")
}

/// The schema of a document of a policy.
fn schema_of(document: &Value) -> &'static str {
    match document.get("kind").and_then(Value::as_str) {
        None => "server.json",
        Some("connector") => "connector.json",
        Some("workspace") => "workspace.json",
        Some("capability") => "capability.json",
        Some(other) => panic!("{other} is no kind"),
    }
}

#[track_caller]
fn assert_valid(name: &str, document: &Value, what: &str) {
    let found: Vec<String> = validator(name)
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(found.is_empty(), "{what}: {}", found.join("\n"));
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("YAML")
}

fn documents_in(folder: &Path) -> Vec<(PathBuf, Value)> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("read").path());
    let is_document = |path: &PathBuf| {
        path.extension().is_some_and(|kind| kind == "yaml" || kind == "yml" || kind == "json")
    };
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("read");
        (path, yaml(&text))
    };
    entries.filter(is_document).map(read).collect()
}

#[test]
fn the_shipped_files_are_those_of_the_types() {
    let folder = root().join("schemas");
    let mut shipped: Vec<String> = fs::read_dir(&folder)
        .expect("the folder")
        .map(|entry| entry.expect("read").file_name().into_string().expect("a name"))
        .collect();
    shipped.sort_unstable();
    let mut made: Vec<_> = schemas().iter().map(|(name, _)| *name).collect();
    made.sort_unstable();
    assert_eq!(shipped, made);
    for (name, schema) in schemas() {
        let text = fs::read_to_string(folder.join(name)).expect("read");
        let written: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(written, schema, "schemas/{name} is not that of the types: run `just schemas`");
        assert!(jsonschema::meta::is_valid(&schema), "{name} is a schema");
    }
}

#[test]
fn every_example_is_valid() {
    let documents = documents_in(&root().join("examples/policy"));
    assert!(documents.len() >= 3, "the examples were found");
    for (path, document) in documents {
        assert_valid(schema_of(&document), &document, &path.display().to_string());
    }
    let sessions = fs::read_to_string(root().join("examples/sessions.json")).expect("read");
    assert_valid("sessions.json", &yaml(&sessions), "examples/sessions.json");
}

#[test]
fn every_example_of_the_page_is_valid() {
    let fences = |language: &str| {
        let start = format!("```{language}\n");
        let parts: Vec<&str> = PAGE.split(start.as_str()).skip(1).collect();
        parts.into_iter().map(|rest| rest.split("```").next().unwrap_or(rest))
    };
    let mut seen = 0;
    for text in fences("yaml").filter(|text| !text.starts_with("# refused")) {
        let mut document = yaml(text);
        if document.get("schema_version").is_none() {
            document["schema_version"] = "v1".into();
            document["server"] = json!({"name": "ledger", "upstream": "http://127.0.0.1:1"});
        }
        assert_valid(schema_of(&document), &document, text);
        seen += 1;
    }
    assert!(seen >= 5, "the examples were found");
    for text in fences("json") {
        assert_valid("sessions.json", &yaml(text), text);
    }
}

#[test]
fn a_schema_finds_the_mistakes_of_a_field() {
    let validator = validator("server.json");
    let with = |field: &str, value: Value| {
        let mut document = json!({
            "schema_version": "v1",
            "server": {"name": "a", "upstream": "http://h"},
            "tools": [{"name": "t", "effect": {}}],
            "auth": {},
            "policy": {},
            "idempotency": {},
        });
        let (parent, name) = field.rsplit_once('/').expect("a member");
        document.pointer_mut(parent).expect("a table")[name] = value;
        validator.is_valid(&document)
    };
    let sha256 = "ab".repeat(32);
    for (field, good) in [
        ("/tools/0/effect/accepted", json!([200, "201-204"])),
        ("/tools/0/effect/idempotency", json!({"header": "Idempotency-Key"})),
        ("/tools/0/effect/idempotency", json!("unsupported")),
        ("/tools/0/effect/on_unknown", json!("redispatch")),
        ("/tools/0/side_effect", Value::Null),
        ("/server/retries_off", json!({"body": {"pointer": "/params/a", "value": false}})),
        ("/server/retries_off", json!("none_exist")),
        ("/auth/api_keys", json!([{"id": "a", "sha256": sha256, "human_id": "h"}])),
        ("/auth/leeway", json!("30s")),
        ("/auth/human_id_header", json!({"any": "thing"})),
        ("/idempotency/scope", json!("workspace")),
        ("/policy/policy_version", Value::Null),
    ] {
        assert!(with(field, good.clone()), "{field}: {good}");
    }
    for (field, bad) in [
        ("/tools/0/effect/accepted", json!([600])),
        ("/tools/0/effect/accepted", json!(["2xx"])),
        ("/tools/0/effect/idempotency", json!({"header": "a", "body_pointer": "/params/a"})),
        ("/tools/0/effect/idempotency", json!("header")),
        ("/tools/0/effect/idempotency", json!({})),
        ("/tools/0/effect/enviroment", json!("a")),
        ("/tools/0/side_effect", json!("wipe")),
        ("/server/retries_off", json!({"body": {"pointer": "/params/a"}})),
        ("/server/broker", json!("yes")),
        ("/auth/api_keys", json!([{"id": "a", "sha256": "s3cr3t"}])),
        ("/auth/leeway", json!("soon")),
        ("/idempotency/keys", json!("never")),
        ("/policy/deny_unsupported_writes", json!("production")),
        ("/schema_version", json!("v2")),
        ("/colour", json!("red")),
    ] {
        assert!(!with(field, bad.clone()), "{field}: {bad}");
    }
}
