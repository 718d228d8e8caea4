//! What tools declare of their effect (EFFECTS section 2).

use super::{assert_refused, document, refusal, server};
use crate::policy::*;
use crate::upstream::{StatusSet, Statuses};

/// The only tool of a document, with these fields.
fn tool(fields: &str) -> Tool {
    let server = server(&document(&format!("tools: [{{ name: t, {fields} }}]\n")));
    server.tool("t").expect("listed").clone()
}

fn effect(fields: &str) -> Effect {
    let tool = tool(&format!("effect: {{ {fields} }}"));
    tool.effect.expect("it has a spec").as_ref().clone()
}

#[test]
fn an_empty_spec_has_the_pages_defaults_and_differs_from_none() {
    assert_eq!(tool("effect: null").effect, None);
    assert_eq!(tool("side_effect: read").effect, None);
    let spec = effect("");
    assert_eq!((spec.environment, spec.binding), (None, KeyBinding::Unsupported));
    assert_eq!(spec.on_unknown, OnUnknown::Refuse);
    let Statuses { accepted, rejected, retryable } = spec.statuses;
    assert_eq!((accepted, rejected), (StatusSet::of(200..=299), StatusSet::of(400..=499)));
    assert_eq!(retryable, StatusSet::default());
}

#[test]
fn every_field_is_taken_over() {
    let tool = tool(
        "effect: { side_effect: destructive, environment: production, \
         idempotency: { header: Idempotency-Key }, accepted: [200-204, 409], \
         definitely_rejected: [400-408, 410-499], retryable: [429, 503], on_unknown: redispatch }",
    );
    assert_eq!(tool.side_effect, Some(SideEffect::Destructive));
    let spec = tool.effect.expect("it has a spec");
    assert_eq!(spec.environment.as_deref(), Some("production"));
    assert_eq!(spec.binding.describe(), "header idempotency-key");
    assert_eq!(spec.on_unknown, OnUnknown::Redispatch);
    let Statuses { accepted, rejected, retryable } = spec.statuses;
    let held = |set: StatusSet| (100..=599).filter(move |status| set.contains(*status));
    assert!(held(accepted).eq((200..=204).chain([409])));
    assert!(held(rejected).eq((400..=408).chain(410..=499)));
    assert!(held(retryable).eq([429, 503]), "it may overlap what is rejected");
}

#[test]
fn a_binding_is_a_header_a_place_in_the_body_or_unsupported() {
    for (binding, expected) in [
        ("unsupported", "unsupported"),
        ("Unsupported", "unsupported"),
        ("''", "unsupported"),
        ("null", "unsupported"),
        ("{ header: X-Request-Id }", "header x-request-id"),
        (
            "{ header: '', body_pointer: /params/arguments/token }",
            "body_pointer /params/arguments/token",
        ),
        (
            "{ body_pointer: /params/_meta/com.example~1key }",
            "body_pointer /params/_meta/com.example~1key",
        ),
    ] {
        let spec = effect(&format!("idempotency: {binding}"));
        assert_eq!(spec.binding.describe(), expected, "{binding}");
    }
}

#[test]
fn a_side_effect_may_stand_in_either_place_and_must_not_disagree() {
    for fields in [
        "side_effect: write",
        "effect: { side_effect: write }",
        "side_effect: write, effect: { side_effect: Write }",
        "side_effect: write, effect: { environment: e }",
    ] {
        assert_eq!(tool(fields).side_effect, Some(SideEffect::Write), "{fields}");
    }
    assert_eq!(tool("effect: {}").side_effect, None);
    assert_refused(&[(
        "tools: [{ name: a }, { name: t, side_effect: read, effect: { side_effect: write } }]\n",
        &["tools[1].effect.side_effect", "`tools[1].side_effect`"],
    )]);
}

#[test]
fn statuses_are_numbers_and_ranges_from_100_to_599() {
    let spec =
        effect("retryable: [100, 500-599, 503, 300-300], accepted: [], definitely_rejected: []");
    let retryable = spec.statuses.retryable;
    for (status, held) in [(100, true), (300, true), (599, true), (499, false), (600, false)] {
        assert_eq!(retryable.contains(status), held, "{status}");
    }
    assert_eq!(spec.statuses.accepted, StatusSet::default());
    for bad in [
        "99",
        "600",
        "-200",
        "200.5",
        "true",
        "'429'",
        "abc",
        "200-",
        "-299",
        "200-600",
        "99-200",
        "2xx",
        "200 - 299",
        "200-299-300",
        "0200-0299",
        "+20-299",
        "70000",
        "null",
        "[200]",
    ] {
        let message = refusal(&document(&format!(
            "tools: [{{ name: t, effect: {{ accepted: [201, {bad}] }} }}]\n"
        )));
        for part in ["policy.yaml:6:", "tools[0].effect.accepted[1]", "from 100 to 599"] {
            assert!(message.contains(part), "{bad}: {message}");
        }
    }
    assert_refused(&[(
        "tools: [{ name: t, effect: { retryable: [503, 299-200] } }]\n",
        &["tools[0].effect.retryable[1]", "is empty"],
    )]);
}

