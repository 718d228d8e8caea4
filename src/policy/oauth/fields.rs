//! The fields of `auth` that belong to mode `oauth`, as they are read.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::document::Text;
use super::super::values;
use super::super::words;
use super::algorithm::Algorithm;

/// What of `auth` mode `oauth` alone takes, beside `issuer_url` and `audience`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::policy) struct Claims {
    /// Claims that name the human; the first that is there does.
    pub human: Option<Vec<String>>,
    /// The same for the agent.
    pub agent: Option<Vec<String>>,
    /// The same for the team.
    pub team: Option<Vec<String>>,
}

/// How opaque tokens are looked up (RFC 7662).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Introspection {
    /// A URL; else the one of the issuer's metadata.
    #[serde(default)]
    pub endpoint: Text,
    /// What the gateway is called there.
    pub client_id: String,
    /// Where its secret is: `env:NAME` or `file:PATH`.
    pub client_secret: String,
    /// How long an answer is believed.
    #[serde(default, deserialize_with = "values::optional_duration")]
    #[schemars(schema_with = "values::duration_schema")]
    pub cache: Option<Duration>,
}

/// `auth.algorithms`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(in crate::policy) struct Algorithms(
    #[serde(deserialize_with = "words::list")]
    #[schemars(schema_with = "words::list_schema::<Algorithm>")]
    pub Vec<Algorithm>,
);
