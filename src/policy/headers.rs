//! Headers that a document cannot give a meaning to, because they have one.

/// Headers that mean something else already, in lower case.
const TAKEN: [&str; 9] = [
    "authorization",
    "content-length",
    "content-type",
    "host",
    IDEMPOTENCY_KEY,
    "mcp-session-id",
    "x-mcp-agent-id",
    "x-mcp-human-id",
    "x-mcp-team-id",
];

/// The usual header of a vendor that dedupes, and the client's own at the gateway.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Headers of one connection or message, which the gateway sets itself.
const OF_CONNECTIONS: [&str; 10] = [
    "accept-encoding",
    "connection",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers by which either side reads the message, or follows it.
const OF_MESSAGES: [&str; 9] = [
    "accept",
    "baggage",
    "content-encoding",
    "cookie",
    "last-event-id",
    "origin",
    "traceparent",
    "tracestate",
    "x-mcp-verified-spiffe-id",
];

/// What the names of MCP's and the gateway's own headers begin with.
const OWN: [&str; 2] = ["mcp-", "onceward-"];

/// Whether a header, its name in lower case, means something else already.
pub(super) fn is_taken(name: &str) -> bool {
    TAKEN.contains(&name)
}

/// The same for a header that carries a credential, which may stand in `Authorization`.
pub(super) fn is_taken_from_credentials(name: &str) -> bool {
    name != "authorization" && (is_taken(name) || OF_CONNECTIONS.contains(&name))
}

/// The same for a header that the gateway writes a value of the operator's or a key into. A server
/// may read `_` as `-`.
pub(super) fn is_reserved(name: &str) -> bool {
    let name = name.replace('_', "-");
    let name = name.as_str();
    name != IDEMPOTENCY_KEY
        && (is_taken(name)
            || OF_CONNECTIONS.contains(&name)
            || OF_MESSAGES.contains(&name)
            || OWN.iter().any(|prefix| name.starts_with(prefix)))
}
