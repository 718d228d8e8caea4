//! Whether a request may pass (CONTRACT section 9). Pure: the present is an argument.

use jiff::Timestamp;

use super::grant::Grant;
use super::server::{ServerPolicy, Tool};
use super::session::{Binding, SessionsFile};
use super::words::{DefaultDecision, Mode, RuleDecision, SideEffect, Trust};
use crate::identity::Principal;

/// What authorization looks at.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Who calls, verified or not; `None` where nobody is named.
    pub caller: Option<&'a Principal>,
    /// What the session header says, as [`crate::identity::session_name`] reads it.
    pub session: Option<&'a str>,
    /// The tool of a `tools/call`; `None` for every other request.
    pub tool: Option<&'a str>,
    /// What the policy, or a connector, declares of that tool.
    pub declared: Option<&'a Tool>,
    /// Whether the request carries an idempotency key from any source, readable or not.
    pub keyed: bool,
    /// The present.
    pub now: Timestamp,
}

/// Why a request may pass or may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A grant allows it, or nothing had to.
    Allowed,
    /// Nobody is named.
    MissingIdentity,
    /// The server needs a session, and none is named.
    MissingSession,
    /// No binding of this name belongs to the caller.
    SessionNotFound,
    /// The session was ended by hand.
    SessionRevoked,
    /// The session has ended.
    SessionExpired,
    /// No grant names the caller.
    NoMatchingGrant,
    /// A rule of a matching grant denies the tool.
    ToolDenied,
    /// No matching grant covers the tool.
    ToolNotGranted,
    /// The policy does not say what the tool does.
    ToolSideEffectUnknown,
    /// No grant that covers the tool allows what it does.
    SideEffectNotAllowed,
    /// The caller is trusted less than the tool needs.
    TrustTooLow,
    /// The tool writes where a lost reply must be safe to ask for again, and its vendor does not
    /// dedupe.
    ToolEffectNotIdempotent,
}

impl Reason {
    /// The contract's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::MissingIdentity => "missing_identity",
            Self::MissingSession => "missing_session",
            Self::SessionNotFound => "session_not_found",
            Self::SessionRevoked => "session_revoked",
            Self::SessionExpired => "session_expired",
            Self::NoMatchingGrant => "no_matching_grant",
            Self::ToolDenied => "tool_denied",
            Self::ToolNotGranted => "tool_not_granted",
            Self::ToolSideEffectUnknown => "tool_side_effect_unknown",
            Self::SideEffectNotAllowed => "side_effect_not_allowed",
            Self::TrustTooLow => "trust_too_low",
            Self::ToolEffectNotIdempotent => "tool_effect_not_idempotent",
        }
    }

    /// The HTTP status of a refusal for this reason.
    const fn refusal_status(self) -> u16 {
        match self {
            Self::MissingIdentity
            | Self::MissingSession
            | Self::SessionNotFound
            | Self::SessionRevoked
            | Self::SessionExpired => 401,
            _ => 403,
        }
    }
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may pass.
    pub allowed: bool,
    /// 200, 401 or 403.
    pub status: u16,
    /// Why. A default decision that allows keeps the reason that led to it.
    pub reason: Reason,
    /// The name of the grant that decided.
    pub grant: Option<String>,
    /// The name of the session that the request is bound to, for the scope of a key: a live
    /// binding of the caller's, never merely what the header says.
    pub session: Option<String>,
}

/// Decides. The checks run in the contract's order, and the first that fails names the reason.
///
/// Of several grants that name the caller, one that denies the tool is enough to refuse; else one
/// that allows the call is enough to allow it, each measured by its own trust and rule. A session
/// counts only if it is live and the caller's; where none is bound, the grant's trust stands alone.
pub fn authorize(
    policy: &ServerPolicy,
    sessions: &SessionsFile,
    request: &Request<'_>,
) -> Decision {
    let session = find_session(policy, sessions, request);
    let bound = session.ok().flatten();
    let verdict = verdict(policy, request, session);
    Decision {
        allowed: verdict.allowed,
        status: if verdict.allowed { 200 } else { verdict.reason.refusal_status() },
        reason: verdict.reason,
        grant: verdict.grant.map(|grant| grant.name.clone()),
        session: bound.map(|binding| binding.name.clone()),
    }
}

struct Verdict<'p> {
    allowed: bool,
    reason: Reason,
    grant: Option<&'p Grant>,
}

impl<'p> Verdict<'p> {
    const ALLOWED: Self = Self { allowed: true, reason: Reason::Allowed, grant: None };

    const fn refused(reason: Reason) -> Self {
        Self { allowed: false, reason, grant: None }
    }

    const fn by(self, grant: &'p Grant) -> Self {
        Self { grant: Some(grant), ..self }
    }
}

/// The live session that the request names, `None` if it names none, or why what it names is no
/// such session.
type FoundSession<'p> = Result<Option<&'p Binding>, Reason>;

