//! What is sent to a vendor.

use bytes::Bytes;
use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};

/// A tool's `request`.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestTemplate;

/// A request that is ready but for its address, credential and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorRequest {
    /// The method.
    pub method: Method,
    /// Path and query below the base URL; begins with `/`.
    pub path_and_query: String,
    /// The template's own headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The media type of the body, if there is one.
    pub content_type: Option<&'static str>,
    /// The body.
    pub body: Bytes,
}
