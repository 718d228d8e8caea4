//! Brokers: MCP servers that call vendors themselves, and retry by themselves (EFFECTS section 5).

pub(super) mod fields;

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use url::form_urlencoded;

use self::fields::Switch;
use super::build::{Mistake, at, set};
use super::choice::{Choice, only};
use super::effect::Carrier;
use super::headers;
use super::server::RetriesOff;
use crate::claim::Pointer;

const FIELD: &str = "server.retries_off";
const FORM: &str = "`none_exist`, or one of `header: { name, value }`, `query: { name, value }` and \
                    `body: { pointer, value }`";

/// How a broker's retries are switched off; `None` for a server that is none. `taken` are the headers
/// that this server gives another meaning to.
///
/// # Errors
///
/// A broker that does not say it, another server that does, and a switch that cannot be sent.
pub(super) fn build(
    broker: bool,
    retries_off: Option<Choice<Switch>>,
    upstream: Option<&Uri>,
    taken: &[HeaderName],
) -> Result<Option<RetriesOff>, Mistake> {
    let switch = match (broker, retries_off) {
        (_, Some(Choice::Word(word))) if word.is_empty() => None,
        (_, switch) => switch,
    };
    match (broker, switch) {
        (false, None) => Ok(None),
        (false, Some(_)) => Err(at(FIELD, "has no effect without `server.broker: true`")),
        (true, None) => Err(at(
            FIELD,
            &format!("is required of a broker, whose own retries could run a call twice: {FORM}"),
        )),
        (true, Some(Choice::Word(word))) if word.eq_ignore_ascii_case(Switch::NONE) => {
            Ok(Some(RetriesOff::NoneExist))
        }
        (true, Some(Choice::Word(_))) => Err(at(FIELD, &format!("must be {FORM}"))),
        (true, Some(Choice::Table(switch))) => table(switch, upstream, taken).map(Some),
    }
}

fn table(
    switch: Switch,
    upstream: Option<&Uri>,
    taken: &[HeaderName],
) -> Result<RetriesOff, Mistake> {
    let header = switch.header.map(|pair| header(&pair.name, &pair.value, taken));
    let query = switch.query.map(|pair| query(&pair.name, &pair.value, upstream));
    let body = switch.body.map(|member| {
        let text = member.value.to_json();
        body(&member.pointer, text)
    });
    only([header, query, body], FORM).map_err(|problem| at(FIELD, &problem))?
}

fn header(name: &str, value: &str, taken: &[HeaderName]) -> Result<RetriesOff, Mistake> {
    let wrong = |problem| at(&format!("{FIELD}.header.name"), problem);
    let header: HeaderName = name.parse().map_err(|_| wrong("is not a valid HTTP header name"))?;
    let is_own = headers::is_taken(header.as_str()) || taken.contains(&header);
    if is_own || headers::is_reserved(header.as_str()) {
        return Err(wrong("is taken: choose the header by which the broker retries no more"));
    }
    let value = HeaderValue::from_str(value)
        .ok()
        .filter(|value| value.to_str().is_ok_and(|text| !text.trim().is_empty()));
    let value = value.ok_or_else(|| {
        at(&format!("{FIELD}.header.value"), "must be printable ASCII characters")
    })?;
    Ok(RetriesOff::Header(header, value))
}

fn query(name: &str, value: &str, upstream: Option<&Uri>) -> Result<RetriesOff, Mistake> {
    let place = format!("{FIELD}.query.name");
    let own = upstream.and_then(Uri::query).unwrap_or_default();
    if set(Some(name.to_owned())).is_none() {
        return Err(at(&place, "must not be empty"));
    }
    if form_urlencoded::parse(own.as_bytes()).any(|(member, _)| member == name) {
        return Err(at(&place, "is in the query of `server.upstream` too: leave it out there"));
    }
    let pair = form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish();
    Ok(RetriesOff::Query(pair))
}

fn body(text: &str, value: String) -> Result<RetriesOff, Mistake> {
    let wrong = |problem: &str| at(&format!("{FIELD}.body.pointer"), problem);
    let pointer = Pointer::parse(text).map_err(|error| wrong(&error.to_string()))?;
    let request = Carrier::Mcp { taken: &[], broker: true };
    request.judge_pointer(&pointer).map_err(wrong)?;
    Ok(RetriesOff::Body(pointer, value))
}
