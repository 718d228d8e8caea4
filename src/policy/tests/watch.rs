//! Reloading, with real files and one look at a time.

use std::fs;
use std::path::{Path, PathBuf};

use super::{LOOPBACK, PUBLIC, VENDOR, vendor_server, workspace};
use crate::policy::*;

struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Overwrites in place.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    /// Replaces by a rename, as editors and config maps do.
    fn replace(&self, name: &str, text: &str) {
        self.write("staging", text);
        fs::rename(self.path("staging"), self.path(name)).expect("renamed");
    }
}

/// A document whose server is called `name`.
fn named(name: &str) -> String {
    format!("schema_version: v1\nserver: {{ name: {name}, uid: u, upstream: 'http://h' }}\n")
}

fn with_rules(rules: &str) -> String {
    format!("{}{rules}\n", named("one"))
}

fn name(watch: &PolicyWatch) -> Option<String> {
    watch.snapshot().map(|set| set.servers().next().expect("one server").name.clone())
}

fn watch(path: &Path) -> PolicyWatch {
    PolicyWatch::new(path.to_owned(), LOOPBACK)
}

#[test]
fn nothing_is_served_before_the_first_valid_policy() {
    let files = Files::new();
    let watch = watch(&files.path("p.yaml"));
    assert!(watch.snapshot().is_none());
    assert_eq!(watch.poll(), Polled::Failed);
    assert!(watch.snapshot().is_none());
    assert!(watch.last_error().expect("reported").contains("cannot be read"));
    files.write("p.yaml", "schema_version: v2\n");
    assert_eq!(watch.poll(), Polled::Failed);
    assert!(watch.snapshot().is_none());
    files.write("p.yaml", &named("one"));
    assert_eq!(watch.poll(), Polled::Loaded);
    assert_eq!(name(&watch).as_deref(), Some("one"));
    assert_eq!(watch.last_error(), None);
    assert_eq!(watch.reloads(), Reloads { ok: 1, failed: 2 });
}

#[test]
fn edits_in_place_and_by_rename_are_seen_whatever_their_time() {
    let files = Files::new();
    files.write("p.yaml", &named("one"));
    let watch = watch(&files.path("p.yaml"));
    watch.poll();
    let stamp =
        fs::metadata(files.path("p.yaml")).and_then(|data| data.modified()).expect("a time");
    let keep_the_time = || {
        let file = fs::File::options().write(true).open(files.path("p.yaml")).expect("opened");
        file.set_modified(stamp).expect("set");
    };
    files.write("p.yaml", &named("two"));
    keep_the_time();
    assert_eq!(watch.poll(), Polled::Loaded, "same size, same time, other content");
    assert_eq!(name(&watch).as_deref(), Some("two"));
    files.replace("p.yaml", &named("six"));
    keep_the_time();
    assert_eq!(watch.poll(), Polled::Loaded);
    assert_eq!(name(&watch).as_deref(), Some("six"));
    files.replace("p.yaml", &named("six"));
    assert_eq!(watch.poll(), Polled::Unchanged, "another file, the same content");
    assert_eq!(watch.reloads(), Reloads { ok: 3, failed: 0 });
}

#[test]
fn the_last_good_policy_stays_until_the_next_good_one() {
    let files = Files::new();
    let good = named("one");
    files.write("p.yaml", &good);
    let watch = watch(&files.path("p.yaml"));
    watch.poll();
    let revision = watch.snapshot().expect("loaded").revision().to_owned();
    for torn in ["", &good[..good.len() / 2], "server: [", &good.replace("v1", "v9")] {
        files.write("p.yaml", torn);
        assert_eq!(watch.poll(), Polled::Failed, "{torn}");
        assert_eq!(watch.poll(), Polled::Unchanged, "the same failure counts once");
        assert_eq!(watch.snapshot().expect("kept").revision(), revision);
        assert!(watch.last_error().is_some());
    }
    fs::remove_file(files.path("p.yaml")).expect("removed");
    assert_eq!(watch.poll(), Polled::Failed);
    assert_eq!(watch.snapshot().expect("kept").revision(), revision);
    files.write("p.yaml", &good);
    assert_eq!(watch.poll(), Polled::Loaded, "restored");
    assert_eq!(watch.last_error(), None);
    assert_eq!(watch.reloads(), Reloads { ok: 2, failed: 5 });
}

