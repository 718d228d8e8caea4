//! A document of `kind: connector`, as it is read.

use serde::Deserialize;

use super::super::document::Text;
use super::super::effect::fields::Effect;
use super::super::json::Json;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Connector {
    pub schema_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    pub name: String,
    pub base_url: String,
    #[serde(default)]
    pub auth: Option<Auth>,
    pub tools: Vec<Tool>,
}

/// What the gateway shows the vendor.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::policy) struct Auth {
    pub header: Text,
    pub scheme: Text,
    pub secret: Text,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Tool {
    pub name: String,
    #[serde(default)]
    pub description: Text,
    pub input_schema: Json,
    pub request: Request,
    pub effect: Effect,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Request {
    pub method: String,
    pub path: String,
    #[serde(default)]
    pub query: Option<Json>,
    #[serde(default)]
    pub headers: Option<Json>,
    #[serde(default)]
    pub body: Option<Body>,
}

/// One of the two.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::policy) struct Body {
    pub json: Option<Json>,
    pub form: Option<Json>,
}
