//! Claim: from an authorized keyed call to the slot that it asks for (CONTRACT section 3, "Hashes";
//! EFFECTS section 4).

use std::sync::Arc;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::destination::{Declared, Destination};
use super::error::Refusal;
use super::message::{TOOLS_CALL, ToolCall};
use super::router::Names;
use super::telling::Telling;
use crate::claim::{
    Call, Dispatch, Fingerprint, Key, Pin, Round, Subject, principal_id, request_hash, scope_id,
    scoped_key, vendor_key, workspace_principal_id, workspace_scope_id, workspace_scoped_key,
};
use crate::identity::{Identity, Principal, Verified};
use crate::policy::{Effect, HexDigest, KeyBinding, Keys, OnUnknown, ServerPolicy};
use crate::store::receipt::Opening;
use crate::store::{Begin, Domain};
use crate::upstream::RequestId;

/// Stands for the connection of a capability, whose slot names none.
const UNRESOLVED: &str = "unresolved";

/// A keyed call that is ready for the store.
pub struct Claim {
    /// What the store is asked.
    pub begin: Begin,
    /// Where its records are kept, in scope `workspace`.
    workspace: Option<WorkspaceRecord>,
    /// The JSON-RPC id: the reply must answer it, and a replay may carry it.
    pub id: RequestId,
    /// Whether a replay carries the id of the retry instead of the first one's.
    pub carries_retrys_id: bool,
    /// What the tool declares of its effect.
    pub effect: Option<Arc<Effect>>,
    /// Where the call goes.
    pub destination: Destination,
    /// The key that the vendor gets, where the tool binds one.
    pub vendor_key: Option<Key>,
    /// What the answers tell beside the reply.
    pub telling: Telling,
    caller: Principal,
    session: Option<Box<str>>,
}

struct WorkspaceRecord {
    id: Arc<str>,
    /// The part of the record's name after the domain; it holds the raw key.
    name: String,
    key: Key,
}

/// Who makes a keyed call, to which tool.
pub struct Asking<'e, 'd, 'a> {
    /// The server's policy.
    pub policy: &'e ServerPolicy,
    /// Who calls.
    pub identity: &'e Identity,
    /// The governed session that the call is bound to.
    pub session: Option<&'e str>,
    /// The call.
    pub call: &'e ToolCall<'d, 'a>,
    /// Where it goes.
    pub destination: Destination,
}

/// Hashes the call once, with the caller, the session and the server or workspace that it belongs
/// to.
///
/// # Errors
///
/// 400 without a verified caller, 503 where the server has no uid.
pub fn claim(asking: Asking<'_, '_, '_>, key: Key) -> Result<Claim, Refusal> {
    let Asking { policy, identity, session, call, destination } = asking;
    let verified = identity.verified().ok_or_else(Refusal::key_without_identity)?;
    let round = Round::of(call.params);
    let hashed = Call { method: TOOLS_CALL, tool: &call.tool, id: call.id, params: call.params };
    let fingerprint = policy.idempotency.fingerprint;
    let effect = destination.effect().cloned();
    let hash = request_hash(fingerprint, &key, &hashed);
    let dispatch = dispatch(&destination, effect.as_deref(), verified);
    let (begin, workspace) = match verified.workspace() {
        None => {
            let uid = policy.uid.as_deref().ok_or_else(without_uid)?;
            let subject = subject(verified.principal());
            let session = session.unwrap_or_default();
            let begin = Begin {
                slot: scoped_key(&subject, session, uid, &key, &round),
                scope: scope_id(uid, &subject, session),
                principal: principal_id(uid, &subject),
                hash,
                dispatch,
            };
            (begin, None)
        }
        Some(workspace) => {
            let (connection, tool) = destination.slot();
            let begin = Begin {
                slot: workspace_scoped_key(workspace, connection, tool, &key, &round),
                scope: workspace_scope_id(workspace, connection),
                principal: workspace_principal_id(workspace),
                hash,
                dispatch,
            };
            let name = record_name(connection, tool, &key, &round);
            (begin, Some(WorkspaceRecord { id: Arc::clone(workspace), name, key: key.clone() }))
        }
    };
    let binds = effect.as_ref().is_some_and(|effect| effect.binding.is_supported());
    let vendor_key = binds.then(|| match (&workspace, policy.uid.as_deref()) {
        (None, Some(uid)) => vendor_key(&begin.slot, uid),
        // The workspace owns the vendor account.
        _ => key.clone(),
    });
    let telling = Telling {
        key: (policy.idempotency.keys == Keys::Always).then_some(key),
        route: destination.told_route().cloned(),
    };
    Ok(Claim {
        begin,
        workspace,
        id: RequestId::new(call.id),
        carries_retrys_id: fingerprint == Fingerprint::Call,
        effect,
        destination,
        vendor_key,
        telling,
        caller: verified.principal().clone(),
        session: session.map(Into::into),
    })
}

