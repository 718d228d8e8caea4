//! The order of CONTRACT section 9, reason by reason, and two causes at once.

use jiff::Timestamp;

use super::server;
use crate::identity::Principal;
use crate::policy::*;

const POLICY: &str = "schema_version: v1
server: { name: s, namespace: bank, uid: u, upstream: 'http://h' }
POLICY
session: { required: REQUIRED }
tools:
  - { name: read, side_effect: read }
  - { name: write, side_effect: write, required_trust: medium }
  - { name: wipe, side_effect: destructive, required_trust: high }
  - { name: mute }
grants:
  - { name: ann-all, human_id: ann, max_trust: medium, allowed_side_effects: [read, write] }
  - { name: ann-no, human_id: ann, agent_id: bot, tool_rules: [{ name: read, decision: deny }] }
  - { name: ben-read, human_id: ben, max_trust: high, allowed_side_effects: [read],
      tool_rules: [{ name: read, required_trust: medium }] }
  - { name: ben-write, human_id: ben, max_trust: low, allowed_side_effects: [write],
      tool_rules: [{ name: write }] }
  - { name: off, human_id: cat, disabled: true, allowed_side_effects: [read] }
  - { name: anybody, max_trust: high, allowed_side_effects: [read, write, destructive] }
  - { name: team, team_id: ops, max_trust: high, allowed_side_effects: [read, destructive] }
  - { name: dee, human_id: dee, team_id: dev, max_trust: high, allowed_side_effects: [read] }
sessions:
  - { name: live, human_id: ann, consented_trust: high }
  - { name: modest, human_id: ann }
  - { name: bens, human_id: ben, consented_trust: high }
  - { name: gone, human_id: ann, revoked: true, expires_at: '2026-01-01T00:00:00Z' }
  - { name: late, human_id: ann, expires_at: '2026-06-01T12:00:00Z' }
  - { name: elsewhere, namespace: other, human_id: ann }
  - { name: nobodys }
";

/// `late` ends at this moment, and has ended then.
const NOW: &str = "2026-06-01T12:00:00Z";

#[derive(Clone, Copy)]
struct Case {
    policy: &'static str,
    required: bool,
    caller: &'static str,
    session: Option<&'static str>,
    tool: Option<&'static str>,
    keyed: bool,
}

const CASE: Case = Case {
    policy: "",
    required: false,
    caller: "ann",
    session: None,
    tool: Some("read"),
    keyed: false,
};

impl Case {
    fn policy(self, policy: &'static str) -> Self {
        Self { policy, ..self }
    }

    fn required(self) -> Self {
        Self { required: true, ..self }
    }

    fn caller(self, caller: &'static str) -> Self {
        Self { caller, ..self }
    }

    fn session(self, session: &'static str) -> Self {
        Self { session: Some(session), ..self }
    }

    fn tool(self, tool: &'static str) -> Self {
        Self { tool: Some(tool), ..self }
    }

    fn no_tool(self) -> Self {
        Self { tool: None, ..self }
    }

    fn keyed(self) -> Self {
        Self { keyed: true, ..self }
    }
}

/// `human/agent/team`; empty is nobody.
fn principal(text: &str) -> Option<Principal> {
    let mut parts = text.split('/');
    Principal::new(parts.next(), parts.next(), parts.next()).ok()
}

fn decide(case: Case) -> Decision {
    let policy = POLICY
        .replace("POLICY", case.policy)
        .replace("REQUIRED", if case.required { "true" } else { "false" });
    decide_at(&policy, &SessionsFile::default(), case, NOW)
}

fn decide_at(policy: &str, sessions: &SessionsFile, case: Case, now: &str) -> Decision {
    let caller = principal(case.caller);
    let server = server(policy);
    let request = Request {
        caller: caller.as_ref(),
        session: case.session,
        tool: case.tool,
        declared: case.tool.and_then(|tool| server.tool(tool)),
        keyed: case.keyed,
        now: now.parse::<Timestamp>().expect("a time"),
    };
    authorize(&server, sessions, &request)
}

fn assert_refused(case: Case, status: u16, reason: &str) {
    let decision = decide(case);
    assert_eq!(
        (decision.allowed, decision.status, decision.reason.as_str()),
        (false, status, reason)
    );
}

