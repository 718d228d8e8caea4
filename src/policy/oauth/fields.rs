//! The fields of `auth` that belong to mode `oauth`, as they are read.

use std::time::Duration;

use serde::Deserialize;

use super::super::document::Text;
use super::super::values;
use super::super::words;
use super::algorithm::Algorithm;

/// What of `auth` mode `oauth` alone takes, beside `issuer_url` and `audience`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::policy) struct Claims {
    pub human: Option<Vec<String>>,
    pub agent: Option<Vec<String>>,
    pub team: Option<Vec<String>>,
}

/// How opaque tokens are looked up (RFC 7662).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Introspection {
    #[serde(default)]
    pub endpoint: Text,
    pub client_id: String,
    pub client_secret: String,
    #[serde(default, deserialize_with = "values::optional_duration")]
    pub cache: Option<Duration>,
}

/// `auth.algorithms`.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(in crate::policy) struct Algorithms(
    #[serde(deserialize_with = "words::list")] pub Vec<Algorithm>,
);
