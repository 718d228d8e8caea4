//! A document of `kind: workspace`, as it is read.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, json_schema};
use serde::Deserialize;

use super::super::choice::{Choice, OrWord};
use super::super::document::{ApiKey, SCHEMA_VERSION, Text};

/// A workspace: who acts for it, and its accounts at vendors.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Workspace {
    /// Always `v1`.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    pub schema_version: String,
    /// Always `workspace`.
    #[serde(rename = "kind")]
    #[schemars(extend("const" = "workspace"))]
    _kind: String,
    /// Part of every slot: give it once, never reuse it.
    pub id: String,
    /// Who acts for it.
    #[serde(default)]
    pub api_keys: Option<Vec<ApiKey>>,
    /// Its accounts at vendors.
    #[serde(default)]
    pub connections: Option<Vec<Connection>>,
    /// Where capabilities lead: a connector's name, or a connector and a connection.
    #[serde(default)]
    pub pins: Option<BTreeMap<String, Choice<Pin>>>,
}

/// An account at a vendor.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Connection {
    /// Part of every slot: never reuse it for another account.
    pub id: String,
    /// The connector's name.
    pub connector: String,
    /// Where the account's secret is: `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub secret: Text,
    /// What is known of the account and no secret; receipts show it.
    #[serde(default)]
    pub facts: Option<BTreeMap<String, String>>,
}

/// A route of a capability.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Pin {
    /// The connector's name.
    pub connector: String,
    /// The connection's id, where the connector has several.
    #[serde(default)]
    pub connection: Text,
}

impl OrWord for Pin {
    fn word() -> Schema {
        json_schema!({ "type": "string" })
    }
}
