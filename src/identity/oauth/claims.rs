//! What claims say: whether they are meant for this server now, and whom they stand for. The same
//! for the claims of a JWT and for an issuer's answer about an opaque token.

use std::borrow::Cow;

use super::fault::TokenFault;
use crate::claim::{Kind, Value};
use crate::identity::Principal;
use crate::policy::OAuth;

/// The longest `exp` and `nbf` that is read, in characters: a number of seconds, not a riddle.
const MAX_NUMBER: usize = 32;

/// Whom a token stands for, and whether it may do anything here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    /// The principal of the configured claims.
    pub principal: Principal,
    /// Whether the token has every scope that the server asks for.
    pub has_scopes: bool,
}

/// `iss`, which a JWT must have and an answer about a token may have.
pub(super) fn check_issuer(claims: Value<'_, '_>, rules: &OAuth) -> Result<(), TokenFault> {
    match claims.get("iss").and_then(Value::as_str) {
        Some(issuer) if issuer == rules.issuer => Ok(()),
        _ => Err(TokenFault::Issuer),
    }
}

/// `aud`: a text, or a list of texts of which one is this server (RFC 7519, 4.1.3).
pub(super) fn check_audience(claims: Value<'_, '_>, rules: &OAuth) -> Result<(), TokenFault> {
    let audience = claims.get("aud").ok_or(TokenFault::Audience)?;
    let ours = |text: &str| rules.audiences.iter().any(|audience| audience == text);
    let named = match audience.kind() {
        Kind::Array => audience.elements().any(|one| one.as_str().is_some_and(|text| ours(&text))),
        _ => audience.as_str().is_some_and(|text| ours(&text)),
    };
    if named { Ok(()) } else { Err(TokenFault::Audience) }
}

/// `nbf` and `exp`, with the policy's leeway; gives when the claims end, in milliseconds since the
/// epoch, leeway included, or `None` where they do not say.
pub(super) fn check_times(
    claims: Value<'_, '_>,
    rules: &OAuth,
    now_ms: i64,
) -> Result<Option<i64>, TokenFault> {
    let leeway = i64::try_from(rules.leeway.as_millis()).unwrap_or(i64::MAX);
    if let Some(from) = time(claims, "nbf")?
        && now_ms.saturating_add(leeway) < from
    {
        return Err(TokenFault::NotYetValid);
    }
    let until = time(claims, "exp")?.map(|until| until.saturating_add(leeway));
    match until {
        Some(until) if now_ms >= until => Err(TokenFault::Expired),
        _ => Ok(until),
    }
}

/// A `NumericDate` in milliseconds: seconds since the epoch, with or without a fraction.
fn time(claims: Value<'_, '_>, name: &str) -> Result<Option<i64>, TokenFault> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    if value.kind() != Kind::Number || value.raw().len() > MAX_NUMBER {
        return Err(TokenFault::Malformed);
    }
    let seconds: f64 = value.raw().parse().map_err(|_| TokenFault::Malformed)?;
    // Rounds towards the past and saturates: nothing here is valid for longer than it says.
    #[expect(clippy::cast_possible_truncation, reason = "a float's cast saturates")]
    Ok(Some((seconds * 1000.0).floor() as i64))
}

/// A token that only its holder may use is worth nothing where nobody asks for the proof.
pub(super) fn check_unbound(claims: Value<'_, '_>) -> Result<(), TokenFault> {
    if claims.get("cnf").is_some() { Err(TokenFault::Bound) } else { Ok(()) }
}

/// Whom the claims stand for.
pub(super) fn holder(claims: Value<'_, '_>, rules: &OAuth) -> Result<Holder, TokenFault> {
    let human = part(claims, &rules.claims.human)?;
    let agent = part(claims, &rules.claims.agent)?;
    let team = part(claims, &rules.claims.team)?;
    let principal = Principal::new(human.as_deref(), agent.as_deref(), team.as_deref())
        .map_err(|_| TokenFault::Subject)?;
    Ok(Holder { principal, has_scopes: has_scopes(claims, &rules.scopes) })
}

/// The first of these claims that is there. One that is there and names nobody is no absent one:
/// the caller would get another slot.
fn part<'a>(claims: Value<'_, 'a>, names: &[String]) -> Result<Option<Cow<'a, str>>, TokenFault> {
    let Some(value) = names.iter().find_map(|name| claims.get(name)) else { return Ok(None) };
    match value.as_str() {
        Some(text) if !text.is_empty() => Ok(Some(text)),
        _ => Err(TokenFault::Subject),
    }
}

/// Whether `scope` (RFC 9068, 2.2.3), or `scp` as some issuers call it, holds every one of these.
fn has_scopes(claims: Value<'_, '_>, wanted: &[String]) -> bool {
    let Some(scope) = claims.get("scope").or_else(|| claims.get("scp")) else {
        return wanted.is_empty();
    };
    let text = scope.as_str().unwrap_or_default();
    let given = |wanted: &str| match scope.kind() {
        Kind::Array => scope.elements().any(|one| one.as_str().is_some_and(|one| one == wanted)),
        _ => text.split(' ').any(|one| one == wanted),
    };
    wanted.iter().all(|one| given(one))
}

#[cfg(test)]
mod tests {
    use super::super::testing::rules;
    use super::*;
    use crate::claim::Document;

    fn on<T>(
        claims: &str,
        check: impl FnOnce(Value<'_, '_>) -> Result<T, TokenFault>,
    ) -> Result<T, TokenFault> {
        check(Document::parse(claims.as_bytes()).expect("JSON").root())
    }

