//! What `demo --keep-running` prints: where everything is, and lines to paste.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::payments;
use super::scenes::{DEFAULT_PATH, RECORDED_PATH};
use super::timeline::Timeline;

/// Where everything is that stays up.
#[derive(Debug, Clone)]
pub struct Place {
    /// The gateway's MCP listener.
    pub mcp: SocketAddr,
    /// The gateway's admin listener.
    pub admin: SocketAddr,
    /// The payments server itself.
    pub payments: SocketAddr,
    /// The gateway's configuration file.
    pub config: PathBuf,
    /// The gateway's audit lines.
    pub audit: PathBuf,
}

/// Prints the addresses and the curl lines.
pub fn print(at: &Place, timeline: &mut Timeline<'_>) {
    let Place { mcp, admin, payments, config, audit } = at;
    timeline.heading("Left running: try it yourself, and stop it with Ctrl-C");
    for (name, what) in [
        ("gateway", format!("http://{mcp}{DEFAULT_PATH}")),
        ("  with streams: record", format!("http://{mcp}{RECORDED_PATH}")),
        ("  admin", format!("http://{admin}")),
        ("  configuration", config.display().to_string()),
        ("  audit lines", audit.display().to_string()),
        ("payments, with nothing in front", format!("http://{payments}{}", payments::PATH)),
    ] {
        timeline.entry(name, &what);
    }
    for (title, lines) in recipes(at) {
        timeline.blank();
        timeline.verbatim(&format!("# {title}"));
        timeline.verbatim(&lines);
    }
    timeline.blank();
}

/// Each a title and the shell lines for it.
fn recipes(at: &Place) -> [(&'static str, String); 7] {
    let Place { mcp, admin, .. } = at;
    let json = "-H 'Content-Type: application/json'";
    let charge = |key: &str, customer: &str| {
        let call = call("charge", &format!("\"amount\":2500,\"currency\":\"EUR\",{customer}"));
        let post = format!("curl -i http://{mcp}{DEFAULT_PATH} {json}");
        format!("{post} \\\n  -H 'Idempotency-Key: {key}' \\\n{call}")
    };
    let first = charge("order-2001", "\"customer\":\"you\"");
    let other = first.replace(":2500,", ":9900,");
    let list = call("list_charges", "\"customer\":\"you\"");
    [
        ("A charge with a key", first.clone()),
        ("The same again: Idempotency-Replayed, and no second charge", first),
        ("Another amount under the same key: 409 idempotency_key_conflict", other),
        (
            "It charges and dies: 502. Again: 409 idempotency_outcome_unknown, never charged again",
            charge("order-2002", "\"customer\":\"you\",\"simulate\":\"crash\""),
        ),
        (
            "What was really charged",
            format!("curl -s http://{mcp}{DEFAULT_PATH} {json} \\\n{list}"),
        ),
        ("The gateway's view", format!("curl -s http://{admin}/v1/status")),
        (
            "Outcomes, counted",
            format!("curl -s http://{admin}/metrics | grep mcp_gateway_idempotency_total"),
        ),
    ]
}

/// The `-d` of a tool call; the line break within is white space of the JSON.
fn call(tool: &str, arguments: &str) -> String {
    format!(
        "  -d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\n      \
         \"arguments\":{{{arguments}}}}}}}'"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::cli::demo::timeline::WIDTH;

    fn local(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn lines() -> [(&'static str, String); 7] {
        recipes(&Place {
            mcp: local(8080),
            admin: local(8081),
            payments: local(9000),
            config: PathBuf::new(),
            audit: PathBuf::new(),
        })
    }

    /// The JSON of a `-d`.
    fn body(lines: &str) -> Option<Value> {
        let json = lines.split_once("-d '")?.1.strip_suffix('\'')?;
        Some(serde_json::from_str(json).expect("the body of a curl line is JSON"))
    }

    #[test]
    fn every_line_fits_and_every_body_is_a_call_of_a_tool() {
        let bodies: Vec<Value> = lines().iter().filter_map(|(_, lines)| body(lines)).collect();
        assert_eq!(bodies.len(), 5);
        for call in &bodies {
            assert_eq!((&call["jsonrpc"], &call["method"]), (&"2.0".into(), &"tools/call".into()));
            assert!(call["params"]["arguments"].is_object(), "{call}");
        }
        for (title, lines) in lines() {
            let widest = lines.lines().chain([title]).map(|line| line.chars().count()).max();
            assert!(widest <= Some(WIDTH), "{lines}");
        }
    }

    #[test]
    fn the_second_line_repeats_the_first_and_the_third_changes_the_amount_only() {
        let [(_, first), (_, again), (_, other), ..] = lines();
        assert_eq!(first, again);
        let (mut first, other) = (body(&first).expect("a body"), body(&other).expect("a body"));
        assert_ne!(first, other);
        first["params"]["arguments"]["amount"] = other["params"]["arguments"]["amount"].clone();
        assert_eq!(first, other);
    }
}
