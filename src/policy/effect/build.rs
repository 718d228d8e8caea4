//! From what a document says of a tool's effect to what is used.

use hyper::header::HeaderName;

use super::super::build::{Mistake, at, set};
use super::super::choice::{Choice, only};
use super::super::words::SideEffect;
use super::carrier::Carrier;
use super::fields::{self, Binding, Range};
use super::{Effect, KeyBinding, MAX_ENVIRONMENT, OnUnknown};
use crate::claim::Pointer;
use crate::upstream::{StatusSet, Statuses};

/// What a tool declares: its side effect, wherever it stands, and its effect spec, if it has one.
pub(in crate::policy) struct Declared {
    pub side_effect: Option<SideEffect>,
    pub effect: Option<Effect>,
}

/// Reads what a tool declares at the place `tool` of a document, such as `tools[2]`; `carrier` is
/// what its calls are sent as.
///
/// # Errors
///
/// The first thing that EFFECTS section 2 calls a mistake, with its place.
pub(in crate::policy) fn build(
    tool: &str,
    side_effect: Option<SideEffect>,
    effect: Option<fields::Effect>,
    carrier: Carrier<'_>,
) -> Result<Declared, Mistake> {
    let Some(effect) = effect else { return Ok(Declared { side_effect, effect: None }) };
    let place = |field: &str| format!("{tool}.effect.{field}");
    let disagree = side_effect.zip(effect.side_effect).is_some_and(|(one, other)| one != other);
    if disagree {
        let problem = format!("is not what `{tool}.side_effect` says: leave one of the two out");
        return Err((place("side_effect"), problem));
    }
    let side_effect = side_effect.or(effect.side_effect);
    let binding = binding(effect.idempotency, carrier)
        .map_err(|(field, problem)| (place(&field), problem))?;
    let on_unknown = effect.on_unknown.unwrap_or_default();
    if on_unknown == OnUnknown::Redispatch && !binding.is_supported() {
        return Err(at(
            &place("on_unknown"),
            "`redispatch` needs `idempotency` to name a `header` or a `body_pointer`: where the \
             vendor does not dedupe by the key, the call could take effect twice",
        ));
    }
    let environment = set(effect.environment);
    if environment.as_deref().is_some_and(|name| !is_environment(name)) {
        let problem = format!("must have at most {MAX_ENVIRONMENT} characters, no control ones");
        return Err((place("environment"), problem));
    }
    let statuses = statuses(effect.accepted, effect.definitely_rejected, effect.retryable)
        .map_err(|(field, problem)| (place(field), problem))?;
    let effect = Effect { environment, binding, statuses, on_unknown };
    Ok(Declared { side_effect, effect: Some(effect) })
}

/// Whether a text can name an environment.
pub(in crate::policy) fn is_environment(text: &str) -> bool {
    (1..=MAX_ENVIRONMENT).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

fn binding(binding: Option<Choice<Binding>>, carrier: Carrier<'_>) -> Result<KeyBinding, Mistake> {
    const FIELD: &str = "idempotency";
    const FORM: &str = "`unsupported`, `{ header: NAME }` or `{ body_pointer: POINTER }`";
    let table = match binding {
        None => return Ok(KeyBinding::Unsupported),
        Some(Choice::Word(word)) if word.is_empty() || word.eq_ignore_ascii_case(Binding::NONE) => {
            return Ok(KeyBinding::Unsupported);
        }
        Some(Choice::Word(_)) => return Err(at(FIELD, &format!("must be {FORM}"))),
        Some(Choice::Table(table)) => table,
    };
    if let Carrier::Mcp { broker: true, .. } = carrier {
        return Err(at(
            FIELD,
            "must be `unsupported`: a broker hands no key on to the vendor, so nobody would dedupe",
        ));
    }
    let header = set(table.header).map(|name| header(&name, carrier));
    let pointer = set(table.body_pointer).map(|text| pointer(&text, carrier));
    only([header, pointer], FORM).map_err(|problem| at(FIELD, &problem))?
}

fn header(name: &str, carrier: Carrier<'_>) -> Result<KeyBinding, Mistake> {
    const FIELD: &str = "idempotency.header";
    let name: HeaderName =
        name.parse().map_err(|_| at(FIELD, "is not a valid HTTP header name"))?;
    carrier.judge_header(&name).map_err(|problem| at(FIELD, problem))?;
    Ok(KeyBinding::Header(name))
}

fn pointer(text: &str, carrier: Carrier<'_>) -> Result<KeyBinding, Mistake> {
    const FIELD: &str = "idempotency.body_pointer";
    let pointer = Pointer::parse(text).map_err(|error| at(FIELD, &error.to_string()))?;
    carrier.judge_pointer(&pointer).map_err(|problem| at(FIELD, problem))?;
    Ok(KeyBinding::Body(pointer))
}

const ACCEPTED: &str = "accepted";
const REJECTED: &str = "definitely_rejected";
const RETRYABLE: &str = "retryable";

/// The three sets; on failure the field of the mistake.
fn statuses(
    accepted: Option<Vec<Range>>,
    rejected: Option<Vec<Range>>,
    retryable: Option<Vec<Range>>,
) -> Result<Statuses, (&'static str, String)> {
    // The place of an overlap is a field that the document has.
    let at_accepted = accepted.is_some();
    let default = Statuses::default();
    let statuses = Statuses {
        accepted: accepted.map_or(default.accepted, |listed| union(&listed)),
        rejected: rejected.map_or(default.rejected, |listed| union(&listed)),
        retryable: retryable.map_or(default.retryable, |listed| union(&listed)),
    };
    let overlap = |one: &StatusSet, other: &StatusSet| one.shared_with(other).next();
    if let Some(status) = overlap(&statuses.accepted, &statuses.rejected) {
        let (field, other) = if at_accepted { (ACCEPTED, REJECTED) } else { (REJECTED, ACCEPTED) };
        return Err((field, in_two(status, other)));
    }
    if let Some(status) = overlap(&statuses.retryable, &statuses.accepted) {
        return Err((RETRYABLE, in_two(status, ACCEPTED)));
    }
    Ok(statuses)
}

fn in_two(status: u16, other: &str) -> String {
    let default = match other {
        ACCEPTED => "200-299",
        _ => "400-499",
    };
    format!(
        "holds {status}, and so does `{other}` (left out, it is {default}): a status can mean one \
         thing only"
    )
}

fn union(listed: &[Range]) -> StatusSet {
    let mut set = StatusSet::default();
    for Range(range) in listed {
        set.add(range.clone());
    }
    set
}
