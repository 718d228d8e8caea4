//! `server.retries_off`, as it is read.

use std::fmt;

use schemars::{JsonSchema, Schema, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::super::choice::OrWord;

/// Where the switch is; one of the three.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(in crate::policy) struct Switch {
    /// A header of every call.
    pub header: Option<Pair>,
    /// A member of the query of every call.
    pub query: Option<Pair>,
    /// A place in the body of every call.
    pub body: Option<Member>,
}

/// A header or a member of the query.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Pair {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A place in the body.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Member {
    /// A JSON Pointer.
    pub pointer: String,
    /// What stands there.
    pub value: Scalar,
}

/// What can stand there.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(in crate::policy) enum Scalar {
    Boolean(bool),
    Integer(i64),
    Text(String),
}

impl Switch {
    /// The word that stands for none.
    pub const NONE: &'static str = "none_exist";
}

impl OrWord for Switch {
    fn word() -> Schema {
        json_schema!({ "enum": [Self::NONE, ""] })
    }
}

impl Scalar {
    /// As JSON.
    pub(super) fn to_json(&self) -> String {
        match self {
            Self::Boolean(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Text(value) => serde_json::Value::from(value.as_str()).to_string(),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyScalar)
    }
}

struct AnyScalar;

impl Visitor<'_> for AnyScalar {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, a whole number of 64 bits or a text")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Boolean(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Scalar, E> {
        let value = i64::try_from(value);
        value.map(Scalar::Integer).map_err(|_| E::custom("must be a whole number of 64 bits"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(value.to_owned()))
    }
}
