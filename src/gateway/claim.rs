//! Claim: from an authorized keyed call to the slot that it asks for (CONTRACT section 3,
//! "Hashes").

use super::error::Refusal;
use super::message::{TOOLS_CALL, ToolCall};
use crate::claim::{
    Call, Dispatch, Fingerprint, Key, Round, Subject, principal_id, request_hash, scope_id,
    scoped_key,
};
use crate::identity::Identity;
use crate::policy::ServerPolicy;
use crate::store::Begin;
use crate::upstream::RequestId;

/// A keyed call that is ready for the store.
pub struct Claim {
    /// What the store is asked.
    pub begin: Begin,
    /// The JSON-RPC id: the reply must answer it, and a replay may carry it.
    pub id: RequestId,
    /// Whether a replay carries the id of the retry instead of the first one's.
    pub carries_retrys_id: bool,
}

/// Hashes the call once, with the caller, the session and the server that it belongs to.
///
/// # Errors
///
/// 400 without a verified caller, 503 where the server has no uid.
pub fn claim(
    policy: &ServerPolicy,
    identity: &Identity,
    session: &str,
    key: &Key,
    call: &ToolCall<'_, '_>,
) -> Result<Claim, Refusal> {
    let principal = identity.verified().ok_or_else(Refusal::key_without_identity)?.principal();
    let uid = policy.uid.as_deref().ok_or_else(|| {
        Refusal::key_unavailable(
            "This server has no uid in its policy, so keyed calls cannot be told apart; ask its \
             operator to set server.uid.",
        )
    })?;
    let subject = Subject {
        human: principal.human().unwrap_or_default(),
        agent: principal.agent().unwrap_or_default(),
        team: principal.team().unwrap_or_default(),
    };
    let round = Round::of(call.params);
    let hashed = Call { method: TOOLS_CALL, tool: &call.tool, id: call.id, params: call.params };
    let begin = Begin {
        slot: scoped_key(&subject, session, uid, key, &round),
        scope: scope_id(uid, &subject, session),
        principal: principal_id(uid, &subject),
        hash: request_hash(policy.idempotency.fingerprint, key, &hashed),
        dispatch: Dispatch::UNDECLARED,
    };
    let carries_retrys_id = policy.idempotency.fingerprint == Fingerprint::Call;
    Ok(Claim { begin, id: RequestId::new(call.id), carries_retrys_id })
}
