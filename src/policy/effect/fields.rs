//! A tool's `effect`, as it is read.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Expected, Visitor};

use super::super::choice::{Choice, OrWord};
use super::super::document::Text;
use super::super::words::{self, SideEffect};
use super::OnUnknown;
use crate::upstream::STATUSES;

/// `effect` of a tool, of a server's document or of a connector's.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::policy) struct Effect {
    /// What a call does; where the tool says it too, the same.
    #[serde(deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<SideEffect>")]
    pub side_effect: Option<SideEffect>,
    /// Where it takes effect, for rules of the policy.
    pub environment: Text,
    /// How the key reaches the vendor; `unsupported` where it is left out.
    pub idempotency: Option<Choice<Binding>>,
    /// Statuses that complete the call; 200-299 where they are left out.
    pub accepted: Option<Vec<Range>>,
    /// Statuses that prove that it had no effect; 400-499 where they are left out.
    pub definitely_rejected: Option<Vec<Range>>,
    /// Statuses that deserve one immediate second attempt; none where they are left out.
    pub retryable: Option<Vec<Range>>,
    /// What becomes of a call whose outcome is unknown; `refuse` where it is left out.
    #[serde(deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<OnUnknown>")]
    pub on_unknown: Option<OnUnknown>,
}

/// Where the key goes; one of the two.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "KeyBinding", extend("minProperties" = 1, "maxProperties" = 1))]
pub(in crate::policy) struct Binding {
    /// The header by which the vendor dedupes.
    pub header: Text,
    /// Where in the body it looks for the key: a JSON Pointer.
    pub body_pointer: Text,
}

impl Binding {
    /// The word that stands for no binding.
    pub const NONE: &'static str = "unsupported";
}

impl OrWord for Binding {
    fn word() -> Schema {
        json_schema!({ "enum": [Self::NONE, ""] })
    }
}

/// A status, or an inclusive range of them, within [`STATUSES`] and not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::policy) struct Range(pub RangeInclusive<u16>);

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(StatusOrRange)
    }
}

impl JsonSchema for Range {
    fn schema_name() -> Cow<'static, str> {
        "Statuses".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A status, or a range of them such as `200-299`.",
            "anyOf": [
                { "type": "integer", "minimum": STATUSES.start(), "maximum": STATUSES.end() },
                { "type": "string", "pattern": "^[1-5][0-9]{2}-[1-5][0-9]{2}$" },
            ],
        })
    }
}

struct StatusOrRange;

impl Visitor<'_> for StatusOrRange {
    type Value = Range;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a status from {} to {}, such as 429, or a range of them, such as `200-299`",
            STATUSES.start(),
            STATUSES.end()
        )
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Range, E> {
        let status = u16::try_from(number).ok().filter(|status| STATUSES.contains(status));
        status
            .map(|status| Range(status..=status))
            .ok_or_else(|| E::custom(format_args!("must be {}", &self as &dyn Expected)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Range, E> {
        // A negative number is no status either.
        self.visit_u64(u64::try_from(number).unwrap_or_default())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Range, E> {
        let bounds = text.split_once('-').and_then(|(from, to)| Some((bound(from)?, bound(to)?)));
        match bounds {
            None => Err(E::custom(format_args!("must be {}", &self as &dyn Expected))),
            Some((from, to)) if from > to => {
                Err(E::custom("is empty: write the lower of the two statuses first"))
            }
            Some((from, to)) => Ok(Range(from..=to)),
        }
    }
}

/// Three digits that are a status.
fn bound(text: &str) -> Option<u16> {
    let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|status| digits && STATUSES.contains(status))
}
