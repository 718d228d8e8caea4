//! A tool's `effect`, as it is read.

use std::fmt;
use std::ops::RangeInclusive;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Expected, Visitor};

use super::super::choice::Choice;
use super::super::document::Text;
use super::super::words::{self, SideEffect};
use super::OnUnknown;
use crate::upstream::STATUSES;

/// `effect` of a tool, of a server's document or of a connector's.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::policy) struct Effect {
    #[serde(deserialize_with = "words::optional")]
    pub side_effect: Option<SideEffect>,
    pub environment: Text,
    pub idempotency: Option<Choice<Binding>>,
    pub accepted: Option<Vec<Range>>,
    pub definitely_rejected: Option<Vec<Range>>,
    pub retryable: Option<Vec<Range>>,
    #[serde(deserialize_with = "words::optional")]
    pub on_unknown: Option<OnUnknown>,
}

/// Where the key goes; one of the two.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::policy) struct Binding {
    pub header: Text,
    pub body_pointer: Text,
}

/// A status, or an inclusive range of them, within [`STATUSES`] and not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::policy) struct Range(pub RangeInclusive<u16>);

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(StatusOrRange)
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