#[test]
fn a_status_means_one_thing() {
    let with = |sets: &str| format!("tools: [{{ name: t, effect: {{ {sets} }} }}]\n");
    for (sets, field, expected) in [
        ("accepted: [200-299, 409]", "accepted", "holds 409, and so does `definitely_rejected`"),
        ("definitely_rejected: [299]", "definitely_rejected", "holds 299, and so does `accepted`"),
        ("accepted: [201], definitely_rejected: [201]", "accepted", "holds 201"),
        ("retryable: [200-201]", "retryable", "holds 200, and so does `accepted`"),
        ("retryable: [404], accepted: [404], definitely_rejected: []", "retryable", "holds 404"),
    ] {
        let message = refusal(&document(&with(sets)));
        for part in [&format!("tools[0].effect.{field}: "), expected] {
            assert!(message.contains(part), "{sets}: {message}");
        }
    }
    effect("retryable: [429, 404]");
}

#[test]
fn what_a_spec_must_not_say_is_refused_with_its_place() {
    assert_refused(&[
        (
            "tools: [{ name: t, effect: { on_unknown: redispatch } }]\n",
            &["tools[0].effect.on_unknown", "needs `idempotency`", "twice"],
        ),
        (
            "tools: [{ name: t, effect: { on_unknown: retry } }]\n",
            &["tools[0].effect.on_unknown", "`refuse` or `redispatch`"],
        ),
        (
            "tools: [{ name: t, effect: { idempotency: header } }]\n",
            &["tools[0].effect.idempotency", "`unsupported`", "body_pointer"],
        ),
        (
            "tools: [{ name: t, effect: { idempotency: {} } }]\n",
            &["tools[0].effect.idempotency", "`unsupported`", "body_pointer"],
        ),
        (
            "tools: [{ name: t, effect: { idempotency: { header: a, body_pointer: /params/a } } }]\n",
            &["tools[0].effect.idempotency", "`unsupported`"],
        ),
        (
            "tools: [{ name: t, effect: { idempotency: { heder: a } } }]\n",
            &["policy.yaml:6:", "tools[0].effect.idempotency", "heder"],
        ),
        (
            "tools: [{ name: t, effect: { idempotency: [a] } }]\n",
            &["tools[0].effect.idempotency", "a word or a table"],
        ),
        (
            "tools: [{ name: t, effect: { idempotency: { header: 'a b' } } }]\n",
            &["tools[0].effect.idempotency.header", "not a valid HTTP header name"],
        ),
        (
            "tools: [{ name: t, effect: { idempotency: { header: Authorization } } }]\n",
            &["tools[0].effect.idempotency.header", "taken"],
        ),
        (
            "tools: [{ name: t, effect: { idempotency: { body_pointer: params } } }]\n",
            &["tools[0].effect.idempotency.body_pointer", "begin with `/`"],
        ),
        (
            "tools: [{ name: t, effect: { idempotency: { body_pointer: /params/name } } }]\n",
            &["tools[0].effect.idempotency.body_pointer", "belongs to MCP"],
        ),
        (
            "tools: [{ name: t, effect: { enviroment: a } }]\n",
            &["policy.yaml:6:", "tools[0].effect", "enviroment"],
        ),
        ("tools: [{ name: t, effect: write }]\n", &["tools[0].effect", "expected"]),
    ]);
    let long = "e".repeat(MAX_ENVIRONMENT + 1);
    let message =
        refusal(&document(&format!("tools: [{{ name: t, effect: {{ environment: {long} }} }}]\n")));
    assert!(message.contains("tools[0].effect.environment") && message.contains("64"), "{message}");
    effect(&format!("environment: {}", "e".repeat(MAX_ENVIRONMENT)));
}

#[test]
fn a_key_goes_into_no_header_of_the_servers_own() {
    for own in [
        "session: { header_name: X-Own }",
        "session: { upstream_token_header: X-Own, upstream_token: env:CARGO_PKG_NAME }",
    ] {
        let message = refusal(&document(&format!(
            "{own}\ntools: [{{ name: t, effect: {{ idempotency: {{ header: x-own }} }} }}]\n"
        )));
        assert!(message.contains("idempotency.header: is taken"), "{own}: {message}");
    }
    effect("idempotency: { header: X-Own }");
}

#[test]
fn the_mistakes_of_every_tool_are_named_at_once() {
    let message = refusal(&document(
        "tools:\n  - { name: a, effect: { on_unknown: redispatch } }\n  - { name: b }\n  \
         - { name: c, effect: { retryable: [200] } }\n",
    ));
    for field in ["tools[0].effect.on_unknown", "tools[2].effect.retryable"] {
        assert!(message.contains(field), "{message}");
    }
    assert_eq!(message.lines().count(), 2, "{message}");
}

#[test]
fn environments_of_a_rule_are_names_and_listed_once() {
    let server =
        server(&document("policy: { deny_unsupported_writes: [production, 'two words'] }\n"));
    let mut listed: Vec<_> = server.deny_unsupported_writes.iter().map(String::as_str).collect();
    listed.sort_unstable();
    assert_eq!(listed, ["production", "two words"]);
    assert_refused(&[
        (
            "policy: { deny_unsupported_writes: [a, ''] }\n",
            &["policy.deny_unsupported_writes[1]", "1 to 64"],
        ),
        (
            "policy: { deny_unsupported_writes: [a, a] }\n",
            &["policy.deny_unsupported_writes[1]", "twice"],
        ),
        (
            "policy: { deny_unsupported_writes: production }\n",
            &["policy.deny_unsupported_writes", "sequence"],
        ),
    ]);
}