#[test]
fn a_folder_is_reloaded_as_a_whole() {
    let files = Files::new();
    fs::create_dir(files.path("policy")).expect("made");
    let server = |name: &str, path: &str| {
        format!(
            "schema_version: v1\nserver: {{ name: {name}, path: {path}, upstream: 'http://h' }}\n"
        )
    };
    files.write("policy/a.yaml", &server("a", "/a"));
    let watch = watch(&files.path("policy"));
    assert_eq!(watch.poll(), Polled::Loaded);
    files.write("policy/b.yaml", &server("b", "/b"));
    assert_eq!(watch.poll(), Polled::Loaded);
    let both = watch.snapshot().expect("loaded");
    assert_eq!(both.servers().len(), 2);
    files.write("policy/b.yaml", &server("b", "/a"));
    assert_eq!(watch.poll(), Polled::Failed);
    assert_eq!(watch.snapshot().expect("kept"), both);
    fs::rename(files.path("policy/a.yaml"), files.path("policy/a.off")).expect("renamed");
    assert_eq!(watch.poll(), Polled::Loaded);
    assert_eq!(watch.snapshot().expect("loaded").servers().len(), 1);
    assert_eq!(both.servers().len(), 2, "an exchange keeps the snapshot that it took");
}

#[test]
fn a_reload_must_not_make_a_static_principal_public() {
    let files = Files::new();
    files.write("p.yaml", &named("one"));
    let watch = PolicyWatch::new(files.path("p.yaml"), PUBLIC);
    assert_eq!(watch.poll(), Polled::Loaded);
    files.write("p.yaml", &with_rules("auth: { mode: static, human_id: ann }"));
    assert_eq!(watch.poll(), Polled::Failed);
    assert!(watch.last_error().expect("reported").contains("loopback"));
}

/// API keys: id, first digit of the digest, human.
fn keys(listed: &[(&str, &str, &str)]) -> String {
    let keys: Vec<_> = listed
        .iter()
        .map(|(id, digit, human)| {
            format!("{{ id: {id}, sha256: {}, human_id: {human} }}", digit.repeat(64))
        })
        .collect();
    format!("auth: {{ mode: api_key, api_keys: [{}] }}", keys.join(", "))
}

fn oauth(issuer: &str, more: &str) -> String {
    format!("auth: {{ mode: oauth, issuer_url: '{issuer}', audience: x, {more} }}")
}

#[test]
fn a_secret_that_changes_is_loaded_anew() {
    let files = Files::new();
    files.write("p.yaml", &with_rules("session: { upstream_token: file:token }"));
    let watch = watch(&files.path("p.yaml"));
    assert_eq!(watch.poll(), Polled::Failed);
    assert!(watch.last_error().expect("reported").contains("the file cannot be read"));
    files.write("token", "first");
    assert_eq!(watch.poll(), Polled::Loaded);
    assert_eq!(watch.poll(), Polled::Unchanged);
    let secret = || {
        let set = watch.snapshot().expect("loaded");
        let server = set.servers().next().expect("one server");
        server.session.upstream_token.as_ref().expect("one").secret.expose().to_owned()
    };
    files.replace("token", "second\n");
    assert_eq!(watch.poll(), Polled::Loaded);
    assert_eq!(secret(), "second");
    fs::remove_file(files.path("token")).expect("removed");
    assert_eq!(watch.poll(), Polled::Failed);
    assert_eq!(watch.poll(), Polled::Unchanged, "the same failure counts once");
    assert_eq!(secret(), "second", "the last good one stays");
    files.write("token", "third");
    assert_eq!(watch.poll(), Polled::Loaded);
    assert_eq!(secret(), "third");
}

