//! What the key can be written into, on its way to the vendor.

use hyper::header::HeaderName;

use super::super::headers;
use crate::claim::Pointer;

/// The request that carries a tool's call.
#[derive(Debug, Clone, Copy)]
pub(in crate::policy) enum Carrier<'c> {
    /// A client's MCP request, on its way to an MCP server.
    Mcp {
        /// Headers that this server gives another meaning to.
        taken: &'c [HeaderName],
        /// Whether that server is a broker, which hands no key on.
        broker: bool,
    },
    /// The gateway's own request to a vendor.
    Vendor {
        /// Headers that its connector or its template sets.
        taken: &'c [HeaderName],
    },
}

/// Members of `params` whose value is MCP's own: a key instead of it, or below it, would break the
/// call or make it another one.
const MCP_PARAMS: [&str; 4] = ["name", "inputResponses", "requestState", "task"];
/// The same in `params._meta`.
const MCP_META: [&str; 4] = ["baggage", "progressToken", "traceparent", "tracestate"];
/// Labels of a prefix of `params._meta` that make it MCP's or the gateway's.
const OWN_LABELS: [&str; 3] = ["mcp", "modelcontextprotocol", "onceward"];

impl Carrier<'_> {
    /// Whether the key may go into this header; if not, why.
    pub(super) fn judge_header(self, name: &HeaderName) -> Result<(), &'static str> {
        let (Self::Mcp { taken, .. } | Self::Vendor { taken }) = self;
        if headers::is_reserved(name.as_str()) || taken.contains(name) {
            return Err("is taken: choose the header by which the vendor dedupes");
        }
        Ok(())
    }

    /// Whether the key may be written at this place of the body; if not, why. What depends on the
    /// body itself is seen when it is there.
    pub(in crate::policy) fn judge_pointer(self, pointer: &Pointer) -> Result<(), &'static str> {
        let names: Vec<&str> = pointer.names().collect();
        if names.is_empty() {
            return Err("must point into the body, which is never a key as a whole");
        }
        match self {
            Self::Vendor { .. } => Ok(()),
            Self::Mcp { .. } => in_mcp_request(&names),
        }
    }
}

fn in_mcp_request(names: &[&str]) -> Result<(), &'static str> {
    match names {
        ["params"] | ["params", "arguments" | "_meta"] => {
            Err("must point to a member of it: the call needs it as an object")
        }
        ["params", member, ..] if MCP_PARAMS.contains(member) => {
            Err("belongs to MCP itself: point below `/params/arguments` or `/params/_meta`")
        }
        ["params", "_meta", member, ..] if is_owned(member) => {
            Err("belongs to MCP or to the gateway: choose another member of `/params/_meta`")
        }
        ["params", ..] => Ok(()),
        _ => Err("must be below `/params`: the rest of a request is JSON-RPC's own"),
    }
}

fn is_owned(member: &str) -> bool {
    let own = |(prefix, _): (&str, &str)| prefix.split('.').any(|one| OWN_LABELS.contains(&one));
    MCP_META.contains(&member) || member.split_once('/').is_some_and(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(carrier: Carrier<'_>, pointer: &str) -> Result<(), &'static str> {
        carrier.judge_pointer(&Pointer::parse(pointer).expect(pointer))
    }

    #[test]
    fn a_key_goes_where_a_call_has_room_for_it() {
        let call = Carrier::Mcp { taken: &[], broker: false };
        for good in [
            "/params/arguments/client_token",
            "/params/arguments/meta/0/id",
            "/params/arguments/name",
            "/params/_meta/com.example~1key",
            "/params/_meta/dev.onceward",
            "/params/idempotencyKey",
        ] {
            assert_eq!(judge(call, good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "/",
            "/method",
            "/id",
            "/jsonrpc",
            "/client_token",
            "/params",
            "/params/name",
            "/params/name/x",
            "/params/arguments",
            "/params/_meta",
            "/params/requestState",
            "/params/inputResponses/a",
            "/params/task/ttl",
            "/params/_meta/progressToken",
            "/params/_meta/traceparent",
            "/params/_meta/dev.onceward~1idempotency-key",
            "/params/_meta/dev.onceward~1approval/x",
            "/params/_meta/io.modelcontextprotocol~1protocolVersion",
            "/params/_meta/com.mcp.tools~1key",
        ] {
            assert!(judge(call, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_vendors_body_is_the_vendors_own() {
        let vendor = Carrier::Vendor { taken: &[] };
        for good in ["/id", "/params/name", "/a/0/b"] {
            assert_eq!(judge(vendor, good), Ok(()), "{good}");
        }
        assert!(judge(vendor, "").is_err(), "the whole body");
    }

    #[test]
    fn a_key_goes_into_no_header_that_means_something_else() {
        let session = HeaderName::from_static("x-session");
        let taken = [session];
        for carrier in
            [Carrier::Mcp { taken: &taken, broker: false }, Carrier::Vendor { taken: &taken }]
        {
            for (name, free) in [
                ("idempotency-key", true),
                ("x-request-id", true),
                ("x-session", false),
                ("authorization", false),
                ("content_length", false),
                ("connection", false),
                ("accept", false),
                ("mcp-session-id", false),
                ("mcp-param-region", false),
                ("x-mcp-human-id", false),
                ("onceward-approval", false),
                ("traceparent", false),
            ] {
                let header = HeaderName::try_from(name).expect(name);
                assert_eq!(carrier.judge_header(&header).is_ok(), free, "{name}");
            }
        }
    }
}
