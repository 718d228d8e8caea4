//! What a tool's arguments must be.

/// A JSON Schema of arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct InputSchema;