fn verdict<'p>(
    policy: &'p ServerPolicy,
    request: &Request<'p>,
    session: FoundSession<'p>,
) -> Verdict<'p> {
    let Some(tool) = request.tool else {
        return Verdict::ALLOWED;
    };
    if policy.mode == Mode::Observe {
        return match session {
            Err(reason) if request.keyed => Verdict::refused(reason),
            _ => Verdict::ALLOWED,
        };
    }
    let Some(caller) = request.caller else {
        return Verdict::refused(Reason::MissingIdentity);
    };
    let bound = match session {
        Ok(None) if policy.session.required => return Verdict::refused(Reason::MissingSession),
        Err(reason) if policy.session.required || request.keyed => return Verdict::refused(reason),
        session => session.ok().flatten(),
    };
    let verdict = by_grants(policy, request, (caller, tool), bound);
    match request.declared {
        Some(tool) if verdict.allowed && denied_by_effect(policy, tool) => {
            Verdict { allowed: false, reason: Reason::ToolEffectNotIdempotent, ..verdict }
        }
        _ => verdict,
    }
}

/// Whether the tool writes, in an environment where that needs a vendor that dedupes (EFFECTS
/// section 2). A tool without an effect spec belongs to no environment.
fn denied_by_effect(policy: &ServerPolicy, tool: &Tool) -> bool {
    let writes = matches!(tool.side_effect, Some(SideEffect::Write | SideEffect::Destructive));
    let Some(effect) = tool.effect.as_deref().filter(|_| writes) else { return false };
    let of_rule = |name: &String| policy.deny_unsupported_writes.contains(name);
    !effect.binding.is_supported() && effect.environment.as_ref().is_some_and(of_rule)
}

/// A binding belongs to the server's namespace and to the callers that it names; a foreign one is
/// not found, so that nobody learns of it.
fn find_session<'p>(
    policy: &'p ServerPolicy,
    sessions: &'p SessionsFile,
    request: &Request<'_>,
) -> FoundSession<'p> {
    let Some(name) = request.session else {
        return Ok(None);
    };
    let binding = binding(policy, sessions, name)
        .filter(|binding| request.caller.is_some_and(|caller| binding.subjects.name(caller)))
        .ok_or(Reason::SessionNotFound)?;
    live(binding, request.now)?;
    Ok(Some(binding))
}

/// The binding of this name in the server's namespace: the sessions file's goes before the policy's.
pub(crate) fn binding<'p>(
    policy: &'p ServerPolicy,
    sessions: &'p SessionsFile,
    name: &str,
) -> Option<&'p Binding> {
    sessions.get(&policy.namespace, name).or_else(|| policy.session(name))
}

/// Whether a binding may be used now.
///
/// # Errors
///
/// It was revoked, or its end has passed.
pub(crate) fn live(binding: &Binding, now: Timestamp) -> Result<(), Reason> {
    if binding.revoked {
        return Err(Reason::SessionRevoked);
    }
    if binding.expires_at.is_some_and(|end| end <= now) {
        return Err(Reason::SessionExpired);
    }
    Ok(())
}

fn by_grants<'p>(
    policy: &'p ServerPolicy,
    request: &Request<'_>,
    (caller, tool): (&'p Principal, &str),
    session: Option<&Binding>,
) -> Verdict<'p> {
    let matching = policy.grants.matching(caller);
    if matching.clone().next().is_none() {
        return by_default(policy, Reason::NoMatchingGrant);
    }
    let rules = matching.filter_map(|grant| grant.rule(tool).map(|rule| (grant, rule)));
    if let Some((grant, _)) = rules.clone().find(|(_, rule)| rule.decision == RuleDecision::Deny) {
        return Verdict::refused(Reason::ToolDenied).by(grant);
    }
    let Some((covering, _)) = rules.clone().next() else {
        return by_default(policy, Reason::ToolNotGranted);
    };
    let declared = request.declared;
    let required_trust = declared.map(|tool| tool.required_trust).unwrap_or_default();
    let Some(side_effect) = declared.and_then(|tool| tool.side_effect) else {
        return Verdict::refused(Reason::ToolSideEffectUnknown).by(covering);
    };
    let mut allowing = rules.filter(|(grant, _)| grant.allows(side_effect));
    let Some((first, _)) = allowing.clone().next() else {
        return Verdict::refused(Reason::SideEffectNotAllowed).by(covering);
    };
    let consented = session.map_or(Trust::High, |binding| binding.consented_trust);
    let trusted = allowing.find(|(grant, rule)| {
        grant.max_trust.min(consented) >= required_trust.max(rule.required_trust)
    });
    match trusted {
        Some((grant, _)) => Verdict::ALLOWED.by(grant),
        None => Verdict::refused(Reason::TrustTooLow).by(first),
    }
}

fn by_default<'p>(policy: &ServerPolicy, reason: Reason) -> Verdict<'p> {
    Verdict { allowed: policy.default_decision == DefaultDecision::Allow, reason, grant: None }
}
