//! Connectors: vendors, and their tools (EFFECTS section 1).

mod auth;
pub(super) mod fields;

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::Uri;
use hyper::header::{ACCEPT, HeaderName};

pub(super) use auth::AuthHeader;

use super::build::{MAX_NAME, Mistake, at, schema_version, set, upstream};
use super::effect::{self, Carrier, KeyBinding};
use super::headers;
use super::secret::SecretSources;
use super::server::Tool;
use super::words::Trust;
use crate::native::{BodySource, InputSchema, RequestSource, RequestTemplate};

/// The most tools of one connector.
pub const MAX_CONNECTOR_TOOLS: usize = 256;
/// The most characters of a tool's name, its connection's before it included.
pub const MAX_TOOL_NAME: usize = 128;
/// The most bytes of a tool's description.
pub const MAX_DESCRIPTION: usize = 4096;
/// The most characters of the name of a connector, a workspace or a connection.
pub const MAX_ID: usize = 64;
/// What the names of capabilities begin with, and no others.
pub(super) const CAPABILITY_PREFIX: &str = "cap.";

/// A vendor.
#[derive(Debug)]
pub(super) struct Connector {
    pub name: String,
    /// Absolute, without query.
    pub base_url: Uri,
    pub auth: Option<AuthHeader>,
    pub tools: BTreeMap<String, Arc<VendorTool>>,
}

/// A tool of a vendor's.
#[derive(Debug)]
pub(super) struct VendorTool {
    pub name: String,
    pub description: Option<String>,
    pub schema: InputSchema,
    pub request: RequestTemplate,
    /// What it declares; the trust that it needs is a server's to say.
    pub tool: Tool,
}

/// Reads a connector.
///
/// # Errors
///
/// Everything that is wrong, each with its place.
pub(super) fn build(
    document: fields::Connector,
    sources: &SecretSources<'_>,
) -> Result<Connector, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    let mut keep = |mistake: Mistake| mistakes.push(mistake);
    if let Err(mistake) = schema_version(&document.schema_version) {
        keep(mistake);
    }
    if !is_id(&document.name) {
        keep(at("name", &id_form()));
    }
    let base_url = base_url(&document.base_url).map_err(&mut keep).ok();
    let auth = document.auth.map(|auth| auth::build(auth, sources));
    let auth = auth.transpose().map_err(&mut keep).ok().flatten();
    let tools = tools(document.tools, auth.as_ref(), &mut mistakes);
    match base_url {
        Some(base_url) if mistakes.is_empty() => {
            Ok(Connector { name: document.name, base_url, auth, tools })
        }
        _ => Err(mistakes),
    }
}

/// Whether a text can name a connector, a workspace or a connection: it stands in names of tools and
/// in the store's keys.
pub(super) fn is_id(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=MAX_ID).contains(&text.len()) && text.bytes().all(allowed)
}

pub(super) fn id_form() -> String {
    format!("must be 1 to {MAX_ID} letters, digits, `_` or `-`")
}

/// Whether a text can name a tool or, with its prefix, a capability (MCP 2025-11-25, tool names).
pub(super) fn is_tool_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    (1..=MAX_TOOL_NAME).contains(&text.len()) && text.bytes().all(allowed)
}

/// A text for a person who chooses a tool.
pub(super) fn description(text: Option<String>, field: &str) -> Result<Option<String>, Mistake> {
    match set(text) {
        Some(text) if text.len() > MAX_DESCRIPTION => {
            Err(at(field, &format!("must have at most {MAX_DESCRIPTION} bytes")))
        }
        text => Ok(text),
    }
}

fn base_url(text: &str) -> Result<Uri, Mistake> {
    let wrong = |problem| at("base_url", problem);
    let uri = upstream(text).map_err(wrong)?;
    match uri.query() {
        Some(_) => Err(wrong("must have no query: give it to the tools' requests")),
        None if text.len() > MAX_NAME => Err(wrong("must have at most 255 characters")),
        None => Ok(uri),
    }
}

