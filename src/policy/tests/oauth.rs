//! Mode `oauth`, and the gateway's own credential at the upstream.

use std::time::Duration;

use super::{document, server};
use crate::policy::*;

fn oauth(more: &str) -> OAuth {
    let server = server(&document(&format!(
        "auth: {{ mode: oauth, issuer_url: 'https://as.example/t', {more} }}\n"
    )));
    match &server.auth {
        Auth::OAuth(rules) => rules.as_ref().clone(),
        other => panic!("{}", other.mode()),
    }
}

#[test]
fn what_a_platform_document_says_is_enough() {
    let rules = oauth("audience: api://tools");
    assert_eq!(rules.issuer, "https://as.example/t");
    assert_eq!(rules.audiences, ["api://tools"]);
    assert_eq!((rules.resource, rules.challenge.as_str()), (None, ""));
    assert_eq!(rules.claims.human, ["sub"]);
    assert_eq!(rules.claims.agent, ["client_id", "azp"]);
    assert_eq!(rules.claims.team, ["team_id"]);
    assert_eq!(rules.leeway, Duration::from_secs(30));
    let algorithms = [Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::EdDsa];
    assert_eq!(rules.algorithms, algorithms);
    assert_eq!(rules.introspection, None);
}

#[test]
fn a_token_may_name_the_audience_or_the_resource() {
    let rules = oauth("audience: api://tools, resource: 'https://gw.example/mcp'");
    assert_eq!(rules.audiences, ["https://gw.example/mcp", "api://tools"]);
    for root in ["https://gw.example", "https://gw.example/"] {
        let rules = oauth(&format!("resource: '{root}'"));
        assert_eq!(rules.audiences, ["https://gw.example", "https://gw.example/"]);
    }
    let same = "audience: 'https://gw.example/mcp', scopes: [mcp:read, mcp:call]";
    let rules = oauth(same);
    assert_eq!(rules.audiences, ["https://gw.example/mcp"]);
    let resource = rules.resource.expect("the audience is the server's URL");
    assert_eq!(resource.uri, "https://gw.example/mcp");
    assert_eq!(
        rules.challenge,
        "resource_metadata=\"https://gw.example/.well-known/oauth-protected-resource/mcp\", \
         scope=\"mcp:read mcp:call\""
    );
}

#[test]
fn the_upstreams_credential_is_a_bearer_token_unless_its_header_is_another() {
    let token = |more: &str| {
        let yaml = format!("session: {{ upstream_token: env:CARGO_PKG_NAME{more} }}\n");
        let session = server(&document(&yaml)).session.clone();
        let token = session.upstream_token.expect("a credential");
        assert!(token.value.is_sensitive());
        assert_eq!(token.secret.source().to_string(), "env:CARGO_PKG_NAME");
        let shown = format!("{token:?}");
        assert!(!shown.contains("onceward"), "{shown}");
        (token.header.to_string(), token.value.to_str().expect("ASCII").to_owned())
    };
    let bearer = ("authorization".to_owned(), "Bearer onceward".to_owned());
    assert_eq!(token(""), bearer);
    assert_eq!(token(", upstream_token_header: Authorization"), bearer);
    let own = token(", upstream_token_header: X-Api-Key");
    assert_eq!(own, ("x-api-key".to_owned(), "onceward".to_owned()));
}
