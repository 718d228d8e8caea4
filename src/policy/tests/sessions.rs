//! What a sessions file may say.

use crate::policy::*;

fn parse(text: &str) -> Result<SessionsFile, PolicyError> {
    SessionsFile::parse("sessions.json".as_ref(), text.as_bytes())
}

#[test]
fn both_forms_hold_the_same_bindings() {
    let binding = r#"{"name":"s","namespace":"n","human_id":"ann","agent_id":"a","team_id":"t",
        "consented_trust":"medium","revoked":true,"expires_at":"2026-01-01T00:00:00Z",
        "policy_version":"3","upstream_token_ref":"x"}"#;
    let array = parse(&format!(" \n[{binding}]")).expect("an array");
    let object = parse(&format!(r#"{{"sessions":[{binding}]}}"#)).expect("an object");
    assert_eq!(array, object);
    let found = array.get("n", "s").expect("listed");
    assert_eq!((found.consented_trust, found.revoked), (Trust::Medium, true));
    assert!(array.get("", "s").is_none() && array.get("n", "t").is_none());
    assert!(parse("[]").expect("empty").is_empty());
    assert!(parse(r#"{"sessions":[]}"#).expect("empty").is_empty());
}

#[test]
fn mistakes_are_refused_with_their_place() {
    for (text, expected) in [
        ("", "sessions.json:1:1"),
        ("[{\"name\":\"s\"", "sessions.json:1:13"),
        (r#"{"session":[]}"#, "`session`"),
        (r#"[{"name":"s","colour":"red"}]"#, "[0]"),
        (r#"[{"name":"s","consented_trust":"huge"}]"#, "[0].consented_trust"),
        (r#"[{"name":"s","expires_at":"2026"}]"#, "[0].expires_at"),
        (r#"[{"name":""}]"#, "sessions[0].name"),
        (r#"[{"name":"s"},{"name":"s","namespace":""}]"#, "sessions[1].name"),
        (r#"[{"name":"s","name":"t"}]"#, "repeated"),
    ] {
        let message = parse(text).expect_err(text).to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }
    assert!(parse(r#"[{"name":"s"},{"name":"s","namespace":"n"}]"#).is_ok());
}

#[test]
fn the_number_of_bindings_is_bounded() {
    let list = |count: usize| {
        let names: Vec<_> = (0..count).map(|at| format!(r#"{{"name":"s{at}"}}"#)).collect();
        parse(&format!("[{}]", names.join(",")))
    };
    assert_eq!(list(MAX_SESSIONS).expect("within").len(), MAX_SESSIONS);
    assert!(list(MAX_SESSIONS + 1).expect_err("beyond").to_string().contains("65536"));
}
