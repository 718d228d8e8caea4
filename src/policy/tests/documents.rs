//! What a document may say, and what becomes of it.

use super::{LOOPBACK, PUBLIC, document, load, refusal, server};
use crate::claim::{Fingerprint, KeyFormat};
use crate::policy::*;

#[test]
fn the_smallest_document_has_the_contracts_defaults() {
    let server = server(&document(""));
    assert_eq!((server.name.as_str(), server.namespace.as_str()), ("payments", ""));
    assert_eq!((server.path.as_str(), server.uid.as_deref()), ("/mcp", Some("uid-1")));
    assert_eq!(server.target.mcp().expect("an MCP server"), "http://127.0.0.1:9/mcp");
    assert_eq!((server.mode, server.default_decision), (Mode::AllowList, DefaultDecision::Deny));
    assert_eq!(server.auth, Auth::Header);
    assert!(!server.session.required);
    assert_eq!(server.session.header_name, "x-mcp-agent-session");
    assert_eq!(server.retries_off, None);
    assert!(server.deny_unsupported_writes.is_empty());
    let rules = &server.idempotency;
    assert_eq!((rules.keys, rules.format), (Keys::Optional, KeyFormat::Any));
    assert_eq!(rules.scope, SlotScope::Session);
    assert_eq!((rules.fingerprint, rules.streams), (Fingerprint::Request, Streams::Tombstone));
    assert!(rules.key_pointers.is_empty());
}

#[test]
fn every_word_is_taken_over() {
    let server = server(&document(
        "  namespace: bank\n  path: /pay/v2\n\
         auth: { mode: static, human_id: ann, agent_id: cli }\n\
         policy: { mode: observe, default_decision: allow, policy_version: '7' }\n\
         session: { required: true, header_name: X-Session }\n\
         tools: [{ name: pay, required_trust: medium, side_effect: write }, { name: look }]\n\
         idempotency: { keys: optional, format: idt, fingerprint: call, streams: record, \
         scope: session, key_pointers: [/params/idempotencyKey, /params/_meta/com.example~1key] }\n",
    ));
    assert_eq!((server.namespace.as_str(), server.path.as_str()), ("bank", "/pay/v2"));
    let Auth::Static(principal) = &server.auth else { panic!("{:?}", server.auth) };
    assert_eq!((principal.human(), principal.agent()), (Some("ann"), Some("cli")));
    assert_eq!((server.mode, server.default_decision), (Mode::Observe, DefaultDecision::Allow));
    assert_eq!(server.policy_version, "7");
    assert!(server.session.required);
    assert_eq!(server.session.header_name, "x-session");
    let pay = server.tool("pay").expect("listed");
    assert_eq!((pay.required_trust, pay.side_effect), (Trust::Medium, Some(SideEffect::Write)));
    let look = server.tool("look").expect("listed");
    assert_eq!((look.required_trust, look.side_effect), (Trust::Low, None));
    let rules = &server.idempotency;
    assert_eq!((rules.format, rules.fingerprint), (KeyFormat::Idt, Fingerprint::Call));
    assert_eq!(rules.streams, Streams::Record);
    let pointers: Vec<_> = rules.key_pointers.iter().map(crate::claim::Pointer::as_str).collect();
    assert_eq!(pointers, ["/params/idempotencyKey", "/params/_meta/com.example~1key"]);
}

#[test]
fn fields_that_ask_for_nothing_are_accepted() {
    server(&document(
        "  broker: false\n  retries_off: ''\nkind: null\npolicy: { deny_unsupported_writes: null }\n\
         session: { upstream_token_header: '' }\nauth: { token_header: authorization }\n\
         tools: [{ name: a, approval: none, effect: null }, { name: b, approval: '' }]\n",
    ));
}

#[test]
fn yaml_does_not_guess_types() {
    let server = server(
        "schema_version: v1\nserver: { name: no, namespace: 1.10, uid: 0x10, \
         upstream: 'http://h/' }\npolicy: { policy_version: 1e3 }\n",
    );
    assert_eq!((server.name.as_str(), server.namespace.as_str()), ("no", "1.10"));
    assert_eq!((server.uid.as_deref(), server.policy_version.as_str()), (Some("0x10"), "1e3"));
}

#[test]
fn an_upstream_is_an_absolute_http_url_without_credentials() {
    let with = |upstream: &str| {
        load(&format!("schema_version: v1\nserver: {{ name: a, upstream: '{upstream}' }}\n"))
    };
    for good in ["http://h", "https://h:8443/mcp?x=1", "http://[::1]:9/", "HTTP://h/"] {
        assert!(with(good).is_ok(), "{good}: {:?}", with(good));
    }
    for bad in [
        "",
        "h",
        "/mcp",
        "h:80",
        "ftp://h/",
        "http://",
        "http://u:p@h/",
        "http://h/#f",
        "http://h h/",
    ] {
        let message = with(bad).expect_err(bad).to_string();
        assert!(message.contains("server.upstream"), "{bad}: {message}");
    }
}

