//! Authorize: the policy's decision about this request (CONTRACT section 9).

use actix_web::http::header::HeaderMap;
use jiff::Timestamp;

use super::message::Message;
use crate::identity::{Identity, session_name};
use crate::policy::{self, Decision, ServerPolicy, SessionsFile};

/// What the request asks for.
pub struct Asked<'e, 'd, 'a> {
    /// Its headers.
    pub headers: &'e HeaderMap,
    /// Its message, if it carries one.
    pub message: Option<&'e Message<'d, 'a>>,
    /// Whether any key source is present.
    pub keyed: bool,
}

/// Asks the policy.
pub fn decide(
    policy: &ServerPolicy,
    sessions: &SessionsFile,
    identity: &Identity,
    asked: &Asked<'_, '_, '_>,
) -> Decision {
    policy::authorize(
        policy,
        sessions,
        &policy::Request {
            caller: identity.principal(),
            session: session_name(asked.headers, &policy.session.header_name),
            tool: asked.message.and_then(Message::call).map(|call| call.tool.as_ref()),
            keyed: asked.keyed,
            now: Timestamp::now(),
        },
    )
}
