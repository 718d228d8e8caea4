//! A document of `kind: connector`, as it is read.

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::document::{SCHEMA_VERSION, Text};
use super::super::effect::fields::Effect;
use super::super::json::Json;

/// A vendor and its tools: the HTTP requests that the gateway makes of a tool's arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Connector {
    /// Always `v1`.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    pub schema_version: String,
    /// Always `connector`.
    #[serde(rename = "kind")]
    #[schemars(extend("const" = "connector"))]
    _kind: String,
    /// Unique among connectors.
    pub name: String,
    /// Where the paths start: an absolute `http` or `https` URL without query.
    pub base_url: String,
    /// What the gateway shows the vendor.
    #[serde(default)]
    pub auth: Option<Auth>,
    /// What can be called there.
    pub tools: Vec<Tool>,
}

/// What the gateway shows the vendor.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::policy) struct Auth {
    /// The header of the credential; `Authorization` where it is left out.
    pub header: Text,
    /// What stands before the secret; in `Authorization`, `Bearer` where it is left out.
    pub scheme: Text,
    /// Where it is: `env:NAME` or `file:PATH`. In scope `workspace` each connection brings its own.
    pub secret: Text,
}

/// A tool, and what its calls become.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ConnectorTool")]
pub(in crate::policy) struct Tool {
    /// As it is called.
    pub name: String,
    /// What it is for, for those who choose among tools.
    #[serde(default)]
    pub description: Text,
    /// What its arguments must be: a JSON Schema of `type: object`.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub input_schema: Json,
    /// What is sent.
    pub request: Request,
    /// What is known of its calls; `side_effect` must be said.
    pub effect: Effect,
}

/// The request of a call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Request {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    #[schemars(extend("enum" = ["GET", "POST", "PUT", "PATCH", "DELETE"]))]
    pub method: String,
    /// Below `base_url`; `{name}` stands for an argument.
    pub path: String,
    /// Names and texts.
    #[serde(default)]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub query: Option<Json>,
    /// Names and texts.
    #[serde(default)]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub headers: Option<Json>,
    /// What is in it.
    #[serde(default)]
    pub body: Option<Body>,
}

/// One of the two.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::policy) struct Body {
    /// Any value; a text that is nothing but `{name}` becomes the argument as it was sent.
    #[schemars(with = "serde_json::Value")]
    pub json: Option<Json>,
    /// Names and texts.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub form: Option<Json>,
}
