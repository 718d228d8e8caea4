//! The governance headers: who calls in mode `header`, and the session in every mode.

use actix_web::http::header::{HeaderMap, HeaderName};

use super::principal::is_subject;
use super::{AuthError, Principal};

/// Names the human. Fixed: the policy's `human_id_header` is accepted without effect.
pub const HUMAN_HEADER: &str = "X-MCP-Human-ID";
/// Names the agent.
pub const AGENT_HEADER: &str = "X-MCP-Agent-ID";
/// Names the team.
pub const TEAM_HEADER: &str = "X-MCP-Team-ID";

/// The principal that the request claims, if it names any part.
pub(super) fn delegated(headers: &HeaderMap) -> Result<Option<Principal>, AuthError> {
    let human = single(headers, HUMAN_HEADER)?;
    let agent = single(headers, AGENT_HEADER)?;
    let team = single(headers, TEAM_HEADER)?;
    // The parts were read as subjects, so the only error left is that nobody is named.
    Ok(Principal::new(human, agent, team).ok())
}

fn single<'h>(headers: &'h HeaderMap, name: &'static str) -> Result<Option<&'h str>, AuthError> {
    let mut lines = headers.get_all(name);
    let Some(line) = lines.next() else {
        return Ok(None);
    };
    match line.to_str() {
        Ok(text) if lines.next().is_none() && is_subject(text.as_bytes()) => Ok(Some(text)),
        _ => Err(AuthError::UnreadableHeader(name)),
    }
}

/// The governed session that a request names, for [`crate::policy::Request::session`].
///
/// A header that comes twice or is not visible ASCII is `Some("")`, which no binding is called:
/// authorization then treats it as an unknown session, never as an absent one.
pub fn session_name<'h>(headers: &'h HeaderMap, header: &HeaderName) -> Option<&'h str> {
    let mut lines = headers.get_all(header);
    let line = lines.next()?;
    match line.to_str() {
        Ok(text) if lines.next().is_none() => Some(text),
        _ => Some(""),
    }
}