#[test]
fn a_reload_that_moves_slots_is_refused() {
    let ann = keys(&[("a", "1", "ann")]);
    for (before, after, what) in [
        ("", "idempotency: { fingerprint: call }", "fingerprint"),
        ("", "idempotency: { format: idt }", "format"),
        (&ann, "auth: { mode: static, human_id: ann }", "auth.mode"),
        (&ann, "auth: { mode: header }", "auth.mode"),
        (&ann, &keys(&[("a", "1", "ben")]), "API key"),
        ("auth: { mode: static, human_id: a }", "auth: { mode: static, human_id: b }", "principal"),
        ("", "session: { header_name: X-Other }", "session.header_name"),
        (&oauth("https://a", ""), &oauth("https://b", ""), "auth.issuer_url"),
        (&oauth("https://a", ""), &oauth("https://a", "claims: { human: [email] }"), "auth.claims"),
        (&oauth("https://a", ""), &ann, "auth.mode"),
        (
            "idempotency: { key_pointers: [/params/a, /params/b] }",
            "idempotency: { key_pointers: [/params/b] }",
            "key_pointers",
        ),
    ] {
        let files = Files::new();
        files.write("p.yaml", &with_rules(before));
        let watch = watch(&files.path("p.yaml"));
        assert_eq!(watch.poll(), Polled::Loaded, "{before}");
        let kept = watch.snapshot().expect("loaded");
        files.write("p.yaml", &with_rules(after));
        assert_eq!(watch.poll(), Polled::Failed, "{after}");
        let error = watch.last_error().expect("reported");
        for part in [what, "drain", "`ttl`", "restart"] {
            assert!(error.contains(part), "{after}: {error}");
        }
        assert_eq!(watch.snapshot().expect("kept"), kept);
        files.write("p.yaml", &with_rules(before));
        assert_eq!(watch.poll(), Polled::Loaded, "{before}");
        assert_eq!(watch.last_error(), None);
    }
}

#[test]
fn a_reload_never_moves_slots_from_workspaces_to_sessions() {
    let files = Files::new();
    files.write("vendor.yaml", VENDOR);
    files.write("acme.yaml", &workspace());
    files.write("p.yaml", &vendor_server("api_key }", "scope: workspace"));
    let watch = watch(&files.path(""));
    assert_eq!(watch.poll(), Polled::Loaded, "{:?}", watch.last_error());
    let digest = "cd".repeat(32);
    let keys = format!("api_key, api_keys: [{{ id: a, sha256: {digest}, human_id: h }}] }}");
    files.write("p.yaml", &vendor_server(&keys, "keys: always"));
    assert_eq!(watch.poll(), Polled::Failed);
    let error = watch.last_error().expect("reported");
    assert!(error.contains("`idempotency.scope`") && error.contains("restart"), "{error}");
}

#[test]
fn a_server_that_left_cannot_come_back_with_other_slots() {
    let files = Files::new();
    let rules = "idempotency: { fingerprint: call }";
    files.write("p.yaml", &with_rules(rules));
    let watch = watch(&files.path("p.yaml"));
    watch.poll();
    files.write("p.yaml", &named("other").replace("uid: u", "uid: v"));
    assert_eq!(watch.poll(), Polled::Loaded);
    files.write("p.yaml", &with_rules(""));
    assert_eq!(watch.poll(), Polled::Failed);
    files.write("p.yaml", &with_rules(rules));
    assert_eq!(watch.poll(), Polled::Loaded);
}

#[test]
fn a_key_that_left_cannot_come_back_as_someone_else() {
    let files = Files::new();
    let watch = watch(&files.path("p.yaml"));
    for (listed, expected) in [
        (vec![("a", "1", "ann"), ("b", "2", "ben")], Polled::Loaded),
        (vec![("b", "2", "ben")], Polled::Loaded),
        (vec![("b", "2", "ben"), ("c", "1", "cat")], Polled::Failed),
        // A rotated secret for the same principal moves nothing.
        (vec![("b", "3", "ben"), ("a", "1", "ann")], Polled::Loaded),
    ] {
        files.write("p.yaml", &with_rules(&keys(&listed)));
        assert_eq!(watch.poll(), expected, "{listed:?}");
    }
}

