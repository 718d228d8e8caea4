//! A document of `kind: workspace`, as it is read.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::choice::Choice;
use super::super::document::{ApiKey, Text};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Workspace {
    pub schema_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    pub id: String,
    #[serde(default)]
    pub api_keys: Option<Vec<ApiKey>>,
    #[serde(default)]
    pub connections: Option<Vec<Connection>>,
    #[serde(default)]
    pub pins: Option<BTreeMap<String, Choice<Pin>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Connection {
    pub id: String,
    pub connector: String,
    #[serde(default)]
    pub secret: Text,
    #[serde(default)]
    pub facts: Option<BTreeMap<String, String>>,
}

/// A route of a capability.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Pin {
    pub connector: String,
    #[serde(default)]
    pub connection: Text,
}