#[test]
fn static_mode_needs_a_loopback_listener() {
    let text = document("auth: { mode: static, human_id: ann }\n");
    assert!(PolicySet::from_text("p.yaml", &text, LOOPBACK).is_ok());
    let message = PolicySet::from_text("p.yaml", &text, PUBLIC).expect_err("public").to_string();
    assert!(message.contains("auth.mode") && message.contains("loopback"), "{message}");
    let keys = document(&format!(
        "auth: {{ mode: api_key, api_keys: [{{ id: a, sha256: {}, human_id: h }}] }}\n",
        "ab".repeat(32)
    ));
    assert!(PolicySet::from_text("p.yaml", &keys, PUBLIC).is_ok());
}

#[test]
fn json_is_read_as_strictly() {
    let json = |text: &str| PolicySet::from_text("p.json", text, LOOPBACK);
    let good = r#"{"schema_version":"v1","server":{"name":"a","upstream":"http://h"}}"#;
    assert!(json(good).is_ok());
    for (text, expected) in [
        ("{\"schema_version\":\"v1\",\n  \"schema_version\":\"v1\"}", "p.json:2:"),
        (
            r#"{"schema_version":"v1","server":{"name":"a","upstream":"http://h"},"tools":[{"name":"t","labels":{"a":1,"a":2}}]}"#,
            "repeated",
        ),
        (r#"{"schema_version":"v1","server":{"name":"a","upstream":"http://h"}} x"#, "p.json:1:"),
        (
            r#"{"schema_version":"v1","server":{"name":"a","upstream":"http://h","port":1}}"#,
            "`port`",
        ),
        ("schema_version: v1", "p.json:1:1"),
        (r#"{"schema_version":"v1","server":{"name":7,"upstream":"http://h"}}"#, "server.name"),
    ] {
        let message = json(text).expect_err(text).to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn aliases_are_bounded() {
    let labels =
        |levels: &str| document(&format!("tools: [{{ name: t, labels: {{ {levels} }} }}]\n"));
    let ten = |name: &str| [name; 10].join(", ");
    let level = |name: &str, of: &str| format!("{name}: &{name} [{}]", ten(of));
    let hundred = [level("a", "x"), level("b", "*a")].join(", ");
    load(&labels(&hundred)).expect("a hundred nodes out of twenty");
    let bomb = [hundred, level("c", "*b"), level("d", "*c"), level("e", "*d")].join(", ");
    let message = refusal(&labels(&bomb));
    assert!(message.contains("too complex"), "a hundred thousand nodes out of fifty: {message}");
}

#[test]
fn key_pointers_and_api_keys_are_bounded() {
    let pointers = |count: usize| {
        let list: Vec<_> = (0..count).map(|at| format!("/params/k{at}")).collect();
        load(&document(&format!("idempotency: {{ key_pointers: [{}] }}\n", list.join(", "))))
    };
    assert!(pointers(MAX_KEY_POINTERS).is_ok());
    assert!(pointers(MAX_KEY_POINTERS + 1).is_err());
    let keys = |count: usize| {
        let list: Vec<_> = (0..count)
            .map(|at| format!("{{ id: k{at}, sha256: {at:064x}, human_id: h }}"))
            .collect();
        load(&document(&format!("auth: {{ mode: api_key, api_keys: [{}] }}\n", list.join(", "))))
    };
    assert!(keys(MAX_API_KEYS).is_ok());
    assert!(keys(MAX_API_KEYS + 1).is_err());
}

#[test]
fn the_revision_is_the_sha_256_of_the_content() {
    // printf 'schema_version: v1\nserver: {name: a, upstream: "http://h"}\n' | sha256sum
    let text = "schema_version: v1\nserver: {name: a, upstream: \"http://h\"}\n";
    let set = load(text).expect("valid");
    assert_eq!(
        set.revision(),
        "sha256:cfd6fbf49fef58c19ff4bc47693bf4a49678b0f4d274b4df527956d12cda8bde"
    );
    assert_ne!(load(&format!("{text}#")).expect("valid").revision(), set.revision());
}

#[test]
fn the_local_policy_is_one_static_principal_on_mcp() {
    let set = PolicySet::local("http://127.0.0.1:9000/mcp", LOOPBACK).expect("valid");
    let server = set.server("/mcp").expect("at the default path");
    // printf http://127.0.0.1:9000/mcp | sha256sum | cut -c1-16
    assert_eq!(server.uid.as_deref(), Some("local-c0995675546f77fb"));
    assert_eq!(server.auth.mode(), "static");
    assert_eq!(server.default_decision, DefaultDecision::Allow);
    assert!(PolicySet::local("ftp://h", LOOPBACK).is_err());
}