#[test]
fn what_moves_no_slot_is_reloaded() {
    let files = Files::new();
    files.write("p.yaml", &with_rules("idempotency: { key_pointers: [/params/a] }"));
    let watch = watch(&files.path("p.yaml"));
    watch.poll();
    for after in [
        "idempotency: { key_pointers: [/params/b, /params/a], streams: record }",
        "idempotency: { key_pointers: [/params/b, /params/a] }\npolicy: { mode: observe }",
        "idempotency: { key_pointers: [/params/b, /params/a] }\nsession: { required: true }\n\
         grants: [{ name: g, human_id: ann }]",
        "idempotency: { key_pointers: [/params/b, /params/a], keys: optional }\n\
         tools: [{ name: t, effect: { idempotency: { header: X-Key } } }]",
        "idempotency: { key_pointers: [/params/b, /params/a] }\n\
         tools: [{ name: t, effect: { idempotency: { header: X-Other } } }]",
    ] {
        files.write("p.yaml", &with_rules(after));
        assert_eq!(watch.poll(), Polled::Loaded, "{after}: {:?}", watch.last_error());
    }
    let other = with_rules("idempotency: { fingerprint: call }").replace("uid: u", "uid: v");
    files.write("p.yaml", &other);
    assert_eq!(watch.poll(), Polled::Loaded, "another uid is another server");
}

#[test]
fn what_names_no_other_caller_may_change_in_oauth() {
    let files = Files::new();
    files.write("p.yaml", &with_rules(&oauth("https://a", "")));
    let watch = watch(&files.path("p.yaml"));
    watch.poll();
    for more in ["scopes: [a]", "resource: 'https://gw/mcp'", "leeway: 1s, algorithms: [ES256]"] {
        files.write("p.yaml", &with_rules(&oauth("https://a", more)));
        assert_eq!(watch.poll(), Polled::Loaded, "{more}: {:?}", watch.last_error());
    }
}

#[test]
fn a_fixed_policy_never_changes() {
    let watch =
        PolicyWatch::fixed(PolicySet::local("http://127.0.0.1:9", LOOPBACK).expect("valid"));
    assert_eq!(watch.poll(), Polled::Unchanged);
    assert_eq!(name(&watch).as_deref(), Some("local"));
}

#[test]
fn the_sessions_file_keeps_its_last_good_bindings() {
    let files = Files::new();
    let watch = SessionsWatch::new(Some(files.path("s.json")));
    assert!(watch.snapshot().is_empty());
    assert_eq!(watch.poll(), Polled::Failed, "a missing file is reported");
    assert!(watch.last_error().is_some() && watch.snapshot().is_empty());
    files.write("s.json", r#"[{"name":"s","human_id":"ann"}]"#);
    assert_eq!(watch.poll(), Polled::Loaded);
    assert_eq!(watch.last_error(), None);
    for torn in ["", r#"[{"name":"s""#, r#"{"sessions":[{"name":"s","name":"s"}]}"#] {
        files.write("s.json", torn);
        assert_eq!(watch.poll(), Polled::Failed, "{torn}");
        assert!(watch.snapshot().get("", "s").is_some());
    }
    fs::remove_file(files.path("s.json")).expect("removed");
    assert_eq!(watch.poll(), Polled::Failed);
    assert!(watch.snapshot().get("", "s").is_some());
    files.replace("s.json", r#"{"sessions":[{"name":"s","human_id":"ann","revoked":true}]}"#);
    assert_eq!(watch.poll(), Polled::Loaded);
    assert!(watch.snapshot().get("", "s").expect("listed").revoked);
    assert_eq!(watch.reloads(), Reloads { ok: 2, failed: 5 });
}

#[test]
fn without_a_sessions_file_there_are_no_bindings() {
    let watch = SessionsWatch::new(None);
    assert_eq!(watch.poll(), Polled::Unchanged);
    assert!(watch.snapshot().is_empty());
}

#[tokio::test]
async fn running_polls_until_it_is_dropped() {
    let files = Files::new();
    files.write("p.yaml", &named("one"));
    files.write("s.json", "[{\"name\":\"s\"}]");
    let policy = std::sync::Arc::new(watch(&files.path("p.yaml")));
    let sessions = std::sync::Arc::new(SessionsWatch::new(Some(files.path("s.json"))));
    let every = std::time::Duration::from_millis(1);
    let seen = async {
        while policy.snapshot().is_none() || sessions.snapshot().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = policy.clone().run(every) => {}
        () = sessions.clone().run(every) => {}
        () = seen => {}
    }
    assert_eq!(name(&policy).as_deref(), Some("one"));
}
