//! Capabilities: tools by what they are for, with a route to each vendor that can serve them (EFFECTS
//! section 4).

use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::build::{Mistake, at, schema_version};
use super::connector::{self, CAPABILITY_PREFIX, Connector, MAX_TOOL_NAME, VendorTool};
use super::document::{SCHEMA_VERSION, Text};
use super::json::Json;
use crate::native::{ArgumentMap, InputSchema};

/// The most routes of one capability.
pub const MAX_ROUTES: usize = 32;

/// A document of `kind: capability`, as it is read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Fields {
    /// Always `v1`.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    schema_version: String,
    /// Always `capability`.
    #[serde(rename = "kind")]
    #[schemars(extend("const" = "capability"))]
    _kind: String,
    /// Unique; `cap.` and more.
    #[schemars(extend("pattern" = "^cap\\."))]
    name: String,
    /// What it is for, for those who choose among tools.
    #[serde(default)]
    description: Text,
    /// What its arguments must be: a JSON Schema of `type: object`.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    input_schema: Json,
    /// What can serve it; at most one tool of each connector.
    routes: Vec<RouteFields>,
}

/// A tool that can serve a capability.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Route")]
struct RouteFields {
    /// The connector's name.
    connector: String,
    /// Its tool.
    tool: String,
    /// The tool's arguments, made of the capability's; the same where they are left out.
    #[serde(default)]
    #[schemars(with = "serde_json::Value")]
    arguments: Option<Json>,
}

/// A capability.
#[derive(Debug)]
pub(super) struct Capability {
    pub name: String,
    pub description: Option<String>,
    pub schema: InputSchema,
    /// At most one to each connector.
    pub routes: Vec<Route>,
}

/// A tool that can serve a capability.
#[derive(Debug)]
pub(super) struct Route {
    pub connector: String,
    pub tool: Arc<VendorTool>,
    pub arguments: ArgumentMap,
}

/// Reads a capability.
///
/// # Errors
///
/// Everything that is wrong, each with its place.
pub(super) fn build(
    document: Fields,
    connectors: &HashMap<String, Arc<Connector>>,
) -> Result<Capability, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    let mut keep = |mistake: Mistake| mistakes.push(mistake);
    if let Err(mistake) = schema_version(&document.schema_version) {
        keep(mistake);
    }
    if !is_capability(&document.name) {
        let problem = format!(
            "must be `cap.` and up to {} letters, digits, `_`, `-`, `.` or `/`",
            MAX_TOOL_NAME - CAPABILITY_PREFIX.len()
        );
        keep(at("name", &problem));
    }
    let description =
        connector::description(document.description, "description").map_err(&mut keep).ok();
    let schema = InputSchema::parse(&document.input_schema.0)
        .map_err(|error| keep(("input_schema".to_owned(), error.to_string())))
        .ok();
    let (Some(schema), Some(description)) = (schema, description) else { return Err(mistakes) };
    let routes = routes(document.routes, &schema, connectors, &mut mistakes);
    if mistakes.is_empty() {
        Ok(Capability { name: document.name, description, schema, routes })
    } else {
        Err(mistakes)
    }
}

fn is_capability(name: &str) -> bool {
    let rest = name.strip_prefix(CAPABILITY_PREFIX);
    connector::is_tool_name(name) && rest.is_some_and(|rest| !rest.is_empty())
}

fn routes(
    listed: Vec<RouteFields>,
    schema: &InputSchema,
    connectors: &HashMap<String, Arc<Connector>>,
    mistakes: &mut Vec<Mistake>,
) -> Vec<Route> {
    if listed.is_empty() || listed.len() > MAX_ROUTES {
        mistakes.push(at("routes", &format!("must list 1 to {MAX_ROUTES} routes")));
        return Vec::new();
    }
    let mut routes: Vec<Route> = Vec::with_capacity(listed.len());
    for (index, route) in listed.into_iter().enumerate() {
        let place = format!("routes[{index}]");
        let known = routes.iter().any(|known| known.connector == route.connector);
        match self::route(route, &place, schema, connectors) {
            _ if known => {
                let field = format!("{place}.connector");
                mistakes
                    .push(at(&field, "has a route already: a pin could not tell the two apart"));
            }
            Err(mistake) => mistakes.push(mistake),
            Ok(route) => routes.push(route),
        }
    }
    routes
}

fn route(
    route: RouteFields,
    place: &str,
    schema: &InputSchema,
    connectors: &HashMap<String, Arc<Connector>>,
) -> Result<Route, Mistake> {
    let field = |name: &str| format!("{place}.{name}");
    let connector = connectors.get(&route.connector).ok_or_else(|| {
        at(&field("connector"), "names no connector: add a document of `kind: connector`")
    })?;
    let tool = connector
        .tools
        .get(&route.tool)
        .ok_or_else(|| at(&field("tool"), "is no tool of this connector"))?;
    let arguments = match &route.arguments {
        None => ArgumentMap::same(tool.schema.clone()),
        Some(map) => ArgumentMap::parse(&map.0, schema, tool.schema.clone())
            .map_err(|error| (format!("{place}.{}", error.place), error.problem.to_string()))?,
    };
    Ok(Route { connector: route.connector, tool: Arc::clone(tool), arguments })
}
