//! Mode `mtls` in a document.

use super::{LOOPBACK, LoadContext, PolicySet};
use crate::policy::Auth;

fn load(auth: &str, client_ca: bool) -> Result<Auth, String> {
    let text = format!(
        "schema_version: v1\nserver: {{ name: s, namespace: n, upstream: 'http://h' }}\nauth: {auth}\n"
    );
    let context = LoadContext { client_ca, ..LOOPBACK };
    let set = PolicySet::from_text("p.yaml", &text, context).map_err(|error| error.to_string())?;
    Ok(set.servers().next().expect("one").auth.clone())
}

#[test]
fn the_smallest_form_names_a_trust_domain() {
    let auth = load("{ mode: mtls, trust_domain: example.org }", true).expect("valid");
    let Auth::Mtls(rules) = &auth else { panic!("another mode: {auth:?}") };
    assert_eq!((rules.trust_domain.as_str(), &rules.ingress), ("example.org", &None));
    assert_eq!(rules.header.as_str(), "x-mcp-verified-spiffe-id");
    assert!(auth.verifies());
    assert_eq!(auth.mode(), "mtls");
}

#[test]
fn an_ingress_is_pinned_by_its_id() {
    let auth = "{ mode: mtls, trust_domain: example.org, spiffe_header: X-Caller, \
                ingress_spiffe_id: 'spiffe://example.org/ns/edge/sa/proxy' }";
    let Ok(Auth::Mtls(rules)) = load(auth, true) else { panic!("not valid") };
    assert_eq!(rules.header.as_str(), "x-caller");
    let id = rules.ingress.expect("pinned").to_string();
    assert_eq!(id, "spiffe://example.org/ns/edge/sa/proxy");
}

#[test]
fn each_mistake_is_refused_with_its_field() {
    let ingress = "ingress_spiffe_id: 'spiffe://e.org/a'";
    for (auth, field, problem) in [
        ("{ mode: mtls }", "auth.trust_domain", "is required"),
        ("{ mode: mtls, trust_domain: '' }", "auth.trust_domain", "is required"),
        ("{ mode: mtls, trust_domain: Example.org }", "auth.trust_domain", "lower case"),
        ("{ mode: mtls, trust_domain: 'spiffe://e.org' }", "auth.trust_domain", "such as"),
        (
            "{ mode: mtls, trust_domain: e.org, ingress_spiffe_id: 'e.org/a' }",
            "auth.ingress_spiffe_id",
            "SPIFFE id",
        ),
        (
            "{ mode: mtls, trust_domain: e.org, spiffe_header: X-Caller }",
            "auth.spiffe_header",
            "no effect without",
        ),
        (
            &format!("{{ mode: mtls, trust_domain: e.org, {ingress}, spiffe_header: 'a b' }}"),
            "auth.spiffe_header",
            "not a valid HTTP header",
        ),
        (
            &format!(
                "{{ mode: mtls, trust_domain: e.org, {ingress}, spiffe_header: Authorization }}"
            ),
            "auth.spiffe_header",
            "is taken",
        ),
        ("{ mode: mtls, trust_domain: e.org, human_id: a }", "auth.human_id", "mode: static"),
        ("{ trust_domain: e.org }", "auth.trust_domain", "needs `mode: mtls`"),
        ("{ mode: none, spiffe_header: X }", "auth.spiffe_header", "needs `mode: mtls`"),
        (&format!("{{ mode: static, {ingress} }}"), "auth.ingress_spiffe_id", "needs `mode: mtls`"),
    ] {
        let error = load(auth, true).expect_err(auth);
        assert!(error.contains(field) && error.contains(problem), "{auth}: {error}");
    }
}

#[test]
fn it_needs_a_listener_that_asks_for_certificates_and_a_namespace() {
    let auth = "{ mode: mtls, trust_domain: example.org }";
    let error = load(auth, false).expect_err("no authority");
    assert!(error.contains("auth.mode") && error.contains("`client_ca`"), "{error}");
    let error = super::refusal(&super::document(&format!("auth: {auth}\n")));
    assert!(error.contains("server.namespace: is required"), "{error}");
}