fn tools(
    listed: Vec<fields::Tool>,
    auth: Option<&AuthHeader>,
    mistakes: &mut Vec<Mistake>,
) -> BTreeMap<String, Arc<VendorTool>> {
    let mut tools = BTreeMap::new();
    if listed.is_empty() || listed.len() > MAX_CONNECTOR_TOOLS {
        let problem = format!("must list 1 to {MAX_CONNECTOR_TOOLS} tools");
        mistakes.push(at("tools", &problem));
        return tools;
    }
    for (index, tool) in listed.into_iter().enumerate() {
        let place = format!("tools[{index}]");
        match vendor_tool(tool, &place, auth) {
            Err(mistake) => mistakes.push(mistake),
            Ok(tool) => {
                let name = tool.name.clone();
                if tools.insert(name, Arc::new(tool)).is_some() {
                    let field = format!("{place}.name");
                    mistakes.push(at(&field, "is already used by an earlier tool"));
                }
            }
        }
    }
    tools
}

fn vendor_tool(
    tool: fields::Tool,
    place: &str,
    auth: Option<&AuthHeader>,
) -> Result<VendorTool, Mistake> {
    let field = |name: &str| format!("{place}.{name}");
    if !is_tool_name(&tool.name) {
        let problem = format!("must be 1 to {MAX_TOOL_NAME} letters, digits, `_`, `-`, `.` or `/`");
        return Err((field("name"), problem));
    }
    if tool.name.starts_with(CAPABILITY_PREFIX) {
        return Err(at(&field("name"), "begins with `cap.`, as the names of capabilities do"));
    }
    let description = description(tool.description, &field("description"))?;
    let schema = InputSchema::parse(&tool.input_schema.0)
        .map_err(|error| (field("input_schema"), error.to_string()))?;
    let request = request(&tool.request, &field("request"), &schema)?;
    let taken = own_headers(&request, &field("request"), auth)?;
    let carrier = Carrier::Vendor { taken: &taken };
    let declared = effect::build(place, None, Some(tool.effect), carrier)?;
    if declared.side_effect.is_none() {
        let problem = "must say what a call does: `read`, `write` or `destructive`";
        return Err(at(&field("effect.side_effect"), problem));
    }
    if let Some(KeyBinding::Body(pointer)) = declared.effect.as_ref().map(|spec| &spec.binding) {
        request.takes_key(pointer).map_err(|error| {
            let problem = format!("cannot be written into `request.body.json`: {error}");
            (field("effect.idempotency.body_pointer"), problem)
        })?;
    }
    let tool_rules = Tool {
        required_trust: Trust::default(),
        side_effect: declared.side_effect,
        effect: declared.effect.map(Arc::new),
    };
    Ok(VendorTool { name: tool.name, description, schema, request, tool: tool_rules })
}

fn request(
    request: &fields::Request,
    place: &str,
    schema: &InputSchema,
) -> Result<RequestTemplate, Mistake> {
    let body = match &request.body {
        None => None,
        Some(fields::Body { json: Some(json), form: None }) => Some(BodySource::Json(&json.0)),
        Some(fields::Body { json: None, form: Some(form) }) => Some(BodySource::Form(&form.0)),
        Some(_) => return Err(at(&format!("{place}.body"), "must have one of `json` and `form`")),
    };
    let source = RequestSource {
        method: &request.method,
        path: &request.path,
        query: request.query.as_ref().map(|json| json.0.as_str()),
        headers: request.headers.as_ref().map(|json| json.0.as_str()),
        body,
    };
    RequestTemplate::parse(source, schema)
        .map_err(|error| (format!("{place}.{}", error.place), error.problem.to_string()))
}

/// The headers that the connector and the template set, which no key may stand in.
fn own_headers(
    request: &RequestTemplate,
    place: &str,
    auth: Option<&AuthHeader>,
) -> Result<Vec<HeaderName>, Mistake> {
    let mut headers: Vec<_> = auth.iter().map(|auth| auth.header.clone()).collect();
    for name in request.header_names() {
        let field = format!("{place}.headers.{name}");
        if headers::is_reserved(name.as_str()) && name != ACCEPT {
            return Err(at(&field, "is taken: the gateway sets it, or it is no tool's to set"));
        }
        if headers.contains(name) {
            return Err(at(&field, "is the header of `auth` too: leave it out here"));
        }
        headers.push(name.clone());
    }
    Ok(headers)
}
