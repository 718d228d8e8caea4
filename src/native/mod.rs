//! Vendors as tools: from the arguments of a `tools/call` to an HTTP request, and from the vendor's
//! reply to a tool's result (EFFECTS section 1).
//!
//! Nothing here does I/O or knows a policy: what a document says comes in as values.

mod arguments;
mod body;
mod error;
mod mcp;
mod path;
mod result;
mod schema;
mod template;
mod text;

pub use arguments::ArgumentMap;
pub use error::{RenderError, TemplateError, TemplateProblem};
pub use mcp::{Answer, HANDSHAKE_VERSIONS, Listed, STATELESS_VERSION, answer_to, unspoken};
pub use result::{MAX_EXPLANATION_BYTES, MAX_SHOWN_BYTES, VendorReply, Verdict, tool_result};
pub use schema::{ArgumentError, InputSchema, MAX_SCHEMA_BYTES, SchemaError};
pub use template::{
    BodySource, MAX_BODY_BYTES, MAX_FIELDS, MAX_HEADER_BYTES, MAX_TARGET_BYTES, RequestSource,
    RequestTemplate, VendorRequest,
};
