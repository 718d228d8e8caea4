//! What the gateway answers as an MCP server of its own tools (EFFECTS section 1), in both eras:
//! sessions that begin with `initialize`, and MCP 2026-07-28, where every request stands alone.

use std::borrow::Cow;

use super::InputSchema;
use crate::claim::json::JsonText;
use crate::claim::{Kind, Value};

/// The revisions that begin with `initialize`, the oldest first. The last one is offered to a client
/// that asks for none of them.
pub const HANDSHAKE_VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
/// The revision without a handshake. Its requests name it in `params._meta`, each of them.
pub const STATELESS_VERSION: &str = "2026-07-28";
/// How long a client may keep a listing, in milliseconds: as long as a policy is polled by default.
const LISTING_TTL_MS: u32 = 5_000;
const VERSION_MEMBER: &str = "io.modelcontextprotocol/protocolVersion";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
const VERSION: &str = env!("CARGO_PKG_VERSION");

const INVALID_PARAMS: i32 = -32602;
const UNKNOWN_METHOD: i32 = -32601;
const UNSUPPORTED_VERSION: i32 = -32022;

/// A tool as a listing shows it. It always reaches into an open world.
#[derive(Debug, Clone, Copy)]
pub struct Listed<'t> {
    /// The name that it is called by.
    pub name: &'t str,
    /// What it is for.
    pub description: Option<&'t str>,
    /// What its arguments must be.
    pub input_schema: &'t InputSchema,
    /// It changes nothing.
    pub read_only: bool,
    /// What it changes cannot be brought back.
    pub destructive: bool,
    /// A repeated call changes nothing more.
    pub idempotent: bool,
}

/// What answers a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing, with 202: a notification, or a client's own response.
    Nothing,
    /// A JSON-RPC response.
    Message {
        /// The HTTP status.
        status: u16,
        /// The whole message.
        text: String,
    },
}

/// Which rules a request follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Handshake,
    Stateless,
}

/// The refusal of a request by a revision that is not spoken here; none where it is. `header` is the
/// request's `MCP-Protocol-Version`, which stands for a member that is missing.
pub fn unspoken(message: Value<'_, '_>, header: Option<&str>) -> Option<Answer> {
    message.get("method")?;
    let id = message.get("id")?;
    let version = version(message, header)?;
    era(&version).is_none().then(|| unsupported(id.raw(), &version))
}

/// The revision that a request names, if any. What a client offers in `initialize` is agreed upon in
/// the answer.
fn version<'a>(message: Value<'_, 'a>, header: Option<&'a str>) -> Option<Cow<'a, str>> {
    let params = message.get("params");
    let named = params.and_then(|params| params.get("_meta")?.get(VERSION_MEMBER)?.as_str());
    let initializes =
        || message.get("method").and_then(Value::as_str).as_deref() == Some("initialize");
    named.or_else(|| header.filter(|_| !initializes()).map(Cow::Borrowed))
}

fn era(version: &str) -> Option<Era> {
    match version {
        STATELESS_VERSION => Some(Era::Stateless),
        _ => HANDSHAKE_VERSIONS.contains(&version).then_some(Era::Handshake),
    }
}

/// Answers every message of a client's that is no `tools/call`, as the server of this name; `header`
/// as in [`unspoken`].
pub fn answer_to<'t>(
    message: Value<'_, '_>,
    header: Option<&str>,
    server: &str,
    tools: impl Iterator<Item = Listed<'t>>,
) -> Answer {
    let method = message.get("method").and_then(Value::as_str);
    let (Some(method), Some(id)) = (method, message.get("id")) else {
        return Answer::Nothing;
    };
    let id = id.raw();
    let params = message.get("params");
    let version = version(message, header);
    let era = version.as_deref().map_or(Some(Era::Handshake), era);
    let Some(era) = era else { return unsupported(id, version.as_deref().unwrap_or_default()) };
    match (&*method, era) {
        ("tools/list", _) if has_cursor(params) => Answer::Message {
            status: 400,
            text: error(id, INVALID_PARAMS, "The listing has one page: leave the cursor out.", ""),
        },
        ("tools/list", _) => result(id, &list(era, server, tools)),
        ("initialize", Era::Handshake) => result(id, &initialize(params, server)),
        ("ping", Era::Handshake) => result(id, "{}"),
        ("server/discover", Era::Stateless) => result(id, &discover(server)),
        _ => Answer::Message {
            // In a session, 404 would say that the session is over.
            status: if era == Era::Stateless { 404 } else { 200 },
            text: error(id, UNKNOWN_METHOD, "This server has no such method: call its tools.", ""),
        },
    }
}

