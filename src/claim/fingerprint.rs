//! What a keyed call is reduced to (CONTRACT section 3, "Hashes"): SHA-256 over length-prefixed
//! fields, each digest under a label of its own.

use std::fmt;

use sha2::{Digest, Sha256};

use super::canonical::{Writer, canonical};
use super::json::{Kind, Value};
use super::key::Key;
use super::{DispatchHash, PrincipalId, RequestHash, ScopeId, SlotKey};

/// What of a call decides whether a retry means the same (`idempotency.fingerprint`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fingerprint {
    /// Key, method, tool, id and params: a retransmission reuses its id.
    #[default]
    Request,
    /// The same without the id and the volatile members of `params._meta`, for clients that
    /// number every request anew.
    Call,
}

/// A `tools/call` as its request hash sees it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'d, 'a> {
    /// The JSON-RPC method.
    pub method: &'d str,
    /// The name of the tool, unescaped.
    pub tool: &'d str,
    /// The JSON-RPC id.
    pub id: Value<'d, 'a>,
    /// The whole `params` object, tool name included.
    pub params: Value<'d, 'a>,
}

/// The verified caller. A part that is absent is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject<'s> {
    /// Who the caller is.
    pub human: &'s str,
    /// What acts for them.
    pub agent: &'s str,
    /// The team.
    pub team: &'s str,
}

/// Which round of a call this is (CONTRACT section 2): empty for an opening request, the
/// canonical `requestState` (or `null`) for a continuation.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Round(Vec<u8>);

/// The members of `params._meta` that a client may change with every attempt.
const VOLATILE_META: [&str; 8] = [
    "progressToken",
    "traceparent",
    "tracestate",
    "baggage",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
];

/// Stands for the connection of a workspace call that has none yet.
const UNRESOLVED: &str = "unresolved";

/// The fingerprint of a call under its key. Another one on a held slot is a conflict.
pub fn request_hash(mode: Fingerprint, key: &Key, call: &Call<'_, '_>) -> RequestHash {
    let key = key.as_str().as_bytes();
    let (method, tool) = (call.method.as_bytes(), call.tool.as_bytes());
    RequestHash::from_bytes(match mode {
        Fingerprint::Request => digest(&[
            b"onceward.request.v1",
            key,
            method,
            tool,
            &canonical(call.id),
            &canonical(call.params),
        ]),
        Fingerprint::Call => {
            digest(&[b"onceward.call.v1", key, method, tool, &lasting_params(call.params)])
        }
    })
}

/// The slot of a call in scope `session`: subject, governed session (empty where there is none),
/// server, key and round. The audit's `idempotency_key_hash` is its first 16 hex digits.
pub fn scoped_key(
    subject: &Subject<'_>,
    session: &str,
    server_uid: &str,
    key: &Key,
    round: &Round,
) -> SlotKey {
    SlotKey::from_bytes(digest(&[
        b"onceward.session.v1",
        subject.human.as_bytes(),
        subject.agent.as_bytes(),
        subject.team.as_bytes(),
        session.as_bytes(),
        server_uid.as_bytes(),
        key.as_str().as_bytes(),
        &round.0,
    ]))
}

/// The middle quota of scope `session`: the caller at one server.
pub fn principal_id(server_uid: &str, subject: &Subject<'_>) -> PrincipalId {
    PrincipalId::from_bytes(digest(&[
        b"onceward.principal.v1",
        server_uid.as_bytes(),
        subject.human.as_bytes(),
        subject.agent.as_bytes(),
        subject.team.as_bytes(),
    ]))
}

/// The innermost quota of scope `session`: the caller in one governed session at one server.
pub fn scope_id(server_uid: &str, subject: &Subject<'_>, session: &str) -> ScopeId {
    ScopeId::from_bytes(digest(&[
        b"onceward.scope.v1",
        server_uid.as_bytes(),
        subject.human.as_bytes(),
        subject.agent.as_bytes(),
        subject.team.as_bytes(),
        session.as_bytes(),
    ]))
}

/// The key that an upstream vendor is given in scope `session`: it differs by caller, session,
/// server and round, and tells nothing about the client's key.
pub fn vendor_key(slot: &SlotKey, server_uid: &str) -> Key {
    Key::from_digest(&digest(&[b"onceward.vendor.v1", slot.as_bytes(), server_uid.as_bytes()]))
}

