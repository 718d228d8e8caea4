//! Refusals of a request for its form, whoever sent it.

use std::borrow::Cow;

use super::{
    Advice, Allow, HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, Refusal,
};

/// Before a body was read.
impl Refusal {
    /// No server is configured at this path.
    pub fn unknown_path() -> Self {
        Self::new(
            404,
            "unknown_path",
            Advice::FixRequest,
            "No MCP server is configured at this path; check the URL against the policy's `path`.",
        )
    }

    /// `CONNECT`, or an upgrade to WebSocket.
    pub fn leaves_http() -> Self {
        Self::invalid_request(
            "This gateway opens no tunnel; send an MCP request over plain HTTP, without Upgrade.",
        )
        .close()
    }

    /// The request's `Origin` is not an allowed one.
    pub fn origin_not_allowed() -> Self {
        Self::new(
            403,
            "origin_not_allowed",
            Advice::FixRequest,
            "Requests from this web origin are not allowed; add it to `listen.allowed_origins` if \
             it should be.",
        )
    }

    /// The request's `Host` is not a name of this gateway.
    pub fn host_not_allowed() -> Self {
        Self::new(
            403,
            "host_not_allowed",
            Advice::FixRequest,
            "This listener answers under names of its own machine only; add the name to \
             `listen.allowed_hosts` if it should answer under this one.",
        )
        .close()
    }

    /// Plain HTTP, where TLS is spoken.
    pub fn tls_required() -> Self {
        Self::new(
            400,
            "tls_required",
            Advice::FixRequest,
            "This listener speaks TLS and nothing was read; use https in the URL.",
        )
        .close()
    }

    /// No valid policy has been loaded yet.
    pub fn policy_unavailable() -> Self {
        Self::new(
            503,
            "policy_unavailable",
            Advice::RetrySameKey,
            "The gateway has no valid policy yet; try again, and look at /v1/status if it stays \
             so.",
        )
        .retry_after(1)
    }

    /// The process is stopping.
    pub fn shutting_down() -> Self {
        Self::new(
            503,
            "shutting_down",
            Advice::RetrySameKey,
            "The gateway is shutting down and did not forward this request; send it again.",
        )
        .retry_after(1)
        .close()
    }

    /// The body exceeds `request_bytes`.
    pub fn request_too_large(limit: usize) -> Self {
        Self::new(
            413,
            "request_too_large",
            Advice::FixRequest,
            format!("The request body exceeds {limit} bytes (`limits.request_bytes`); send less."),
        )
        .close()
    }

    /// The body did not arrive in time.
    pub fn request_timeout() -> Self {
        Self::new(
            408,
            "request_timeout",
            Advice::RetrySameKey,
            "The request body did not arrive in time; nothing was forwarded, send it again.",
        )
        .close()
    }

    /// The body ended early or its framing is broken.
    pub fn request_incomplete() -> Self {
        Self::new(
            400,
            "request_incomplete",
            Advice::RetrySameKey,
            "The request body is incomplete or badly framed; nothing was forwarded, send it again.",
        )
        .close()
    }

    /// A request with a content coding: two parties could read two bodies.
    pub fn content_encoding() -> Self {
        Self::new(
            415,
            "unsupported_content_encoding",
            Advice::FixRequest,
            "Send the request body without Content-Encoding.",
        )
        .close()
    }

    /// A body on anything but a POST: nobody looked at what it asks for.
    pub fn unexpected_body() -> Self {
        Self::new(
            400,
            "unexpected_body",
            Advice::FixRequest,
            "Only a POST carries a message; send this request without a body.",
        )
    }

    /// A POST that is not `application/json`.
    pub fn media_type() -> Self {
        Self::new(
            415,
            "unsupported_media_type",
            Advice::FixRequest,
            "Send the JSON-RPC message with Content-Type: application/json in UTF-8.",
        )
    }
}

/// What the body says.
impl Refusal {
    /// Not strict JSON.
    pub fn parse_error(detail: &crate::claim::JsonError) -> Self {
        Self::new(
            400,
            "parse_error",
            Advice::FixRequest,
            format!("The body is not strict JSON: {detail}; correct it and send it again."),
        )
        .code(PARSE_ERROR)
    }

    /// A batch.
    pub fn batch() -> Self {
        Self::invalid_request("JSON-RPC batches are not supported; send one message per request.")
    }

    /// Not a JSON-RPC message that can be understood one way only.
    pub fn invalid_request(message: &'static str) -> Self {
        Self::new(400, "invalid_request", Advice::FixRequest, message).code(INVALID_REQUEST)
    }

    /// A `tools/call` whose params cannot name a tool.
    pub fn invalid_params() -> Self {
        Self::invalid_params_because(
            "The params of tools/call must be an object whose name is a string.",
        )
    }

    /// A native server without the tool.
    pub fn unknown_tool() -> Self {
        Self::invalid_params_because(
            "This server has no tool of that name; tools/list says which it has.",
        )
    }

    /// A native server is asked for something else than a message.
    pub fn not_served() -> Self {
        Self::new(
            405,
            "method_not_allowed",
            Advice::FixRequest,
            "This server answers POST alone: it has no stream to listen to and no session to end.",
        )
        .allow(Allow::Post)
    }

    /// Params that the tool does not take.
    pub fn invalid_params_because(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, "invalid_params", Advice::FixRequest, message).code(INVALID_PARAMS)
    }

    /// A mirrored header that disagrees with the body (MCP 2026-07-28).
    pub fn header_mismatch(message: &'static str) -> Self {
        Self::new(400, "header_mismatch", Advice::FixRequest, message).code(HEADER_MISMATCH)
    }
}