/// A JSON-RPC response; `id` is the request's, as JSON text.
pub(super) fn response(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn result(id: &str, result: &str) -> Answer {
    Answer::Message { status: 200, text: response(id, result) }
}

/// `data` is a member of its own, with the comma before it, or nothing.
fn error(id: &str, code: i32, message: &str, data: &str) -> String {
    let error = format!(r#"{{"code":{code},"message":"{message}"{data}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

fn unsupported(id: &str, version: &str) -> Answer {
    let versions = HANDSHAKE_VERSIONS.iter().chain([&STATELESS_VERSION]);
    let supported: Vec<_> = versions.map(|version| format!("\"{version}\"")).collect();
    let requested = JsonText::string(version);
    let data = format!(
        r#","data":{{"supported":[{}],"requested":{}}}"#,
        supported.join(","),
        requested.as_str()
    );
    let message = "This protocol version is not spoken here: use one of `data.supported`.";
    Answer::Message { status: 400, text: error(id, UNSUPPORTED_VERSION, message, &data) }
}

fn has_cursor(params: Option<Value<'_, '_>>) -> bool {
    let cursor = params.and_then(|params| params.get("cursor"));
    cursor.is_some_and(|cursor| cursor.kind() != Kind::Null)
}

/// What a result of this era begins with, up to the first member of its own.
fn opening(era: Era, server: &str) -> String {
    match era {
        Era::Handshake => "{".to_owned(),
        Era::Stateless => format!(
            r#"{{"resultType":"complete","_meta":{{"{SERVER_INFO}":{}}},"#,
            implementation(server)
        ),
    }
}

fn initialize(params: Option<Value<'_, '_>>, server: &str) -> String {
    let asked = params.and_then(|params| params.get("protocolVersion")?.as_str());
    let [.., newest] = HANDSHAKE_VERSIONS;
    let known = HANDSHAKE_VERSIONS.into_iter().find(|version| asked.as_deref() == Some(*version));
    format!(
        r#"{{"protocolVersion":"{}","capabilities":{{"tools":{{}}}},"serverInfo":{}}}"#,
        known.unwrap_or(newest),
        implementation(server)
    )
}

fn discover(server: &str) -> String {
    format!(
        r#"{}"supportedVersions":["{STATELESS_VERSION}"],"capabilities":{{"tools":{{}}}},{}}}"#,
        opening(Era::Stateless, server),
        caching()
    )
}

fn list<'t>(era: Era, server: &str, tools: impl Iterator<Item = Listed<'t>>) -> String {
    let mut result = opening(era, server);
    result.push_str(r#""tools":["#);
    for (index, tool) in tools.enumerate() {
        if index > 0 {
            result.push(',');
        }
        write_tool(&tool, &mut result);
    }
    result.push(']');
    if era == Era::Stateless {
        result.push(',');
        result.push_str(&caching());
    }
    result.push('}');
    result
}

fn write_tool(tool: &Listed<'_>, out: &mut String) {
    out.push_str(r#"{"name":"#);
    out.push_str(JsonText::string(tool.name).as_str());
    if let Some(description) = tool.description {
        out.push_str(r#","description":"#);
        out.push_str(JsonText::string(description).as_str());
    }
    out.push_str(r#","inputSchema":"#);
    out.push_str(tool.input_schema.as_str());
    let Listed { read_only, destructive, idempotent, .. } = tool;
    out.push_str(&format!(
        r#","annotations":{{"readOnlyHint":{read_only},"destructiveHint":{destructive},"#
    ));
    out.push_str(&format!(r#""idempotentHint":{idempotent},"openWorldHint":true}}}}"#));
}

fn implementation(server: &str) -> String {
    format!(r#"{{"name":{},"version":"{VERSION}"}}"#, JsonText::string(server).as_str())
}

/// What a client may keep of a listing: for itself, and for a short time.
fn caching() -> String {
    format!(r#""ttlMs":{LISTING_TTL_MS},"cacheScope":"private""#)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::claim::Document;

    const SERVER: &str = "pay\"ments";

    fn answered(message: &Json, tools: &[Listed<'_>]) -> Answer {
        let text = message.to_string();
        let document = Document::parse(text.as_bytes()).expect("JSON");
        answer_to(document.root(), None, SERVER, tools.iter().copied())
    }

    /// Status and response to a request of an era.
    fn asked(era: Era, method: &str, mut params: Json, tools: &[Listed<'_>]) -> (u16, Json) {
        if era == Era::Stateless {
            params["_meta"] = json!({ VERSION_MEMBER: STATELESS_VERSION });
        }
        let message = json!({ "jsonrpc": "2.0", "id": "x", "method": method, "params": params });
        let Answer::Message { status, text } = answered(&message, tools) else {
            panic!("a request has an answer");
        };
        let response: Json = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&response["jsonrpc"], &response["id"]), (&json!("2.0"), &json!("x")));
        (status, response)
    }

    fn result_of(era: Era, method: &str, params: Json, tools: &[Listed<'_>]) -> Json {
        let (status, response) = asked(era, method, params, tools);
        assert_eq!(status, 200, "{response}");
        response["result"].clone()
    }

    #[test]
    fn initialize_agrees_on_a_version() {
        let cases = [
            ("2025-03-26", "2025-03-26"),
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2024-11-05", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
            ("x", "2025-11-25"),
        ];
        for (asked, agreed) in cases {
            let params = json!({ "protocolVersion": asked });
            let expected = json!({
                "protocolVersion": agreed,
                "capabilities": { "tools": {} },
                "serverInfo": { "name": SERVER, "version": VERSION },
            });
            assert_eq!(result_of(Era::Handshake, "initialize", params, &[]), expected);
        }
    }

    #[test]
    fn discover_tells_what_the_revision_demands() {
        let expected = json!({
            "resultType": "complete",
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": SERVER, "version": VERSION } },
            "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {} },
            "ttlMs": 5000,
            "cacheScope": "private",
        });
        assert_eq!(result_of(Era::Stateless, "server/discover", json!({}), &[]), expected);
    }

    #[test]
    fn a_listing_shows_schemas_as_they_are_and_what_effects_say() {
        let text = r#"{"type": "object", "properties": {"a": {"maximum": 1.10}}}"#;
        let schema = InputSchema::parse(text).expect("a schema");
        let read = Listed {
            name: "read",
            description: Some("reads \"it\""),
            input_schema: &schema,
            read_only: true,
            destructive: false,
            idempotent: true,
        };
        let wipe = Listed {
            name: "wipe",
            description: None,
            read_only: false,
            destructive: true,
            idempotent: false,
            ..read
        };
        let tool = |name: &str, [reads, destroys, repeats]: [bool; 3]| {
            json!({
                "name": name,
                "inputSchema": { "type": "object", "properties": { "a": { "maximum": 1.10 } } },
                "annotations": {
                    "readOnlyHint": reads, "destructiveHint": destroys,
                    "idempotentHint": repeats, "openWorldHint": true,
                },
            })
        };
        let mut first = tool("read", [true, false, true]);
        first["description"] = json!("reads \"it\"");
        let listed = json!([first, tool("wipe", [false, true, false])]);
        let tools = [read, wipe];
        let handshake = result_of(Era::Handshake, "tools/list", json!({}), &tools);
        assert_eq!(handshake, json!({ "tools": listed }));
        let stateless = result_of(Era::Stateless, "tools/list", json!({ "cursor": null }), &tools);
        assert_eq!(stateless["tools"], listed);
        let others = ["resultType", "ttlMs", "cacheScope"].map(|member| stateless[member].clone());
        assert_eq!(others, [json!("complete"), json!(5000), json!("private")]);
        let message = json!({ "id": 1, "method": "tools/list" });
        let Answer::Message { text: verbatim, .. } = answered(&message, &tools) else {
            panic!("a listing");
        };
        assert!(verbatim.contains(text), "the schema's own text");
        let (status, paged) = asked(Era::Handshake, "tools/list", json!({ "cursor": "x" }), &tools);
        assert_eq!((status, &paged["error"]["code"]), (400, &json!(-32602)));
    }

    #[test]
    fn each_era_has_its_own_methods() {
        let unknown = [
            (Era::Handshake, "server/discover", 200),
            (Era::Handshake, "resources/list", 200),
            (Era::Handshake, "tools/List", 200),
            (Era::Stateless, "initialize", 404),
            (Era::Stateless, "ping", 404),
        ];
        for (era, method, expected) in unknown {
            let (status, response) = asked(era, method, json!({}), &[]);
            let code = &response["error"]["code"];
            assert_eq!((status, code), (expected, &json!(-32601)), "{method}");
        }
        assert_eq!(result_of(Era::Handshake, "ping", json!({}), &[]), json!({}));
    }

    #[test]
    fn what_is_no_request_has_no_answer() {
        let messages = [
            json!({ "method": "notifications/initialized" }),
            json!({ "method": "tools/list" }),
            json!({ "id": 1, "result": {} }),
            json!({ "id": 1, "error": {} }),
        ];
        for message in messages {
            assert_eq!(answered(&message, &[]), Answer::Nothing, "{message}");
        }
    }

    #[test]
    fn a_revision_that_is_not_spoken_is_refused_with_those_that_are() {
        for version in ["2026-07-29", "1\"0", ""] {
            let params = json!({ "_meta": { VERSION_MEMBER: version } });
            let (status, response) = asked(Era::Handshake, "tools/list", params, &[]);
            assert_eq!((status, &response["error"]["code"]), (400, &json!(-32022)));
            let supported = json!(["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]);
            let data = json!({ "supported": supported, "requested": version });
            assert_eq!(response["error"]["data"], data);
        }
        let params = json!({ "_meta": { VERSION_MEMBER: "2025-06-18" } });
        assert_eq!(asked(Era::Handshake, "ping", params, &[]).0, 200);
    }

    #[test]
    fn a_header_names_the_revision_where_the_body_does_not() {
        let refused = |message: &str, header| {
            let document = Document::parse(message.as_bytes()).expect("JSON");
            unspoken(document.root(), header).is_some()
        };
        let call = r#"{"id":1,"method":"tools/call","params":{"name":"a"}}"#;
        assert!(refused(call, Some("1999-01-01")));
        for header in [None, Some("2025-06-18"), Some("2026-07-28")] {
            assert!(!refused(call, header), "{header:?}");
        }
        let named =
            format!(r#"{{"id":1,"method":"a","params":{{"_meta":{{"{VERSION_MEMBER}":"x"}}}}}}"#);
        assert!(refused(&named, Some("2025-06-18")), "the body decides");
        assert!(!refused(r#"{"id":1,"method":"initialize"}"#, Some("2024-11-05")));
        assert!(!refused(r#"{"method":"notifications/initialized"}"#, Some("x")));
        let discover = Document::parse(br#"{"id":1,"method":"server/discover"}"#).expect("JSON");
        let answer =
            answer_to(discover.root(), Some(STATELESS_VERSION), SERVER, std::iter::empty());
        assert!(matches!(answer, Answer::Message { status: 200, text } if text.contains("ttlMs")));
    }
}