/// The fingerprint of where a call goes and how its key gets there (EFFECTS section 4): `route` are
/// the non-secret facts of its target as canonical JSON, `binding` says what carries the key.
pub fn dispatch_hash(route: &[u8], binding: &str) -> DispatchHash {
    DispatchHash::from_bytes(digest(&[b"onceward.dispatch.v1", route, binding.as_bytes()]))
}

/// The slot of a call in scope `workspace`, where callers, sessions and servers share slots.
/// `connection` is `None` where it is not resolved.
pub fn workspace_scoped_key(
    workspace: &str,
    connection: Option<&str>,
    tool: &str,
    key: &Key,
    round: &Round,
) -> SlotKey {
    SlotKey::from_bytes(digest(&[
        b"onceward.workspace.v1",
        workspace.as_bytes(),
        connection.unwrap_or(UNRESOLVED).as_bytes(),
        tool.as_bytes(),
        key.as_str().as_bytes(),
        &round.0,
    ]))
}

/// The middle quota of scope `workspace`.
pub fn workspace_principal_id(workspace: &str) -> PrincipalId {
    PrincipalId::from_bytes(digest(&[b"onceward.workspace-principal.v1", workspace.as_bytes()]))
}

/// The innermost quota of scope `workspace`; `connection` as in [`workspace_scoped_key`].
pub fn workspace_scope_id(workspace: &str, connection: Option<&str>) -> ScopeId {
    ScopeId::from_bytes(digest(&[
        b"onceward.workspace-scope.v1",
        workspace.as_bytes(),
        connection.unwrap_or(UNRESOLVED).as_bytes(),
    ]))
}

impl Round {
    /// The round of a request with these `params`. Recognised by the members alone, in any
    /// protocol era (CONTRACT section 11); an explicit `null` state is the same as none.
    pub fn of(params: Value<'_, '_>) -> Self {
        let state = params.get("requestState");
        if state.is_none() && params.get("inputResponses").is_none() {
            return Self::default();
        }
        Self(state.map_or_else(|| b"null".to_vec(), canonical))
    }

    /// Whether this is an opening request.
    pub fn is_opening(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes that the slot is hashed from; empty for an opening request.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The state is the client's payload and stays out of logs.
impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_opening() { "Round(opening)" } else { "Round(continuation)" })
    }
}

fn digest(fields: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for field in fields {
        hash.update((field.len() as u64).to_be_bytes());
        hash.update(field);
    }
    hash.finalize().into()
}

/// Canonical params without what may change with every attempt: the volatile members of the top
/// level's `_meta`, and `_meta` itself where nothing else is in it.
fn lasting_params(params: Value<'_, '_>) -> Vec<u8> {
    if params.kind() != Kind::Object {
        return canonical(params);
    }
    let mut out = Vec::with_capacity(params.raw().len());
    let lasts = |name: &str, value: Value<'_, '_>| !is_meta(name, value) || has_lasting(value);
    Writer::new(&mut out).object(params, lasts, |writer, name, value| {
        if is_meta(name, value) {
            let lasts = |name: &str, _: Value<'_, '_>| !is_volatile(name);
            writer.object(value, lasts, |writer, _, value| writer.value(value));
        } else {
            writer.value(value);
        }
    });
    out
}

fn is_meta(name: &str, value: Value<'_, '_>) -> bool {
    name == "_meta" && value.kind() == Kind::Object
}

fn has_lasting(meta: Value<'_, '_>) -> bool {
    meta.members().any(|(name, _)| !is_volatile(&name))
}

