//! A native call without a key: sent once, and nothing is kept.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::web::BytesMut;

use crate::gateway::audit::Auditing;
use crate::gateway::destination::Destination;
use crate::gateway::dispatch::{self, NoReply};
use crate::gateway::error::Refusal;
use crate::gateway::message::ToolCall;
use crate::gateway::native::{MAX_VENDOR_REPLY, TOO_LARGE, result};
use crate::gateway::outbound::Outbound;
use crate::gateway::pipeline::refuse;
use crate::gateway::router::Route;
use crate::gateway::state::Worker;
use crate::gateway::telling::Telling;
use crate::native::{VendorReply, Verdict};
use crate::observe::AttemptResult;
use crate::policy::Callable;
use crate::upstream::{Body, Failure, RequestId, Response};

/// A call on its way.
pub struct Unkeyed {
    callable: Arc<Callable>,
    id: RequestId,
    outbound: Outbound,
}

impl Unkeyed {
    /// A call of `callable` that makes this request.
    pub fn new(callable: Arc<Callable>, call: &ToolCall<'_, '_>, outbound: Outbound) -> Self {
        Self { callable, id: RequestId::new(call.id), outbound }
    }
}

/// Sends the request, and answers with the vendor's reply as the tool's result.
pub async fn call(
    worker: &Worker,
    route: &Route,
    call: Unkeyed,
    mut audit: Auditing,
) -> HttpResponse {
    let Unkeyed { callable, id, mut outbound } = call;
    audit.dispatch(&mut outbound);
    let circuit = route.circuit_of(&Destination::native(&callable));
    let refusal = match dispatch::attempt(worker, route, circuit, outbound).await {
        Err(NoReply { refusal, .. }) => refusal,
        Ok((response, _permit)) => match whole(response).await {
            Err(failure) => {
                route.metrics.attempt(dispatch::attempt_result(failure));
                dispatch::refused_by_failure(failure)
            }
            Ok(reply) => {
                route.metrics.attempt(AttemptResult::Replied);
                let response = reply.tell(&callable, &id);
                audit.end(response.status());
                return response;
            }
        },
    };
    refuse_call(audit, &refusal, &id)
}

fn refuse_call(audit: Auditing, refusal: &Refusal, id: &RequestId) -> HttpResponse {
    refuse(audit, refusal, Some(id.as_raw()))
}

struct Reply {
    status: u16,
    content_type: Option<hyper::header::HeaderValue>,
    /// `None`: it was too long.
    body: Option<BytesMut>,
}

impl Reply {
    fn tell(&self, callable: &Callable, id: &RequestId) -> HttpResponse {
        let statuses = callable.tool.effect.as_ref().map(|effect| effect.statuses);
        let statuses = statuses.unwrap_or_default();
        let verdict = if statuses.accepted.contains(self.status) {
            Verdict::Accepted
        } else if statuses.rejected.contains(self.status) {
            Verdict::Rejected
        } else {
            Verdict::Unknown
        };
        let (content_type, body) = match &self.body {
            Some(body) => (self.content_type.as_ref().map(|value| value.as_bytes()), &body[..]),
            None => (None, TOO_LARGE.as_bytes()),
        };
        let vendor = VendorReply { status: self.status, content_type, body, verdict };
        result(&vendor, id.as_raw(), &Telling::default())
    }
}

async fn whole(response: Response) -> Result<Reply, Failure> {
    let Response { status, headers, body } = response;
    let content_type = headers.get(hyper::header::CONTENT_TYPE).cloned();
    Ok(Reply { status, content_type, body: read(body).await? })
}

async fn read(mut body: Body) -> Result<Option<BytesMut>, Failure> {
    let mut whole = BytesMut::new();
    while let Some(chunk) = body.chunk().await? {
        if whole.len() + chunk.len() > MAX_VENDOR_REPLY {
            return Ok(None);
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(Some(whole))
}
