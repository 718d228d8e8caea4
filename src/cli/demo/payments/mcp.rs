//! The payments server's MCP side: one JSON-RPC message a POST, no transport session.

use actix_web::{HttpRequest, HttpResponse, web};
use serde::Deserialize;
use serde_json::{Value, json};

use super::charge::{self, ChargeArguments};
use super::{Bank, Line};

/// The newest protocol version that the server knows; it is answered to a client that asks for
/// one that is not in [`VERSIONS`].
const NEWEST: &str = "2025-11-25";
const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", NEWEST];

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

/// One JSON-RPC message; without an id it is a notification.
#[derive(Deserialize)]
struct Message {
    id: Option<Value>,
    method: String,
    #[serde(default)]
    params: Value,
}

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    #[serde(default)]
    arguments: Value,
    #[serde(default, rename = "_meta")]
    meta: Meta,
}

#[derive(Default, Deserialize)]
struct Meta {
    #[serde(rename = "progressToken")]
    progress_token: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    customer: Option<String>,
}

/// Answers one POST.
pub(super) async fn post(
    request: HttpRequest,
    body: web::Bytes,
    bank: web::Data<Bank>,
) -> HttpResponse {
    let Ok(message) = serde_json::from_slice::<Message>(&body) else {
        let reply = error(&Value::Null, PARSE_ERROR, "send one JSON-RPC request or notification");
        return HttpResponse::BadRequest().json(reply);
    };
    let Some(id) = message.id else {
        return HttpResponse::Accepted().finish();
    };
    if !(id.is_string() || id.is_number()) {
        let reply = error(&Value::Null, INVALID_REQUEST, "the id must be a string or a number");
        return HttpResponse::BadRequest().json(reply);
    }
    match message.method.as_str() {
        "initialize" => HttpResponse::Ok().json(result(&id, initialized(&message.params))),
        "ping" => HttpResponse::Ok().json(result(&id, json!({}))),
        "tools/list" => HttpResponse::Ok().json(result(&id, tools())),
        "tools/call" => call(&request, &bank, id, message.params).await,
        _ => HttpResponse::Ok().json(error(&id, METHOD_NOT_FOUND, "no such method")),
    }
}

async fn call(request: &HttpRequest, bank: &Bank, id: Value, params: Value) -> HttpResponse {
    let Ok(call) = serde_json::from_value::<ToolCall>(params) else {
        return HttpResponse::Ok().json(error(&id, INVALID_PARAMS, "name the tool to call"));
    };
    match call.name.as_str() {
        "charge" => match ChargeArguments::read(call.arguments) {
            Ok(arguments) => {
                let line = request.conn_data::<Line>();
                charge::charge(bank, line, id, arguments, call.meta.progress_token).await
            }
            Err(mistake) => HttpResponse::Ok().json(tool_error(&id, &mistake)),
        },
        "list_charges" => HttpResponse::Ok().json(list_charges(bank, &id, call.arguments)),
        _ => HttpResponse::Ok().json(error(&id, INVALID_PARAMS, "no such tool; see tools/list")),
    }
}

fn list_charges(bank: &Bank, id: &Value, arguments: Value) -> Value {
    let arguments = if arguments.is_null() { json!({}) } else { arguments };
    let customer = match serde_json::from_value::<ListArguments>(arguments) {
        Ok(arguments) => arguments.customer,
        Err(mistake) => return tool_error(id, &mistake.to_string()),
    };
    let lines: Vec<String> = bank
        .ledger
        .since(0)
        .iter()
        .filter(|charge| customer.as_ref().is_none_or(|name| *name == charge.order.customer))
        .map(|charge| format!("{} {}", charge.name(), charge.order))
        .collect();
    let text = if lines.is_empty() { "no charges".to_owned() } else { lines.join("\n") };
    tool_result(id, &text)
}

fn initialized(params: &Value) -> Value {
    let asked = params.get("protocolVersion").and_then(Value::as_str);
    let version = asked.filter(|version| VERSIONS.contains(version)).unwrap_or(NEWEST);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "payments", "version": env!("CARGO_PKG_VERSION") },
    })
}

fn tools() -> Value {
    json!({ "tools": [
        {
            "name": "charge",
            "description": "Charges a customer. Every call charges again.",
            "inputSchema": charge::schema(),
            "annotations": { "readOnlyHint": false, "idempotentHint": false },
        },
        {
            "name": "list_charges",
            "description": "Lists what was charged, of one customer or of all.",
            "inputSchema": {
                "type": "object",
                "properties": { "customer": { "type": "string" } },
                "additionalProperties": false,
            },
            "annotations": { "readOnlyHint": true },
        },
    ] })
}

fn result(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// The reply to a call whose tool ran.
pub(super) fn tool_result(id: &Value, text: &str) -> Value {
    result(id, json!({ "content": [{ "type": "text", "text": text }], "isError": false }))
}

/// The reply to a call whose tool refused.
pub(super) fn tool_error(id: &Value, text: &str) -> Value {
    result(id, json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
}