fn is_volatile(name: &str) -> bool {
    VOLATILE_META.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::json::Document;
    use crate::claim::key::KeyFormat;

    #[track_caller]
    fn parse(text: &str) -> Document<'_> {
        Document::parse(text.as_bytes()).expect("the text is JSON")
    }

    #[track_caller]
    fn assert_lasts(params: &str, expected: &str) {
        let written = lasting_params(parse(params).root());
        assert_eq!(String::from_utf8_lossy(&written), expected, "{params}");
    }

    #[test]
    fn fields_are_prefixed_with_their_lengths() {
        // The SHA-256 of two fields "a" and "" must be that of these seventeen bytes.
        let bytes = b"\0\0\0\0\0\0\0\x01a\0\0\0\0\0\0\0\0";
        let whole: [u8; 32] = Sha256::digest(bytes).into();
        assert_eq!(digest(&[b"a", b""]), whole);
    }

    #[test]
    fn a_dispatch_is_its_route_and_its_binding() {
        // Lengths of 8 bytes before each field, as in every digest here.
        let bytes =
            b"\0\0\0\0\0\0\0\x14onceward.dispatch.v1\0\0\0\0\0\0\0\x02{}\0\0\0\0\0\0\0\x01x";
        let whole: [u8; 32] = Sha256::digest(bytes).into();
        assert_eq!(dispatch_hash(b"{}", "x"), DispatchHash::from_bytes(whole));
        assert_ne!(dispatch_hash(b"{}", "xy"), dispatch_hash(b"{}x", "y"));
    }

    #[test]
    fn every_volatile_member_is_left_out_and_nothing_else() {
        for name in VOLATILE_META {
            assert_lasts(&format!(r#"{{"_meta":{{"{name}":{{"x":1}}}},"a":1}}"#), r#"{"a":1}"#);
            let beside = format!(r#"{{"_meta":{{"{name}":1,"z":[],"{name}-2":2}}}}"#);
            let mut kept = [format!(r#""{name}-2":2"#), r#""z":[]"#.to_owned()];
            kept.sort();
            assert_lasts(&beside, &format!(r#"{{"_meta":{{{}}}}}"#, kept.join(",")));
        }
    }

    #[test]
    fn only_the_top_levels_meta_object_is_reduced() {
        let unchanged = [
            r#"{"arguments":{"_meta":{"progressToken":1}},"name":"x"}"#,
            r#"{"_meta":{"x":{"_meta":{"progressToken":1},"progressToken":2}}}"#,
            r#"{"progressToken":1}"#,
            r#"{"_meta":null}"#,
            r#"{"_meta":["progressToken"]}"#,
            r#"{"_meta":"progressToken"}"#,
        ];
        for params in unchanged {
            assert_lasts(params, params);
        }
        assert_lasts(r#"{"_meta":{}}"#, "{}");
        assert_lasts(r#"{"\u005fmeta":{"\u0070rogressToken":1}}"#, "{}");
        assert_lasts(r#"["_meta", 1]"#, r#"["_meta",1]"#);
    }

    #[test]
    fn a_round_is_recognised_by_its_members() {
        let rounds = [
            (r#"{"name":"x","arguments":{"requestState":"s","inputResponses":{}}}"#, ""),
            (r#"{"requestState":"s"}"#, r#""s""#),
            (r#"{"inputResponses":{"a":{"action":"accept"}},"requestState":"s"}"#, r#""s""#),
            (r#"{"requestState":{"b":1,"\u0061":[ ]}}"#, r#"{"a":[],"b":1}"#),
            (r#"{"requestState":null}"#, "null"),
            (r#"{"inputResponses":{}}"#, "null"),
            (r#"{"inputResponses":null}"#, "null"),
            (r#"{"requestState":""}"#, r#""""#),
            ("[]", ""),
        ];
        for (params, expected) in rounds {
            let round = Round::of(parse(params).root());
            assert_eq!(String::from_utf8_lossy(round.as_bytes()), expected, "{params}");
            assert_eq!(round.is_opening(), expected.is_empty(), "{params}");
        }
    }

    #[test]
    fn debug_of_a_round_does_not_show_its_state() {
        let round = Round::of(parse(r#"{"requestState":"secret"}"#).root());
        assert_eq!(format!("{round:?}"), "Round(continuation)");
        assert_eq!(format!("{:?}", Round::default()), "Round(opening)");
    }

    #[test]
    fn a_workspace_call_without_a_connection_is_unresolved() {
        let key = Key::parse(b"k", KeyFormat::Any).expect("valid");
        let slot = |connection| workspace_scoped_key("w", connection, "t", &key, &Round::default());
        assert_eq!(slot(None), slot(Some("unresolved")));
        assert_ne!(slot(None), slot(Some("")));
        assert_eq!(workspace_scope_id("w", None), workspace_scope_id("w", Some("unresolved")));
    }
}
