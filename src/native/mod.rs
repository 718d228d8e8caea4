//! Vendors as tools: from the arguments of a `tools/call` to an HTTP request, and from the vendor's
//! reply to a tool's result (EFFECTS section 1).
//!
//! Nothing here does I/O or knows a policy: what a document says comes in as values.

mod arguments;
mod schema;
mod template;

pub use arguments::ArgumentMap;
pub use schema::InputSchema;
pub use template::{RequestTemplate, VendorRequest};