    #[test]
    fn the_issuer_is_named_exactly() {
        let rules = rules("");
        let check = |claims: &str| on(claims, |claims| check_issuer(claims, &rules));
        assert_eq!(check(r#"{"iss":"https://as.example"}"#), Ok(()));
        for claims in [
            "{}",
            r#"{"iss":"https://as.example/"}"#,
            r#"{"iss":"https://AS.example"}"#,
            r#"{"iss":["https://as.example"]}"#,
            r#"{"iss":null}"#,
        ] {
            assert_eq!(check(claims), Err(TokenFault::Issuer), "{claims}");
        }
    }

    #[test]
    fn one_of_the_audiences_is_this_server() {
        let rules = rules("resource: 'https://gw.example/mcp'");
        let check = |claims: &str| on(claims, |claims| check_audience(claims, &rules));
        for claims in [
            r#"{"aud":"api://tools"}"#,
            r#"{"aud":"https://gw.example/mcp"}"#,
            r#"{"aud":["x","api://tools"]}"#,
        ] {
            assert_eq!(check(claims), Ok(()), "{claims}");
        }
        for claims in [
            "{}",
            r#"{"aud":"api://tools/"}"#,
            r#"{"aud":[]}"#,
            r#"{"aud":[["api://tools"]]}"#,
            r#"{"aud":{"api://tools":1}}"#,
            r#"{"aud":"x api://tools"}"#,
            r#"{"aud":null}"#,
        ] {
            assert_eq!(check(claims), Err(TokenFault::Audience), "{claims}");
        }
    }

    #[test]
    fn times_hold_with_the_leeway_and_no_longer() {
        let rules = rules("leeway: 30s");
        let at = |claims: &str, now_s: i64, ms: i64| {
            on(claims, |claims| check_times(claims, &rules, now_s * 1000 + ms))
        };
        let exp = r#"{"exp":1000}"#;
        assert_eq!(at(exp, 1029, 999), Ok(Some(1_030_000)));
        assert_eq!(at(exp, 1030, 0), Err(TokenFault::Expired));
        let nbf = r#"{"exp":2000,"nbf":1000}"#;
        assert_eq!(at(nbf, 969, 999), Err(TokenFault::NotYetValid));
        assert_eq!(at(nbf, 970, 0), Ok(Some(2_030_000)));
        assert_eq!(at(r#"{"exp":1000.5}"#, 1000, 0), Ok(Some(1_030_500)));
        assert_eq!(at("{}", 0, 0), Ok(None));
    }

    #[test]
    fn a_time_is_a_number_of_seconds() {
        let rules = rules("");
        for claims in [
            r#"{"exp":"99999999999"}"#,
            r#"{"exp":null}"#,
            r#"{"exp":1000,"nbf":"0"}"#,
            r#"{"exp":[1]}"#,
            &format!(r#"{{"exp":{}}}"#, "9".repeat(MAX_NUMBER + 1)),
        ] {
            let checked = on(claims, |claims| check_times(claims, &rules, 0));
            assert_eq!(checked, Err(TokenFault::Malformed), "{claims}");
        }
        let far = on(r#"{"exp":1e300}"#, |claims| check_times(claims, &rules, 0));
        assert_eq!(far, Ok(Some(i64::MAX)));
        let past = on(r#"{"exp":-1e300}"#, |claims| check_times(claims, &rules, 0));
        assert_eq!(past, Err(TokenFault::Expired));
    }

    #[test]
    fn the_principal_comes_from_the_configured_claims() {
        let found = |rules: &OAuth, claims: &str| {
            on(claims, |claims| holder(claims, rules)).map(|holder| {
                let part = |part: Option<&str>| part.unwrap_or("-").to_owned();
                let who = holder.principal;
                [part(who.human()), part(who.agent()), part(who.team())]
            })
        };
        let usual = rules("");
        let all = r#"{"sub":"ann","client_id":"bot","azp":"other","team_id":"ops"}"#;
        assert_eq!(found(&usual, all).expect("named"), ["ann", "bot", "ops"]);
        assert_eq!(found(&usual, r#"{"azp":"bot"}"#).expect("named"), ["-", "bot", "-"]);
        let own = rules("claims: { human: [email], agent: [], team: ['https://x/team', org] }");
        let all = r#"{"sub":"ann","email":"a@b","client_id":"bot","org":"o","https://x/team":"t"}"#;
        assert_eq!(found(&own, all).expect("named"), ["a@b", "-", "t"]);
        for nobody in [
            "{}",
            r#"{"sub":""}"#,
            r#"{"sub":7}"#,
            r#"{"sub":null,"client_id":"bot"}"#,
            r#"{"sub":"two words"}"#,
            r#"{"client_id":"","azp":"bot"}"#,
        ] {
            assert_eq!(found(&usual, nobody), Err(TokenFault::Subject), "{nobody}");
        }
    }

    #[test]
    fn every_scope_is_needed() {
        let rules = rules("scopes: [mcp:read, mcp:call]");
        let has = |claims: &str| {
            on(claims, |claims| Ok(has_scopes(claims, &rules.scopes))).expect("an answer")
        };
        assert!(has(r#"{"scope":"mcp:call other mcp:read"}"#));
        assert!(has(r#"{"scp":["mcp:call","mcp:read"]}"#));
        for claims in [
            "{}",
            r#"{"scope":""}"#,
            r#"{"scope":"mcp:read"}"#,
            r#"{"scope":"mcp:reader mcp:call"}"#,
            r#"{"scope":7}"#,
            r#"{"scope":"","scp":["mcp:call","mcp:read"]}"#,
        ] {
            assert!(!has(claims), "{claims}");
        }
    }

    #[test]
    fn a_token_that_is_bound_to_its_holder_is_refused() {
        assert_eq!(on(r#"{"cnf":{"jkt":"x"}}"#, check_unbound), Err(TokenFault::Bound));
        assert_eq!(on("{}", check_unbound), Ok(()));
    }
}
