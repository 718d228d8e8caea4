//! Native tools: a server of the gateway's own that calls vendors (EFFECTS section 1).

use actix_web::HttpResponse;
use actix_web::http::header;
use actix_web::web::Bytes;

use super::audit::Auditing;
use super::error::Refusal;
use super::message::{Message, ToolCall};
use super::outbound::Outbound;
use super::router::Route;
use super::state::Worker;
use super::telling::Telling;
use crate::claim::Key;
use crate::policy::{Callable, Catalog, KeyBinding, ServerPolicy};
use crate::upstream::{Outcome, RequestId};
use std::sync::Arc;

/// The most bytes of a vendor's reply that become a tool's result.
pub const MAX_VENDOR_REPLY: usize = 4 * 1024 * 1024;

/// What stands for a longer one.
pub const TOO_LARGE: &str = "The vendor's reply is larger than 4 MiB and is left out.";

/// How a vendor's reply settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    Rejected,
    Unknown,
}

/// A vendor's reply.
pub struct VendorReply<'r> {
    pub status: u16,
    pub content_type: Option<&'r [u8]>,
    pub body: &'r [u8],
    pub verdict: Verdict,
}

/// What an outcome says of the call.
pub fn verdict(outcome: &Outcome) -> Verdict {
    match outcome {
        Outcome::Complete(_) | Outcome::NotReplayable(_) => Verdict::Accepted,
        Outcome::Released => Verdict::Rejected,
        Outcome::Unknown(_) => Verdict::Unknown,
    }
}

/// The tool's result.
pub fn result(vendor: &VendorReply<'_>, id: &str, telling: &Telling) -> HttpResponse {
    let _ = (vendor.status, vendor.content_type, vendor.body, vendor.verdict);
    let body = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    let body = telling.fill(Some(b"application/json"), body);
    HttpResponse::Ok().insert_header((header::CONTENT_TYPE, "application/json")).body(body)
}

pub struct Unkeyed {
    callable: Arc<Callable>,
    id: RequestId,
    outbound: Outbound,
}
impl Unkeyed {
    pub fn new(callable: Arc<Callable>, call: &ToolCall<'_, '_>, outbound: Outbound) -> Self {
        Self { callable, id: RequestId::new(call.id), outbound }
    }
}
pub async fn call(
    _worker: &Worker,
    _route: &Route,
    call: Unkeyed,
    audit: Auditing,
) -> HttpResponse {
    let _ = (call.callable, call.id, call.outbound);
    audit.end(actix_web::http::StatusCode::OK);
    HttpResponse::Ok().finish()
}
pub fn outbound(
    _callable: &Callable,
    _call: &ToolCall<'_, '_>,
    _key: Option<(&KeyBinding, &Key)>,
) -> Result<Outbound, Refusal> {
    Err(Refusal::unknown_tool())
}
pub fn answer(
    _policy: &ServerPolicy,
    _catalog: Option<&Catalog>,
    _message: Option<&Message<'_, '_>>,
) -> Result<HttpResponse, Refusal> {
    Err(Refusal::not_served())
}