fn assert_allowed(case: Case, grant: Option<&str>) {
    let decision = decide(case);
    assert_eq!(
        (decision.allowed, decision.status, decision.reason.as_str(), decision.grant.as_deref()),
        (true, 200, "allowed", grant)
    );
}

#[test]
fn each_cause_has_its_status_and_reason() {
    let required = CASE.required();
    for (case, status, reason) in [
        (CASE.caller(""), 401, "missing_identity"),
        (required, 401, "missing_session"),
        (required.session("nope"), 401, "session_not_found"),
        (required.session(""), 401, "session_not_found"),
        (required.session("bens"), 401, "session_not_found"),
        (required.session("elsewhere"), 401, "session_not_found"),
        (required.session("nobodys"), 401, "session_not_found"),
        (required.session("gone"), 401, "session_revoked"),
        (required.session("late"), 401, "session_expired"),
        (CASE.caller("zoe"), 403, "no_matching_grant"),
        (CASE.caller("cat"), 403, "no_matching_grant"),
        (CASE.caller("dee//ops2"), 403, "no_matching_grant"),
        (CASE.caller("ann/bot"), 403, "tool_denied"),
        (CASE.caller("ben").tool("wipe"), 403, "tool_not_granted"),
        (CASE.tool("mute"), 403, "tool_side_effect_unknown"),
        (CASE.tool("unlisted"), 403, "tool_side_effect_unknown"),
        (CASE.tool("wipe"), 403, "side_effect_not_allowed"),
        (CASE.caller("ben").tool("write"), 403, "trust_too_low"),
        (CASE.session("modest").tool("write"), 403, "trust_too_low"),
    ] {
        assert_refused(case, status, reason);
    }
}

#[test]
fn of_two_causes_the_earlier_names_the_reason() {
    let required = CASE.required();
    for (case, status, reason) in [
        // No identity before a missing, unknown or foreign session, and before a denied tool.
        (required.caller(""), 401, "missing_identity"),
        (required.caller("").session("gone"), 401, "missing_identity"),
        // The session before grants.
        (required.caller("zoe"), 401, "missing_session"),
        (required.caller("ann/bot").session("nope"), 401, "session_not_found"),
        // Foreign before revoked, revoked before expired (`gone` is both).
        (required.caller("ben").session("gone"), 401, "session_not_found"),
        (required.session("gone"), 401, "session_revoked"),
        // Expired before an unknown side effect.
        (required.session("late").tool("mute"), 401, "session_expired"),
        // No grant before an unknown side effect.
        (CASE.caller("zoe").tool("mute"), 403, "no_matching_grant"),
        // A deny before another grant's allow (`ann-all` would).
        (CASE.caller("ann/bot").session("live"), 403, "tool_denied"),
        // Not covered before an unknown side effect.
        (CASE.caller("ben").tool("mute"), 403, "tool_not_granted"),
        // An unknown side effect before trust, a forbidden one before trust.
        (CASE.tool("mute").session("modest"), 403, "tool_side_effect_unknown"),
        (CASE.tool("wipe").session("modest"), 403, "side_effect_not_allowed"),
    ] {
        assert_refused(case, status, reason);
    }
}

#[test]
fn what_is_granted_is_allowed_and_names_the_grant() {
    assert_allowed(CASE, Some("ann-all"));
    assert_allowed(CASE.tool("write"), Some("ann-all"));
    assert_allowed(CASE.tool("write").session("live"), Some("ann-all"));
    // The rule's required trust is the grant's own to meet.
    assert_allowed(CASE.caller("ben"), Some("ben-read"));
    // Every named subject is the caller's; parts that are not named do not matter.
    assert_allowed(CASE.caller("zoe/bot/ops").tool("wipe"), Some("team"));
    assert_allowed(CASE.caller("dee/bot/dev"), Some("dee"));
    // A grant that falls short does not stand in the way of one that does not.
    assert_allowed(CASE.caller("ann//ops").tool("wipe"), Some("team"));
}

