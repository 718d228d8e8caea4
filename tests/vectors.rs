//! The published vectors: canonical JSON, refused texts, keys, request hashes, scoped keys.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use onceward::claim::{
    Call, Document, Fingerprint, Key, KeyFormat, Round, Subject, canonical, principal_id,
    request_hash, scope_id, scoped_key, vendor_key, workspace_principal_id, workspace_scope_id,
    workspace_scoped_key,
};
use serde_json::Value;

fn load(text: &str) -> Value {
    serde_json::from_str(text).expect("the vector file is JSON")
}

/// The vectors of one list; an empty list would prove nothing.
#[track_caller]
fn list<'v>(file: &'v Value, name: &str) -> &'v [Value] {
    let vectors = file[name].as_array().expect("the list is there");
    assert!(!vectors.is_empty(), "{name} is empty");
    vectors
}

#[track_caller]
fn string<'v>(vector: &'v Value, name: &str) -> &'v str {
    vector[name].as_str().unwrap_or_else(|| panic!("{name} is missing in {vector}"))
}

#[track_caller]
fn key(text: &str) -> Key {
    Key::parse(text.as_bytes(), KeyFormat::Any).expect("the vector's key is valid")
}

/// The round whose canonical state is `round`.
fn round(round: &str) -> Round {
    if round.is_empty() {
        return Round::default();
    }
    let params = format!(r#"{{"requestState":{round}}}"#);
    let document = Document::parse(params.as_bytes()).expect("the round is JSON");
    Round::of(document.root())
}

#[test]
fn canonical_forms() {
    let file = load(include_str!("vectors/canonical_json.json"));
    for vector in list(&file, "canonical") {
        let text = string(vector, "text");
        let document = Document::parse(text.as_bytes()).expect(text);
        let form = String::from_utf8(canonical(document.root())).expect("UTF-8");
        assert_eq!(form, string(vector, "canonical"), "{text}");
    }
}

#[test]
fn refused_texts() {
    let file = load(include_str!("vectors/canonical_json.json"));
    for vector in list(&file, "refused") {
        let (text, why) = (string(vector, "text"), string(vector, "why"));
        let error = Document::parse(text.as_bytes()).expect_err(why).to_string();
        let expected: &[&str] = match why {
            "duplicate member"
            | "duplicate member, nested"
            | "duplicate member after unescaping" => &["member name repeated"],
            "lone high surrogate" | "lone low surrogate" => &["lone surrogate"],
            "trailing data" => &["data after the value"],
            "empty" => &["empty"],
            "not JSON" => &["unexpected byte", "malformed number"],
            other => panic!("a vector for {other:?} that no error is named for"),
        };
        assert!(expected.iter().any(|part| error.contains(part)), "{text}: {why}, but {error}");
    }
}

#[test]
fn keys_of_any_format() {
    let file = load(include_str!("vectors/keys.json"));
    for vector in list(&file, "any") {
        let bytes = BASE64_STANDARD.decode(string(vector, "base64")).expect("base64");
        let parsed = Key::parse(&bytes, KeyFormat::Any);
        assert_eq!(Some(parsed.is_ok()), vector["valid"].as_bool(), "{bytes:?}");
        if let Ok(key) = parsed {
            assert_eq!(key.as_str().as_bytes(), bytes, "nothing is trimmed or unquoted");
        }
    }
}

#[test]
fn keys_of_the_idt_format() {
    let file = load(include_str!("vectors/keys.json"));
    for vector in list(&file, "idt") {
        let value = string(vector, "value");
        let parsed = Key::parse(value.as_bytes(), KeyFormat::Idt);
        assert_eq!(Some(parsed.is_ok()), vector["valid"].as_bool(), "{value}");
    }
}

#[test]
fn request_hashes() {
    let file = load(include_str!("vectors/request_hash.json"));
    for vector in list(&file, "vectors") {
        let name = string(vector, "name");
        let document = Document::parse(string(vector, "body").as_bytes()).expect(name);
        let body = document.root();
        let params = body.get("params").expect(name);
        let method = body.get("method").and_then(|value| value.as_str()).expect(name);
        let tool = params.get("name").and_then(|value| value.as_str()).expect(name);
        let id = body.get("id").expect(name);
        let call = Call { method: &method, tool: &tool, id, params };
        let key = key(string(vector, "key"));
        for (mode, member) in [(Fingerprint::Request, "request"), (Fingerprint::Call, "call")] {
            let hash = request_hash(mode, &key, &call).to_string();
            assert_eq!(hash, string(vector, member), "{member} hash of: {name}");
        }
        assert_eq!(Round::of(params).as_bytes(), string(vector, "round").as_bytes(), "{name}");
    }
}

#[test]
fn session_scoped_keys() {
    let file = load(include_str!("vectors/scoped_key.json"));
    for vector in list(&file, "session") {
        let part = |name: &str| vector["principal"][name].as_str().unwrap_or_default();
        let subject = Subject { human: part("human"), agent: part("agent"), team: part("team") };
        let (session, uid) = (string(vector, "session"), string(vector, "server_uid"));
        let round = round(string(vector, "round"));
        assert_eq!(round.as_bytes(), string(vector, "round").as_bytes());
        let slot = scoped_key(&subject, session, uid, &key(string(vector, "key")), &round);
        assert_eq!(slot.to_string(), string(vector, "scoped"));
        assert_eq!(format!("{slot:.16}"), string(vector, "idempotency_key_hash"));
        let principal = principal_id(uid, &subject).to_string();
        assert_eq!(principal, string(vector, "principal_digest"));
        let scope = scope_id(uid, &subject, session).to_string();
        assert_eq!(scope, string(vector, "scope_digest"));
        let vendor = vendor_key(&slot, uid);
        assert_eq!(vendor.as_str(), string(vector, "vendor_key"));
        assert_eq!(Key::parse(vendor.as_str().as_bytes(), KeyFormat::Idt), Ok(vendor));
    }
}

#[test]
fn workspace_scoped_keys() {
    let file = load(include_str!("vectors/scoped_key.json"));
    for vector in list(&file, "workspace") {
        let (workspace, tool) = (string(vector, "workspace"), string(vector, "tool"));
        let connection = Some(string(vector, "connection")).filter(|name| *name != "unresolved");
        let key = key(string(vector, "key"));
        let slot = workspace_scoped_key(workspace, connection, tool, &key, &Round::default());
        assert_eq!(slot.to_string(), string(vector, "scoped"));
        let principal = workspace_principal_id(workspace).to_string();
        assert_eq!(principal, string(vector, "principal_digest"));
        let scope = workspace_scope_id(workspace, connection).to_string();
        assert_eq!(scope, string(vector, "scope_digest"));
        assert_eq!(key.as_str(), string(vector, "vendor_key"), "the vendor gets the key itself");
    }
}
