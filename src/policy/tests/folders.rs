//! Files and folders of documents, and their bounds.

use std::fs;

use super::{LOOPBACK, document};
use crate::policy::*;

#[test]
fn a_folder_is_one_server_a_document() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, server: &str| {
        let text = format!("schema_version: v1\nserver: {{ upstream: 'http://h', {server} }}\n");
        fs::write(folder.path().join(name), text).expect("written");
    };
    let load = || PolicySet::load(folder.path(), LOOPBACK);
    fs::write(folder.path().join("README.md"), "not a policy").expect("written");
    fs::create_dir(folder.path().join("sub.yaml")).expect("made");
    assert!(load().expect_err("empty").to_string().contains("no policy document"));

    write("b.yml", "name: b, path: /b, uid: u-b");
    write("a.yaml", "name: a, path: /a, uid: u-a");
    write(".hidden.yaml", "name: hidden, path: /a");
    let json = r#"{"schema_version":"v1","server":{"name":"c","path":"/c","upstream":"http://h"}}"#;
    fs::write(folder.path().join("c.json"), json).expect("written");
    let set = load().expect("three servers");
    assert_eq!(set.servers().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(set.server("/b").map(|one| one.name.as_str()), Some("b"));
    assert!(set.server("/b/").is_none() && set.server("/mcp").is_none());

    write("d.yaml", "name: b, path: /a, uid: u-a");
    write("e.yaml", "name: e, path: e");
    let message = load().expect_err("clashes").to_string();
    for part in
        ["d.yaml: server.path", "d.yaml: server.name", "d.yaml: server.uid", "e.yaml: server.path"]
    {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn files_are_bounded_and_named_by_their_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("p.yaml");
    let padded = |size: usize| {
        let text = document("");
        format!("{text}#{}", "x".repeat(size - text.len() - 1))
    };
    fs::write(&file, padded(MAX_DOCUMENT_BYTES)).expect("written");
    PolicySet::load(&file, LOOPBACK).expect("just within the bound");
    fs::write(&file, padded(MAX_DOCUMENT_BYTES + 1)).expect("written");
    let message = PolicySet::load(&file, LOOPBACK).expect_err("too large").to_string();
    assert!(message.contains("1048576"), "{message}");
    fs::write(&file, b"schema_version: \xff").expect("written");
    assert!(PolicySet::load(&file, LOOPBACK).expect_err("bytes").to_string().contains("UTF-8"));
    let other = folder.path().join("p.conf");
    fs::write(&other, document("")).expect("written");
    assert!(PolicySet::load(&other, LOOPBACK).expect_err("name").to_string().contains("*.yaml"));
    let missing = PolicySet::load(&folder.path().join("none.yaml"), LOOPBACK);
    assert!(missing.expect_err("missing").to_string().contains("cannot be read"));
}

#[test]
fn too_many_documents_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for at in 0..=MAX_SERVERS {
        let text = format!(
            "schema_version: v1\nserver: {{ name: s{at}, path: /s{at}, upstream: 'http://h' }}\n"
        );
        fs::write(folder.path().join(format!("{at}.yaml")), text).expect("written");
    }
    let message = PolicySet::load(folder.path(), LOOPBACK).expect_err("one too many").to_string();
    assert!(message.contains("256"), "{message}");
    fs::remove_file(folder.path().join("0.yaml")).expect("removed");
    assert_eq!(PolicySet::load(folder.path(), LOOPBACK).expect("all").servers().len(), MAX_SERVERS);
}