#[test]
fn two_grants_do_not_lend_each_other_trust() {
    // `low` allows writing and `high` is trusted; neither does both.
    let policy = "schema_version: v1
server: { name: s, upstream: 'http://h' }
tools: [{ name: write, side_effect: write, required_trust: high }]
grants:
  - { name: low, human_id: ann, max_trust: low, allowed_side_effects: [write] }
  - { name: high, human_id: ann, max_trust: high, allowed_side_effects: [read] }
";
    let case = CASE.tool("write");
    let decision = decide_at(policy, &SessionsFile::default(), case, NOW);
    assert_eq!((decision.reason, decision.grant.as_deref()), (Reason::TrustTooLow, Some("low")));
}

#[test]
fn a_refusal_names_the_grant_that_decided() {
    for (case, grant) in [
        (CASE.caller("ann/bot"), Some("ann-no")),
        (CASE.tool("mute"), Some("ann-all")),
        (CASE.tool("wipe"), Some("ann-all")),
        (CASE.caller("ben").tool("write"), Some("ben-write")),
        (CASE.caller("zoe"), None),
        (CASE.caller("ben").tool("wipe"), None),
    ] {
        assert_eq!(decide(case).grant.as_deref(), grant);
    }
}

#[test]
fn the_default_decision_covers_only_what_no_grant_speaks_of() {
    let allow = CASE.policy("policy: { default_decision: allow }");
    for (case, reason) in [
        (allow.caller("zoe"), "no_matching_grant"),
        (allow.caller("ben").tool("wipe"), "tool_not_granted"),
    ] {
        let decision = decide(case);
        assert_eq!(
            (decision.allowed, decision.status, decision.reason.as_str()),
            (true, 200, reason)
        );
    }
    assert_refused(allow.caller(""), 401, "missing_identity");
    assert_refused(allow.required(), 401, "missing_session");
    assert_refused(allow.caller("ann/bot"), 403, "tool_denied");
    assert_refused(allow.tool("mute"), 403, "tool_side_effect_unknown");
    assert_refused(allow.tool("wipe"), 403, "side_effect_not_allowed");
    assert_refused(allow.session("modest").tool("write"), 403, "trust_too_low");
}

#[test]
fn a_session_that_does_not_count_is_absent_only_for_calls_without_a_key() {
    for (session, reason) in [
        ("nope", "session_not_found"),
        ("", "session_not_found"),
        ("bens", "session_not_found"),
        ("gone", "session_revoked"),
        ("late", "session_expired"),
    ] {
        let case = CASE.session(session);
        assert_allowed(case, Some("ann-all"));
        assert_eq!(decide(case).session, None);
        assert_refused(case.keyed(), 401, reason);
        let observed = case.policy("policy: { mode: observe }");
        assert_allowed(observed, None);
        assert_refused(observed.keyed(), 401, reason);
    }
}

#[test]
fn the_bound_session_is_named_for_the_scope() {
    for case in [CASE, CASE.keyed()] {
        for case in [case, case.policy("policy: { mode: observe }")] {
            assert_eq!(decide(case.session("live")).session.as_deref(), Some("live"));
            assert_eq!(decide(case).session, None);
        }
    }
}

#[test]
fn observe_mode_allows_everything_else() {
    let observe = CASE.policy("policy: { mode: observe }").required();
    for case in [
        observe.caller(""),
        observe.caller("zoe"),
        observe.caller("ann/bot"),
        observe.tool("unlisted"),
        observe.caller("").keyed(),
    ] {
        assert_allowed(case, None);
    }
    // Nobody owns a session, so nobody's keyed call can name one.
    let anonymous = observe.caller("").session("live").keyed();
    assert_refused(anonymous, 401, "session_not_found");
}

#[test]
fn requests_that_are_no_tool_call_pass() {
    for caller in ["", "ann", "zoe"] {
        assert_allowed(CASE.caller(caller).required().no_tool(), None);
    }
}

#[test]
fn a_session_lasts_until_the_moment_it_expires() {
    let policy = POLICY.replace("POLICY", "").replace("REQUIRED", "true");
    let case = CASE.session("late");
    let at = |now| decide_at(&policy, &SessionsFile::default(), case, now).reason;
    assert_eq!(at("2026-06-01T11:59:59.999Z"), Reason::Allowed);
    assert_eq!(at("2026-06-01T12:00:00Z"), Reason::SessionExpired);
    assert_eq!(at("2026-06-01T12:00:00.001Z"), Reason::SessionExpired);
}

