//! From a capability's arguments to those of the tool that it leads to.

/// How the arguments map.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgumentMap;
