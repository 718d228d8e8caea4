//! Every mode, and every way to send a credential wrongly.

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use super::{
    AGENT_HEADER, AuthError, Credentials, HUMAN_HEADER, Identity, MAX_SUBJECT_BYTES, Mode,
    ServerPolicy, SessionsFile, TEAM_HEADER, Timestamp, in_mode, session_name,
};
use crate::policy::{LoadContext, PolicySet};

/// A request on a plain connection.
fn plain<T>(headers: &HeaderMap, ask: impl Fn(&Credentials<'_>) -> T) -> T {
    let (peer, sessions) = (None, &SessionsFile::default());
    ask(&Credentials { headers, peer, sessions, now: Timestamp::UNIX_EPOCH })
}

fn authenticate(policy: &ServerPolicy, headers: &HeaderMap) -> Result<Identity, AuthError> {
    plain(headers, |credentials| super::authenticate(policy, credentials))
}

/// A server with this YAML after `schema_version` and `server`.
fn server(rules: &str) -> std::sync::Arc<ServerPolicy> {
    let text =
        format!("schema_version: v1\nserver: {{ name: s, upstream: 'http://h' }}\n{rules}\n");
    let set =
        PolicySet::from_text("p.yaml", &text, LoadContext { loopback: true, client_ca: true });
    set.expect("valid").servers().next().expect("one").clone()
}

/// Two keys: `token-a` is alice, `token-b` is the bot of team b.
fn api_keys() -> std::sync::Arc<ServerPolicy> {
    let digest = |token: &str| {
        Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    server(&format!(
        "auth: {{ mode: api_key, api_keys: [{{ id: a, sha256: {}, human_id: alice }}, \
         {{ id: b, sha256: {}, agent_id: bot, team_id: b }}] }}",
        digest("token-a"),
        digest("token-b"),
    ))
}

fn headers(lines: &[(&str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name: HeaderName = name.parse().expect("a name");
        headers.append(name, HeaderValue::from_bytes(value).expect("a value"));
    }
    headers
}

fn bearer(value: &[u8]) -> HeaderMap {
    headers(&[("authorization", value)])
}

#[test]
fn a_listed_token_is_its_principal() {
    let server = api_keys();
    for (line, human, agent, team) in [
        ("Bearer token-a", Some("alice"), None, None),
        ("bearer token-a", Some("alice"), None, None),
        ("BEARER   token-b", None, Some("bot"), Some("b")),
    ] {
        let identity = authenticate(&server, &bearer(line.as_bytes())).expect(line);
        let caller = identity.verified().expect("verified").principal();
        assert_eq!((caller.human(), caller.agent(), caller.team()), (human, agent, team));
        assert_eq!(identity.principal(), Some(caller));
    }
}

#[test]
fn any_other_token_is_refused() {
    let server = api_keys();
    let refused =
        |headers: &HeaderMap| authenticate(&server, headers).expect_err("refused").reason();
    assert_eq!(refused(&headers(&[])), "missing_identity");
    for line in [
        "Bearer token-c",
        "Bearer token-",
        "Bearer token-aa",
        "Bearer TOKEN-A",
        "Bearer",
        "Bearer ",
        "Bearertoken-a",
        "token-a",
        "Basic token-a",
        "Bearer token-a token-a",
        "Bearer token-a,x",
        "",
    ] {
        assert_eq!(refused(&bearer(line.as_bytes())), "invalid_token", "{line}");
    }
    assert_eq!(refused(&bearer(b"Bearer token-a\xff")), "invalid_token");
    let twice: [(&str, &[u8]); 2] =
        [("authorization", b"Bearer token-a"), ("authorization", b"Bearer token-a")];
    assert_eq!(refused(&headers(&twice)), "invalid_token");
    // The digest is no credential, and governance headers are none either.
    let digest = format!("Bearer {:x?}", Sha256::digest("token-a"));
    assert_eq!(refused(&bearer(digest.as_bytes())), "invalid_token");
    assert_eq!(refused(&headers(&[(HUMAN_HEADER, b"alice")])), "missing_identity");
}

#[test]
fn static_mode_is_one_principal_whatever_is_sent() {
    let server = server("auth: { mode: static, human_id: me }");
    for headers in [headers(&[]), bearer(b"Bearer x"), headers(&[(HUMAN_HEADER, b"other")])] {
        let identity = authenticate(&server, &headers).expect("always");
        assert_eq!(identity.verified().expect("verified").principal().human(), Some("me"));
    }
}

#[test]
fn header_mode_believes_but_does_not_verify() {
    let server = server("auth: { mode: header }");
    let sent = headers(&[(HUMAN_HEADER, b"ann"), (AGENT_HEADER, b""), (TEAM_HEADER, b"ops")]);
    let identity = authenticate(&server, &sent).expect("readable");
    let caller = identity.principal().expect("named");
    assert_eq!((caller.human(), caller.agent(), caller.team()), (Some("ann"), None, Some("ops")));
    assert!(identity.verified().is_none());
    for nobody in [headers(&[]), headers(&[(HUMAN_HEADER, b"")]), bearer(b"Bearer x")] {
        assert_eq!(authenticate(&server, &nobody), Ok(Identity::Anonymous));
    }
}

#[test]
fn governance_headers_that_cannot_be_read_are_errors_not_absent() {
    let server = server("auth: { mode: header }");
    for name in [HUMAN_HEADER, AGENT_HEADER, TEAM_HEADER] {
        let long = "a".repeat(MAX_SUBJECT_BYTES + 1);
        for sent in [
            headers(&[(name, b"ann"), (name, b"ann")]),
            headers(&[(name, b""), (name, b"ann")]),
            headers(&[(name, b"two words")]),
            headers(&[(name, b"jos\xc3\xa9")]),
            headers(&[(name, b"a\tb")]),
            headers(&[(name, long.as_bytes())]),
        ] {
            let error = authenticate(&server, &sent).expect_err(name);
            assert_eq!(
                (error, error.reason()),
                (AuthError::UnreadableHeader(name), "missing_identity")
            );
        }
    }
}

#[test]
fn mode_none_names_nobody() {
    let server = server("auth: { mode: none }");
    let sent = headers(&[(HUMAN_HEADER, b"ann"), ("authorization", b"Bearer x")]);
    assert_eq!(authenticate(&server, &sent), Ok(Identity::Anonymous));
}

#[test]
fn mode_oauth_lets_nobody_in_without_a_verifier() {
    let server = server("auth: { mode: oauth, issuer_url: 'https://as.example', audience: a }");
    for sent in [headers(&[]), bearer(b"Bearer x"), headers(&[(HUMAN_HEADER, b"ann")])] {
        assert_eq!(authenticate(&server, &sent), Err(AuthError::IssuerUnavailable));
    }
}

#[test]
fn observe_mode_refuses_nobody_and_verifies_all_the_same() {
    let server = api_keys();
    let identify = |mode, headers: &HeaderMap| in_mode(mode, authenticate(&server, headers));
    let wrong = bearer(b"Bearer wrong");
    assert_eq!(identify(Mode::AllowList, &wrong), Err(AuthError::InvalidToken));
    assert_eq!(identify(Mode::Observe, &wrong), Ok(Identity::Anonymous));
    assert_eq!(identify(Mode::Observe, &headers(&[])), Ok(Identity::Anonymous));
    let right = identify(Mode::Observe, &bearer(b"Bearer token-a")).expect("right");
    assert!(right.verified().is_some());
}

#[test]
fn a_session_name_that_cannot_be_read_is_unknown_not_absent() {
    let header = HeaderName::from_static("x-mcp-agent-session");
    let name = |lines: &[(&str, &[u8])]| session_name(&headers(lines), &header).map(str::to_owned);
    assert_eq!(name(&[]), None);
    assert_eq!(name(&[("X-MCP-Agent-Session", b"s-1")]), Some("s-1".to_owned()));
    for unreadable in [
        &[("x-mcp-agent-session", b"s-1".as_slice()), ("x-mcp-agent-session", b"s-1")][..],
        &[("x-mcp-agent-session", b"s\xff")],
        &[("x-mcp-agent-session", b"")],
    ] {
        assert_eq!(name(unreadable), Some(String::new()));
    }
}

#[test]
fn debug_output_has_no_digest() {
    let shown = format!("{:?}", api_keys().auth);
    let digest = Sha256::digest("token-a");
    assert!(shown.contains("alice"));
    assert!(!shown.contains(&format!("{:x?}", &digest[..4])), "{shown}");
    assert!(!shown.contains(&format!("{}, {}", digest[0], digest[1])), "{shown}");
}