impl Claim {
    /// Which records it counts among.
    pub fn domain<'c>(&'c self, policy: &'c ServerPolicy) -> Domain<'c> {
        match &self.workspace {
            Some(workspace) => Domain::Workspace { id: &workspace.id, record: &workspace.name },
            // The claim was refused where there is none.
            None => Domain::Server(policy.uid.as_deref().unwrap_or_default()),
        }
    }

    /// What its receipt says from the start.
    pub fn opening(&self, names: &Names, opened_at: Timestamp) -> Opening {
        let [human, agent, team] = self.caller.shared().map(|part| part.map(Into::into));
        let workspace = self.workspace.as_ref();
        let declared = self.destination.declared();
        Opening {
            key: workspace.map(|workspace| workspace.key.as_str().into()),
            key_hash: self.begin.slot,
            request_hash: self.begin.hash,
            workspace: workspace.map(|workspace| Arc::clone(&workspace.id).into()),
            human,
            agent,
            team,
            session: self.session.clone(),
            namespace: names.namespace.clone(),
            server: names.server.clone(),
            tool: self.destination.tool().into(),
            route: declared.and_then(Declared::facts),
            binding: declared.and_then(|declared| match (&declared.binding, &self.effect) {
                (Some(binding), _) => Some(binding.clone()),
                (None, effect) => Some(effect.as_ref()?.binding.describe().as_str().into()),
            }),
            opened_at,
        }
    }

    /// How the key reaches the vendor.
    pub fn binding(&self) -> Option<(&KeyBinding, &Key)> {
        Some((&self.effect.as_ref()?.binding, self.vendor_key.as_ref()?))
    }
}

fn dispatch(destination: &Destination, effect: Option<&Effect>, verified: &Verified) -> Dispatch {
    let Some(declared) = destination.declared() else { return Dispatch::UNDECLARED };
    let pin = match (verified.workspace(), destination.told_route()) {
        (None, _) => Pin::Free,
        (Some(_), Some(_)) => Pin::Open,
        (Some(_), None) => Pin::Always,
    };
    let redispatch = effect.is_some_and(|effect| {
        effect.on_unknown == OnUnknown::Redispatch && effect.binding.is_supported()
    });
    Dispatch { hash: Some(declared.hash), pin, redispatch }
}

fn subject(principal: &Principal) -> Subject<'_> {
    Subject {
        human: principal.human().unwrap_or_default(),
        agent: principal.agent().unwrap_or_default(),
        team: principal.team().unwrap_or_default(),
    }
}

/// EFFECTS section 4, "Redis layout".
fn record_name(connection: Option<&str>, tool: &str, key: &Key, round: &Round) -> String {
    let digest = |bytes: &[u8]| HexDigest(Sha256::digest(bytes).into());
    let (connection, tool) = (connection.unwrap_or(UNRESOLVED), digest(tool.as_bytes()));
    let opening = format!("{connection}:{tool}:{}", key.as_str());
    if round.is_opening() {
        return opening;
    }
    format!("{opening}:{}", digest(round.as_bytes()))
}

fn without_uid() -> Refusal {
    Refusal::key_unavailable(
        "This server has no uid in its policy, so keyed calls cannot be told apart; ask its \
         operator to set server.uid.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Document, KeyFormat};

    #[test]
    fn a_workspaces_record_is_named_by_the_layout() {
        let key = Key::parse(b"idt_5c1f2a9b0e4d7c6a3b8f1d2e5a4c7b90", KeyFormat::Idt).expect("one");
        let text = br#"{"requestState":"abc"}"#;
        let document = Document::parse(text).expect("JSON");
        // SHA-256 of `t` and of `"abc"`, as coreutils' sha256sum gives them.
        let tool = "e3b98a4da31a127d4bde6e43033f66ba274cab0eb7eb1c70ec41402bf6273dd8";
        let round = "6cc43f858fbb763301637b5af970e2a46b46f461f27e5a0f41e009c59b827b25";
        let opening = record_name(Some("conn_9"), "t", &key, &Round::default());
        assert_eq!(opening, format!("conn_9:{tool}:{}", key.as_str()));
        let next = record_name(None, "t", &key, &Round::of(document.root()));
        assert_eq!(next, format!("unresolved:{tool}:{}:{round}", key.as_str()));
    }
}
