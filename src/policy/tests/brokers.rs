//! Brokers, and how their own retries are switched off (EFFECTS section 5).

use super::{assert_refused, document, server};
use crate::policy::*;

fn switch(retries_off: &str) -> Option<RetriesOff> {
    let yaml = document(&format!("  broker: true\n  retries_off: {retries_off}\n"));
    server(&yaml).retries_off.clone()
}

#[test]
fn a_broker_says_how_its_retries_are_switched_off() {
    assert_eq!(switch("none_exist"), Some(RetriesOff::NoneExist));
    let Some(RetriesOff::Header(name, value)) =
        switch("{ header: { name: X-Retries, value: '0' } }")
    else {
        panic!("a header")
    };
    assert_eq!((name.as_str(), value.as_bytes()), ("x-retries", &b"0"[..]));
    assert_eq!(
        switch("{ query: { name: max retries, value: '0&1=ä' } }"),
        Some(RetriesOff::Query("max+retries=0%261%3D%C3%A4".to_owned()))
    );
    for (value, json) in
        [("false", "false"), ("0", "0"), ("-1", "-1"), ("'a\"b'", r#""a\"b""#), ("'0'", r#""0""#)]
    {
        let body =
            format!("{{ body: {{ pointer: /params/_meta/com.b~1retries, value: {value} }} }}");
        let Some(RetriesOff::Body(pointer, text)) = switch(&body) else { panic!("{body}") };
        assert_eq!(pointer.as_str(), "/params/_meta/com.b~1retries");
        assert_eq!(text, json, "{value}");
    }
}

#[test]
fn a_broker_that_says_nothing_or_nothing_that_can_be_sent_is_refused() {
    assert_refused(&[
        ("  broker: true\n", &["server.retries_off", "is required of a broker", "`none_exist`"]),
        ("  broker: true\n  retries_off: ''\n", &["server.retries_off", "is required"]),
        ("  retries_off: none_exist\n", &["server.retries_off", "`server.broker: true`"]),
        (
            "  broker: false\n  retries_off: { query: { name: a, value: b } }\n",
            &["server.retries_off", "`server.broker: true`"],
        ),
        ("  broker: true\n  retries_off: never\n", &["server.retries_off", "must be `none_exist`"]),
        ("  broker: true\n  retries_off: {}\n", &["server.retries_off", "must be `none_exist`"]),
        (
            "  broker: true\n  retries_off: { query: { name: a, value: b }, header: { name: a, value: b } }\n",
            &["server.retries_off", "must be `none_exist`"],
        ),
        (
            "  broker: true\n  retries_off: { header: { name: Authorization, value: b } }\n",
            &["server.retries_off.header.name", "taken"],
        ),
        (
            "  broker: true\n  retries_off: { header: { name: Idempotency-Key, value: b } }\n",
            &["server.retries_off.header.name", "taken"],
        ),
        (
            "  broker: true\n  retries_off: { header: { name: X-S, value: b } }\nsession: { header_name: X-S }\n",
            &["server.retries_off.header.name", "taken"],
        ),
        (
            "  broker: true\n  retries_off: { header: { name: a, value: ' ' } }\n",
            &["server.retries_off.header.value"],
        ),
        (
            "  broker: true\n  retries_off: { query: { name: '', value: b } }\n",
            &["server.retries_off.query.name", "empty"],
        ),
        (
            "  broker: true\n  retries_off: { body: { pointer: /method, value: b } }\n",
            &["server.retries_off.body.pointer", "below `/params`"],
        ),
        (
            "  broker: true\n  retries_off: { body: { pointer: /params/a, value: 1.5 } }\n",
            &["server.retries_off.body.value", "whole number"],
        ),
        (
            "  broker: true\n  retries_off: { body: { pointer: /params/a } }\n",
            &["server.retries_off.body", "value"],
        ),
    ]);
    let message = super::refusal(
        "schema_version: v1\nserver: { name: a, upstream: 'http://h/?retries=3', broker: true, \
         retries_off: { query: { name: retries, value: '0' } } }\n",
    );
    assert!(message.contains("server.retries_off.query.name: is in the query of"), "{message}");
}

#[test]
fn the_tools_of_a_broker_have_no_binding() {
    let broker = "  broker: true\n  retries_off: none_exist\n";
    let with = |effect: &str| format!("{broker}tools: [{{ name: t, effect: {{ {effect} }} }}]\n");
    server(&document(&with("idempotency: unsupported, retryable: [503]")));
    for binding in ["{ header: Idempotency-Key }", "{ body_pointer: /params/arguments/a }"] {
        assert_refused(&[(
            &with(&format!("idempotency: {binding}")),
            &["tools[0].effect.idempotency", "broker"],
        )]);
    }
}
