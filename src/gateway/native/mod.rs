//! Native tools: a server of the gateway's own that calls vendors (EFFECTS section 1).
//!
//! What is sent and what is answered is made in [`crate::native`]; here it meets a request.

mod request;
mod unkeyed;

use actix_web::HttpResponse;
use actix_web::http::header::HeaderMap;
use actix_web::http::{StatusCode, header};
use actix_web::web::Bytes;

use super::era;
use super::error::Refusal;
use super::message::Message;
use super::telling::Telling;
use crate::native::{self, Answer, Listed, VendorReply, Verdict, answer_to, tool_result};
use crate::policy::{Callable, Catalog, ServerPolicy, SideEffect};
use crate::upstream::Outcome;

pub use request::{keyed_outbound, outbound};
pub use unkeyed::{Unkeyed, call};

/// The most bytes of a vendor's reply that become a tool's result.
pub const MAX_VENDOR_REPLY: usize = 4 * 1024 * 1024;

/// What stands for a longer one.
pub const TOO_LARGE: &str = "The vendor's reply is larger than 4 MiB and is left out.";

const JSON: &str = "application/json";

/// Answers what is no tool call, as the MCP server of these tools.
///
/// # Errors
///
/// 405 for a request without a message: there is no stream to listen to and no session to end.
pub fn answer(
    policy: &ServerPolicy,
    catalog: Option<&Catalog>,
    message: Option<&Message<'_, '_>>,
    headers: &HeaderMap,
) -> Result<HttpResponse, Refusal> {
    let message = message.ok_or_else(Refusal::not_served)?;
    let tools = catalog.into_iter().flat_map(|catalog| catalog.0.values());
    let tools = tools.map(|callable| listed(callable));
    Ok(said(answer_to(message.root(), era::version_in(headers), &policy.name, tools)))
}

/// The refusal of a message by a revision of MCP that these servers do not speak, if it is one.
pub fn unspoken(message: &Message<'_, '_>, headers: &HeaderMap) -> Option<HttpResponse> {
    native::unspoken(message.root(), era::version_in(headers)).map(said)
}

fn said(answer: Answer) -> HttpResponse {
    match answer {
        Answer::Nothing => HttpResponse::Accepted().finish(),
        Answer::Message { status, text } => json(status, text.into()),
    }
}

/// What an outcome says of the call.
pub fn verdict(outcome: &Outcome) -> Verdict {
    match outcome {
        Outcome::Complete(_) | Outcome::NotReplayable(_) => Verdict::Accepted,
        Outcome::Released => Verdict::Rejected,
        Outcome::Unknown(_) => Verdict::Unknown,
    }
}

/// A vendor's reply as the tool's result, under the caller's id.
pub fn result(vendor: &VendorReply<'_>, id: &str, telling: &Telling) -> HttpResponse {
    let body = Bytes::from(tool_result(vendor, id));
    json(200, telling.fill(Some(JSON.as_bytes()), body))
}

fn json(status: u16, body: Bytes) -> HttpResponse {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    HttpResponse::build(status).insert_header((header::CONTENT_TYPE, JSON)).body(body)
}

/// A tool as a listing shows it.
fn listed(callable: &Callable) -> Listed<'_> {
    let side_effect = callable.tool.side_effect;
    let binds = callable.tool.effect.as_ref().is_some_and(|effect| effect.binding.is_supported());
    let reads = side_effect == Some(SideEffect::Read);
    Listed {
        name: &callable.name,
        description: callable.description.as_deref(),
        input_schema: &callable.schema,
        read_only: reads,
        destructive: side_effect == Some(SideEffect::Destructive),
        idempotent: reads || binds,
    }
}