#[test]
fn the_sessions_file_wins_over_the_policy() {
    let policy = POLICY.replace("POLICY", "").replace("REQUIRED", "true");
    let file = |text: &str| SessionsFile::parse("s.json".as_ref(), text.as_bytes()).expect(text);
    let decide = |file: &SessionsFile, session| {
        let decision = decide_at(&policy, file, CASE.session(session), NOW);
        (decision.reason, decision.session)
    };
    let revoked = file(r#"[{"name":"live","namespace":"bank","human_id":"ann","revoked":true}]"#);
    assert_eq!(decide(&revoked, "live"), (Reason::SessionRevoked, None));
    let moved = file(r#"[{"name":"live","namespace":"bank","human_id":"ben"}]"#);
    assert_eq!(decide(&moved, "live"), (Reason::SessionNotFound, None));
    let restored = file(r#"[{"name":"gone","namespace":"bank","human_id":"ann"}]"#);
    assert_eq!(decide(&restored, "gone"), (Reason::Allowed, Some("gone".to_owned())));
    let added = file(r#"[{"name":"new","namespace":"bank","human_id":"ann"}]"#);
    assert_eq!(decide(&added, "new"), (Reason::Allowed, Some("new".to_owned())));
    // Another namespace is another session, and no namespace is that of servers without one.
    let foreign = file(
        r#"[{"name":"live","namespace":"other","human_id":"ann","revoked":true},
            {"name":"live","human_id":"ann","revoked":true}]"#,
    );
    assert_eq!(decide(&foreign, "live").0, Reason::Allowed);
}

/// Tools of two environments, and a caller who may call all of them.
const EFFECTS: &str = "schema_version: v1
server: { name: s, upstream: 'http://h' }
policy: { mode: MODE, default_decision: DEFAULT, deny_unsupported_writes: [production, canary] }
tools:
  - { name: bare, side_effect: write }
  - { name: nowhere, effect: { side_effect: write } }
  - { name: look, effect: { side_effect: read, environment: production } }
  - { name: write, effect: { side_effect: write, environment: production } }
  - { name: wipe, side_effect: destructive, effect: { environment: canary } }
  - { name: Case, effect: { side_effect: write, environment: Production } }
  - { name: staged, effect: { side_effect: write, environment: staging } }
  - { name: header, effect: { side_effect: write, environment: production,
      idempotency: { header: Idempotency-Key } } }
  - { name: body, effect: { side_effect: destructive, environment: production,
      idempotency: { body_pointer: /params/arguments/token } } }
grants:
  - { name: all, human_id: ann, allowed_side_effects: [read, write, destructive] }
  - { name: reads, human_id: ben, allowed_side_effects: [read] }
";

fn by_effect(mode: &str, default: &str, case: Case) -> Decision {
    let policy = EFFECTS.replace("MODE", mode).replace("DEFAULT", default);
    decide_at(&policy, &SessionsFile::default(), case, NOW)
}

#[test]
fn writes_that_no_vendor_dedupes_are_denied_where_the_policy_says_so() {
    for tool in ["write", "wipe"] {
        let decision = by_effect("allow-list", "deny", CASE.tool(tool));
        assert_eq!(
            (
                decision.allowed,
                decision.status,
                decision.reason.as_str(),
                decision.grant.as_deref()
            ),
            (false, 403, "tool_effect_not_idempotent", Some("all")),
            "{tool}"
        );
    }
    for tool in ["bare", "nowhere", "look", "Case", "staged", "header", "body"] {
        assert!(by_effect("allow-list", "deny", CASE.tool(tool)).allowed, "{tool}");
    }
}

#[test]
fn the_denial_by_effect_comes_after_the_grants_and_the_default() {
    let reason = |default, case| by_effect("allow-list", default, case).reason.as_str();
    assert_eq!(reason("deny", CASE.caller("ben").tool("write")), "side_effect_not_allowed");
    assert_eq!(reason("deny", CASE.caller("zoe").tool("write")), "no_matching_grant");
    assert_eq!(reason("allow", CASE.caller("zoe").tool("write")), "tool_effect_not_idempotent");
    assert_eq!(reason("allow", CASE.caller("zoe").tool("staged")), "no_matching_grant");
    assert!(by_effect("observe", "deny", CASE.tool("write")).allowed, "observe mode allows");
}
