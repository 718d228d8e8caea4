//! The values of a policy document that are more than text: digests and points in time.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error as _};

/// A SHA-256 digest, written as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct HexDigest(pub(crate) [u8; 32]);

impl HexDigest {
    /// Reads 64 hex digits. Says nothing of the text on failure: it may be the secret itself.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = [digit(pair[0])?, digit(pair[1])?];
            *byte = high << 4 | low;
        }
        Some(Self(bytes))
    }
}

fn digit(character: u8) -> Option<u8> {
    char::from(character).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

impl fmt::Display for HexDigest {
    /// Lower-case hex; a precision (`{:.16}`) cuts it to that many characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&crate::claim::RequestHash::from_bytes(self.0), f)
    }
}

impl fmt::Debug for HexDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HexDigest(..)")
    }
}

impl<'de> Deserialize<'de> for HexDigest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).ok_or_else(|| {
            D::Error::custom(
                "must be the SHA-256 of the secret as 64 hex digits, never the secret itself",
            )
        })
    }
}

impl JsonSchema for HexDigest {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "HexDigest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9a-fA-F]{64}$" })
    }
}

/// A whole number and its unit, `ms`, `s`, `m` or `h`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(milliseconds).map(Duration::from_millis)
}

/// For `#[serde(deserialize_with)]`: a duration, where null and the empty text are absent.
pub(super) fn optional_duration<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    match Option::<String>::deserialize(from)?.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => duration(text)
            .map(Some)
            .ok_or_else(|| D::Error::custom("must be a duration such as `500ms`, `30s` or `2m`")),
    }
}

/// The schema of [`optional_duration`].
pub(super) fn duration_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "pattern": "^([0-9]+(ms|s|m|h))?$" })
}

/// When a session ends, if it does: RFC 3339; null, absent and empty mean never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Expiry(pub(super) Option<Timestamp>);

impl<'de> Deserialize<'de> for Expiry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Option::<String>::deserialize(from)?.as_deref() {
            None | Some("") => Ok(Self(None)),
            Some(text) => rfc3339(text).map(|at| Self(Some(at))).ok_or_else(|| {
                D::Error::custom("must be a time like `2027-01-31T12:00:00Z` (RFC 3339)")
            }),
        }
    }
}

impl JsonSchema for Expiry {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Expiry".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string", "format": "date-time" }, { "enum": ["", null] }] })
    }
}

/// The parser knows more formats than RFC 3339 has; this lets through only the RFC's shape.
fn rfc3339(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let shape = b"0000-00-00T00:00:00";
    let fits = bytes.len() > shape.len()
        && shape.iter().zip(bytes).all(|(form, byte)| match form {
            b'0' => byte.is_ascii_digit(),
            form => byte.eq_ignore_ascii_case(form),
        });
    let mut rest = bytes.get(shape.len()..)?;
    if let Some(fraction) = rest.strip_prefix(b".") {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        rest = fraction.get(digits..).filter(|_| digits > 0)?;
    }
    let zone = match rest {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    if fits && zone { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_64_hex_digits_of_either_case() {
        let text = "a6FC".to_owned() + &"00".repeat(29) + "0f";
        let digest = HexDigest::parse(&text).expect("64 digits");
        assert_eq!((digest.0[0], digest.0[1], digest.0[31]), (0xa6, 0xfc, 0x0f));
        for bad in ["", &"a".repeat(63), &"a".repeat(65), &"g".repeat(64), &"\u{e9}".repeat(32)] {
            assert_eq!(HexDigest::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn expiry_is_rfc_3339_and_nothing_else() {
        let noon = Timestamp::from_second(1_800_000_000).expect("in range");
        for good in [
            "2027-01-15T08:00:00Z",
            "2027-01-15t08:00:00z",
            "2027-01-15T08:00:00.000Z",
            "2027-01-15T10:00:00+02:00",
        ] {
            assert_eq!(rfc3339(good), Some(noon), "{good}");
        }
        for bad in [
            "2027-01-15",
            "2027-01-15T08:00:00",
            "2027-01-15 08:00:00Z",
            "20270115T080000Z",
            "2027-01-15T08:00:00.Z",
            "2027-13-15T08:00:00Z",
            "2027-01-15T08:00:00+02",
            "2027-01-15T10:00:00+02:00[Europe/Berlin]",
            "1800000000",
            "soon",
        ] {
            assert_eq!(rfc3339(bad), None, "{bad}");
        }
    }
}
