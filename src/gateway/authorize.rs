//! Authorize: the policy's decision about this request (CONTRACT section 9).

use super::message::Message;
use crate::identity::{Credentials, Identity, Verified, session_name};
use crate::policy::{self, Auth, Decision, ServerPolicy, Tool};

/// What the request asks for.
pub struct Asked<'e, 'd, 'a> {
    /// What it shows of its caller, and when.
    pub credentials: &'e Credentials<'e>,
    /// Its message, if it carries one.
    pub message: Option<&'e Message<'d, 'a>>,
    /// What is declared of the tool that it calls.
    pub declared: Option<&'e Tool>,
    /// Whether the call is a keyed one.
    pub keyed: bool,
}

/// Asks the policy.
pub fn decide(policy: &ServerPolicy, identity: &Identity, asked: &Asked<'_, '_, '_>) -> Decision {
    let credentials = asked.credentials;
    let session = match policy.auth {
        Auth::Mtls(_) => identity.verified().and_then(Verified::session),
        _ => session_name(credentials.headers, &policy.session.header_name),
    };
    let tool = asked.message.and_then(Message::call).map(|call| call.tool.as_ref());
    policy::authorize(
        policy,
        credentials.sessions,
        &policy::Request {
            caller: identity.principal(),
            session,
            tool,
            declared: asked.declared,
            keyed: asked.keyed,
            now: credentials.now,
        },
    )
}
