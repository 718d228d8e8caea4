//! docs/ERRORS.md names every reason, and says of each what the code says.

use std::collections::BTreeMap;

use actix_web::body::MessageBody;
use onceward::gateway::error::Refusal;

use crate::markdown::fences;

const PAGE: &str = include_str!("../../docs/ERRORS.md");
const REFUSALS: &str = concat!(
    include_str!("../../src/gateway/error/request.rs"),
    include_str!("../../src/gateway/error/outcome.rs"),
    include_str!("../../src/gateway/error/receipts.rs"),
    include_str!("../../src/gateway/error.rs"),
);
const AUTHORIZATION: &str = include_str!("../../src/policy/authorize.rs");
const OAUTH_REFUSALS: &str = include_str!("../../src/gateway/error/oauth.rs");
const AUTHENTICATION: [&str; 3] = [
    include_str!("../../src/identity/mod.rs"),
    include_str!("../../src/identity/mtls.rs"),
    include_str!("../../src/identity/oauth/fault.rs"),
];

/// What a reason stands for.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    status: u16,
    code: i32,
    advice: String,
    /// `None`: no header. `Some("")`: a number that the moment decides.
    retry_after: Option<String>,
}

impl Facts {
    fn by_policy(status: u16) -> Self {
        Self {
            status,
            code: -31000 - i32::from(status),
            advice: "fix_request".to_owned(),
            retry_after: None,
        }
    }
}

fn without_tests(source: &str) -> &str {
    source.split("#[cfg(test)]").next().unwrap_or(source)
}

/// The text between two others.
fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("`{start}` in the source"));
    rest.split_once(end).unwrap_or_else(|| panic!("`{end}` in the source")).0
}

/// Every refusal whose reason is a literal.
fn refusals() -> BTreeMap<String, Facts> {
    let source = without_tests(REFUSALS);
    let mut found = BTreeMap::new();
    let constructors = [source, without_tests(OAUTH_REFUSALS)].concat();
    for after in constructors.split("Self::new(").skip(1) {
        let after = after.split("pub fn ").next().unwrap_or(after);
        let Some((status, rest)) = after.split_once(',') else { continue };
        let (Ok(status), Some(rest)) =
            (status.trim().parse::<u16>(), rest.trim_start().strip_prefix('"'))
        else {
            continue;
        };
        let (reason, rest) = rest.split_once('"').expect("a literal ends");
        let code = match rest.contains(".code(") {
            true => constant(source, between(rest, ".code(", ")")),
            false => -31000 - i32::from(status),
        };
        let advice = source
            .split_once(&format!("Self::{} => \"", between(rest, "Advice::", ",")))
            .and_then(|(_, rest)| rest.split_once('"'))
            .expect("the advice has a name");
        let retry_after = rest.contains(".retry_after(").then(|| {
            let seconds = between(rest, ".retry_after(", ")");
            seconds.chars().filter(char::is_ascii_digit).collect()
        });
        let facts = Facts { status, code, advice: advice.0.to_owned(), retry_after };
        found.insert(reason.to_owned(), facts);
    }
    found
}

fn constant(source: &str, name: &str) -> i32 {
    between(source, &format!("const {name}: i32 = "), ";").parse().expect("a number")
}

/// The reasons of the policy that refuse, with their status.
fn policy_reasons() -> BTreeMap<String, Facts> {
    let names = between(AUTHORIZATION, "fn as_str(self)", "\n    }\n");
    let unauthorized =
        between(between(AUTHORIZATION, "fn refusal_status(self)", "403"), "{", "401");
    let mut found = BTreeMap::new();
    for arm in names.split("Self::").skip(1) {
        let variant = arm.split_once(' ').expect("an arm").0;
        let status = match unauthorized
            .split("Self::")
            .any(|one| one.trim_end_matches(|c: char| !c.is_ascii_alphabetic()) == variant)
        {
            true => 401,
            false => 403,
        };
        if variant != "Allowed" {
            found.insert(between(arm, "\"", "\"").to_owned(), Facts::by_policy(status));
        }
    }
    found
}

/// The reasons of authentication.
fn authentication_reasons() -> BTreeMap<String, Facts> {
    let arms = AUTHENTICATION.map(|source| between(source, "fn reason(self)", "\n    }\n"));
    let names = arms.into_iter().flat_map(|arms| arms.split('"').skip(1).step_by(2));
    names.map(|name| (name.to_owned(), Facts::by_policy(401))).collect()
}

/// What the page says.
fn documented() -> BTreeMap<String, Facts> {
    let mut found = BTreeMap::new();
    for part in PAGE.split("\n### ").skip(1) {
        let (heading, rest) = part.split_once('\n').expect("a heading");
        let reason = heading.trim_matches('`');
        let facts: Vec<&str> = rest.lines().next().unwrap_or_default().split(" · ").collect();
        let [status, code, advice, retry, fate] = facts[..] else {
            panic!("{reason} has five facts: {facts:?}")
        };
        assert!(!fate.is_empty(), "{reason} says what became of the request");
        let seconds = |text: &str| text.chars().filter(char::is_ascii_digit).collect();
        let retry_after = match retry.strip_prefix("Retry-After: ") {
            Some(text) => Some(seconds(text)),
            None => {
                assert_eq!(retry, "no Retry-After", "{reason}");
                None
            }
        };
        let facts = Facts {
            status: status.parse().expect("a status"),
            code: code.parse().expect("a code"),
            advice: advice.trim_matches('`').to_owned(),
            retry_after,
        };
        assert!(found.insert(reason.to_owned(), facts).is_none(), "{reason} stands once");
        let prose = rest.lines().skip(1).collect::<String>();
        assert!(prose.len() > 40, "{reason} is explained");
    }
    found
}

#[test]
fn every_reason_has_its_heading_with_the_codes_facts_and_none_is_made_up() {
    let refusals = refusals();
    assert!(refusals.len() > 20, "the source was read: {refusals:?}");
    let mut known = policy_reasons();
    assert_eq!(known.len(), 12, "{known:?}");
    known.extend(authentication_reasons());
    known.extend(refusals);
    let documented = documented();
    for (reason, facts) in &known {
        assert_eq!(documented.get(reason), Some(facts), "{reason}");
    }
    for reason in documented.keys() {
        assert!(known.contains_key(reason), "{reason} does not exist");
    }
}

#[test]
fn the_example_is_a_real_answer() {
    let example: serde_json::Value =
        serde_json::from_str(fences(PAGE, "json")[0]).expect("the example is JSON");
    let body = Refusal::in_flight().response(Some("7")).into_body();
    let bytes = body.try_into_bytes().expect("a whole body");
    let mut real: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    real["error"]["data"]["key_hash"] = example["error"]["data"]["key_hash"].clone();
    assert_eq!(example, real);
}

#[test]
fn every_advice_is_explained() {
    let advice = between(without_tests(REFUSALS), "fn as_str(self)", "\n    }\n");
    for name in advice.split('"').skip(1).step_by(2) {
        assert!(PAGE.contains(&format!("\n| `{name}` |")), "{name}");
    }
}
