//! Servers on which every call has a key, and those whose slots belong to workspaces (EFFECTS
//! sections 3 and 4).

use super::{LOOPBACK, VENDOR, assert_refused, document, load, server, vendor_server, workspace};
use crate::claim::KeyFormat;
use crate::policy::*;

const STATIC: &str = "auth: { mode: static, human_id: ann }\n";

#[test]
fn keys_always_implies_the_format_of_minted_keys() {
    let rules = |more: &str| {
        server(&document(&format!("{STATIC}idempotency: {{ keys: always{more} }}\n")))
            .idempotency
            .clone()
    };
    assert_eq!((rules("").keys, rules("").format), (Keys::Always, KeyFormat::Idt));
    assert_eq!(rules(", format: idt").format, KeyFormat::Idt);
    assert_eq!(rules(", format: any").format, KeyFormat::Any, "unless set otherwise");
    assert_eq!(rules("").scope, SlotScope::Session);
}

#[test]
fn keys_always_needs_a_mode_that_verifies() {
    for mode in ["", "auth: { mode: header }\n", "auth: { mode: none }\n"] {
        assert_refused(&[(
            &format!("{mode}idempotency: {{ keys: always }}\n"),
            &["idempotency.keys", "verified", "`api_key`"],
        )]);
    }
    let keys = format!(
        "auth: {{ mode: api_key, api_keys: [{{ id: a, sha256: {}, human_id: h }}] }}\n",
        "ab".repeat(32)
    );
    let oauth = "auth: { mode: oauth, issuer_url: 'https://i', audience: a }\n";
    let mtls = "  namespace: n\nauth: { mode: mtls, trust_domain: example.org }\n";
    for mode in [&keys, oauth, mtls, STATIC] {
        let server = server(&document(&format!("{mode}idempotency: {{ keys: always }}\n")));
        assert_eq!(server.idempotency.keys, Keys::Always, "{mode}");
    }
}

#[test]
fn scope_workspace_allows_no_other_keys_format_or_mode() {
    let api_key = "auth: { mode: api_key }\n";
    assert_refused(&[
        (
            &format!("{api_key}idempotency: {{ scope: workspace, keys: optional }}\n"),
            &["idempotency.keys", "must be `always` with `scope: workspace`"],
        ),
        (
            &format!("{api_key}idempotency: {{ scope: workspace, keys: off }}\n"),
            &["idempotency.keys", "must be `always`"],
        ),
        (
            &format!("{api_key}idempotency: {{ scope: workspace, format: any }}\n"),
            &["idempotency.format", "must be `idt` with `scope: workspace`"],
        ),
        (
            &format!("{STATIC}idempotency: {{ scope: workspace }}\n"),
            &["auth.mode", "must be `api_key` with `idempotency.scope: workspace`"],
        ),
        ("idempotency: { scope: workspace }\n", &["auth.mode", "must be `api_key`"]),
        (
            &format!(
                "auth: {{ mode: api_key, api_keys: [{{ id: a, sha256: {}, human_id: h }}] }}\n\
                 idempotency: {{ scope: workspace }}\n",
                "ab".repeat(32)
            ),
            &["auth.api_keys", "workspaces' documents"],
        ),
    ]);
}

#[test]
fn scope_workspace_implies_its_keys_and_their_format() {
    for more in ["", ", keys: always, format: idt"] {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [
            ("vendor.yaml", VENDOR.to_owned()),
            ("acme.yaml", workspace()),
            ("server.yaml", vendor_server("api_key }", &format!("scope: workspace{more}"))),
        ] {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        let set = PolicySet::load(folder.path(), LOOPBACK).expect("valid");
        let rules = &set.servers().next().expect("one server").idempotency;
        assert_eq!(
            (rules.scope, rules.keys, rules.format),
            (SlotScope::Workspace, Keys::Always, KeyFormat::Idt)
        );
    }
}

#[test]
fn scope_workspace_needs_tools_of_the_gateways_own() {
    assert_refused(&[(
        "auth: { mode: api_key }\nidempotency: { scope: workspace }\n",
        &["idempotency.scope", "`server.connectors`"],
    )]);
    load(&document("idempotency: { scope: session }\n")).expect("the default");
}
