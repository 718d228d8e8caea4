//! One governed server, as it is used: every text parsed, every lookup by name.

use std::fmt;
use std::sync::Arc;

use actix_web::http::header::HeaderName;
use hashbrown::{HashMap, HashSet};

use super::auth::Auth;
use super::effect::Effect;
use super::grant::Grants;
use super::native::Target;
use super::secret::LoadedSecret;
use super::session::{Binding, Bindings};
use super::words::{DefaultDecision, Keys, Mode, SideEffect, SlotScope, Streams, Trust};
use crate::claim::{Fingerprint, KeyFormat, Pointer};

/// The policy of one MCP server (CONTRACT section 9). Its `Debug` names the server and no more: an
/// upstream's query may hold a credential.
#[derive(Clone, PartialEq)]
pub struct ServerPolicy {
    /// Its name; with the namespace, unique among servers.
    pub name: String,
    /// Its namespace; empty where the document has none.
    pub namespace: String,
    /// What slots are made of. Without one a keyed call gets 503.
    pub uid: Option<String>,
    /// The team that owns it.
    pub team_id: Option<String>,
    /// The cluster that it runs in.
    pub cluster: Option<String>,
    /// Where it is served; unique among servers, starts with `/`.
    pub path: String,
    /// Where its tool calls go.
    pub target: Target,
    /// How a broker's own retries are switched off; `None` for a server that is none.
    pub retries_off: Option<RetriesOff>,
    /// How its callers are authenticated.
    pub auth: Auth,
    /// Whether its policy is enforced.
    pub mode: Mode,
    /// What becomes of a call that no grant speaks of.
    pub default_decision: DefaultDecision,
    /// The policy's own generation; empty where the document has none.
    pub policy_version: String,
    /// Environments in which a tool that writes needs a vendor that dedupes.
    pub deny_unsupported_writes: HashSet<String>,
    /// What it asks of sessions.
    pub session: SessionRules,
    /// Who may call which tools.
    pub grants: Grants,
    /// What it promises to keyed calls.
    pub idempotency: IdempotencyRules,
    pub(super) tools: HashMap<String, Tool>,
    pub(super) sessions: Bindings,
}

impl fmt::Debug for ServerPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerPolicy")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("uid", &self.uid)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl ServerPolicy {
    /// What the policy knows of a tool.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// Every tool that the policy knows, in no order.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = (&str, &Tool)> {
        self.tools.iter().map(|(name, tool)| (name.as_str(), tool))
    }

    /// Every tool that somebody can call, those of its catalogs included, by name. One that several
    /// workspaces have is there once, if it is the same.
    pub fn callable_tools(&self) -> Vec<(&str, &Tool)> {
        let catalogs = self.target.native().into_iter().flat_map(|native| native.catalogs());
        let callables = catalogs.flat_map(|catalog| catalog.0.values());
        let own = callables.map(|callable| (callable.name.as_str(), &callable.tool));
        let mut tools: Vec<_> = self.tools().chain(own).collect();
        tools.sort_unstable_by_key(|(name, _)| *name);
        tools.dedup();
        tools
    }

    /// The policy's own binding of this name in the server's namespace; the sessions file's goes
    /// before it.
    pub fn session(&self, name: &str) -> Option<&Binding> {
        self.sessions.get(&self.namespace, name)
    }

    /// How many session bindings the policy itself holds.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }
}

/// What a server asks of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRules {
    /// Whether every `tools/call` needs one.
    pub required: bool,
    /// The header that names it.
    pub header_name: HeaderName,
    /// The same as upstream requests call it.
    pub outbound_name: hyper::header::HeaderName,
    /// The gateway's own credential at the upstream, where it has one.
    pub upstream_token: Option<UpstreamToken>,
}

/// What the gateway shows the upstream, whatever the client sent under that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamToken {
    /// The header.
    pub header: hyper::header::HeaderName,
    /// Its value, marked sensitive; in `Authorization` it begins with `Bearer `.
    pub value: hyper::header::HeaderValue,
    /// The secret that it was made of.
    pub secret: LoadedSecret,
}

/// What a policy knows of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tool {
    /// The trust that a call needs.
    pub required_trust: Trust,
    /// What a call does; unknown where the document does not say.
    pub side_effect: Option<SideEffect>,
    /// What its document declares of its effect, if anything.
    pub effect: Option<Arc<Effect>>,
}

/// What tells a broker not to retry by itself, on every call (EFFECTS section 5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetriesOff {
    /// It has no retries of its own.
    NoneExist,
    /// A header and its value.
    Header(hyper::header::HeaderName, hyper::header::HeaderValue),
    /// A member of the query and its value, percent-encoded.
    Query(String),
    /// A place in the body and the JSON text that stands there.
    Body(Pointer, String),
}

/// What a server promises to keyed calls (CONTRACT sections 3 and 4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRules {
    /// Whether it takes keys.
    pub keys: Keys,
    /// What makes a slot.
    pub scope: SlotScope,
    /// What a key looks like.
    pub format: KeyFormat,
    /// What makes two requests the same call.
    pub fingerprint: Fingerprint,
    /// What becomes of an event stream.
    pub streams: Streams,
    /// Where in a `tools/call` body a key may stand, beside the header; at most
    /// [`MAX_KEY_POINTERS`].
    pub key_pointers: Vec<Pointer>,
}

/// The most key pointers of one server; each is resolved in every `tools/call`.
pub const MAX_KEY_POINTERS: usize = 16;
