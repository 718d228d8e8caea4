//! How a server's callers are authenticated, as it is used.

use std::fmt;
use std::sync::Arc;

use super::document;
use super::mtls::{self, MtlsRules};
use super::oauth::{self, OAuth};
use super::secret::SecretSources;
use super::set::LoadContext;
use super::words::{AuthMode, SlotScope};
use crate::identity::Principal;

/// The most API keys of one server; every request is compared with each.
pub const MAX_API_KEYS: usize = 1024;

/// The rules of [`crate::identity::authenticate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// A bearer token out of a list.
    ApiKey(ApiKeys),
    /// An access token of an OAuth issuer.
    OAuth(Arc<OAuth>),
    /// A verified client certificate whose SPIFFE id names a session binding.
    Mtls(MtlsRules),
    /// One configured principal, on a loopback listener only.
    Static(Principal),
    /// Unverified governance headers.
    Header,
    /// Nobody is named.
    None,
}

impl Auth {
    /// The name of the mode in a policy document.
    pub const fn mode(&self) -> &'static str {
        match self {
            Self::ApiKey(_) => "api_key",
            Self::OAuth(_) => "oauth",
            Self::Mtls(_) => "mtls",
            Self::Static(_) => "static",
            Self::Header => "header",
            Self::None => "none",
        }
    }

    /// Whether a caller can be verified, which idempotency keys need.
    pub const fn verifies(&self) -> bool {
        matches!(self, Self::ApiKey(_) | Self::OAuth(_) | Self::Mtls(_) | Self::Static(_))
    }
}

/// The keys of one server: at most [`MAX_API_KEYS`], ids and digests unique. At least one, save in
/// scope `workspace`, where the document has none and its workspaces bring theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeys(Vec<ApiKey>);

impl ApiKeys {
    /// Every key, in the order of the document.
    pub fn iter(&self) -> impl Iterator<Item = &ApiKey> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nobody can have one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One key. Its `Debug` leaves the digest out.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The operator's name for it.
    pub id: String,
    /// Whom it stands for.
    pub principal: Principal,
    /// The workspace that it is of, in scope `workspace`.
    pub workspace: Option<Arc<str>>,
    sha256: [u8; 32],
}

impl ApiKey {
    /// The SHA-256 of the secret; to be compared in constant time.
    pub fn sha256(&self) -> &[u8; 32] {
        &self.sha256
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKey")
            .field("id", &self.id)
            .field("principal", &self.principal)
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

/// What is wrong: the field and the problem.
pub(super) type Mistake = (String, String);

/// Reads the `auth` table of a server of this scope, in this namespace.
pub(super) fn build(
    auth: document::Auth,
    scope: SlotScope,
    namespace: &str,
    context: LoadContext,
    sources: &SecretSources<'_>,
    workspaces: impl Iterator<Item = ApiKey>,
) -> Result<Auth, Mistake> {
    let mode = auth.mode.unwrap_or_default();
    refuse_fields_of_other_modes(&auth, mode)?;
    if scope == SlotScope::Workspace {
        return of_workspaces(&auth, mode, workspaces.collect());
    }
    match mode {
        AuthMode::ApiKey => api_keys(auth.api_keys.unwrap_or_default()).map(Auth::ApiKey),
        AuthMode::OAuth => oauth::build(auth, sources).map(|rules| Auth::OAuth(Arc::new(rules))),
        AuthMode::Mtls => mtls::build(&auth, namespace, context).map(Auth::Mtls),
        AuthMode::Static if !context.loopback => Err(mistake(
            "auth.mode",
            "`static` would let every caller of a listener that is not loopback act as this \
             principal: use `api_key`, or let `[listen] mcp` be 127.0.0.1 or [::1]",
        )),
        AuthMode::Static => {
            principal(&auth.human_id, &auth.agent_id, &auth.team_id).map(Auth::Static)
        }
        AuthMode::Header => Ok(Auth::Header),
        AuthMode::None => Ok(Auth::None),
    }
}

/// In scope `workspace` a key says more than who calls: which workspace. So it stands there.
fn of_workspaces(
    auth: &document::Auth,
    mode: AuthMode,
    keys: Vec<ApiKey>,
) -> Result<Auth, Mistake> {
    if mode != AuthMode::ApiKey {
        return Err(mistake(
            "auth.mode",
            "must be `api_key` with `idempotency.scope: workspace`: only a workspace's API keys say \
             which workspace a call belongs to",
        ));
    }
    if auth.api_keys.as_ref().is_some_and(|keys| !keys.is_empty()) {
        return Err(mistake(
            "auth.api_keys",
            "belong into the workspaces' documents with `idempotency.scope: workspace`: a key that \
             stands here would select none",
        ));
    }
    Ok(Auth::ApiKey(ApiKeys(keys)))
}

/// An issuer or an audience means OAuth even where the mode is left out; reading such a document
/// as mode `header` would believe anybody.
fn refuse_oauth(auth: &document::Auth) -> Result<(), Mistake> {
    let set = |text: &document::Text| text.as_ref().is_some_and(|text| !text.is_empty());
    let fields = [
        ("auth.issuer_url", set(&auth.issuer_url)),
        ("auth.audience", set(&auth.audience)),
        ("auth.resource", set(&auth.resource)),
        ("auth.scopes", auth.scopes.as_ref().is_some_and(|scopes| !scopes.is_empty())),
        ("auth.algorithms", !auth.algorithms.0.is_empty()),
        ("auth.leeway", auth.leeway.is_some()),
        ("auth.claims", auth.claims.is_some()),
        ("auth.introspection", auth.introspection.is_some()),
    ];
    match fields.iter().find(|(_, set)| *set) {
        Some((field, _)) => Err(mistake(field, "needs `mode: oauth`")),
        None => Ok(()),
    }
}

fn refuse_fields_of_other_modes(auth: &document::Auth, mode: AuthMode) -> Result<(), Mistake> {
    let set = |text: &document::Text| text.as_ref().is_some_and(|text| !text.is_empty());
    if mode != AuthMode::OAuth {
        refuse_oauth(auth)?;
    }
    if mode != AuthMode::ApiKey && auth.api_keys.as_ref().is_some_and(|keys| !keys.is_empty()) {
        return Err(mistake("auth.api_keys", "needs `mode: api_key`"));
    }
    let of_mtls = [
        ("auth.trust_domain", &auth.trust_domain),
        ("auth.ingress_spiffe_id", &auth.ingress_spiffe_id),
        ("auth.spiffe_header", &auth.spiffe_header),
    ];
    if let Some((field, _)) = of_mtls.iter().find(|(_, text)| mode != AuthMode::Mtls && set(text)) {
        return Err(mistake(field, "needs `mode: mtls`"));
    }
    let subjects = [
        ("auth.human_id", &auth.human_id),
        ("auth.agent_id", &auth.agent_id),
        ("auth.team_id", &auth.team_id),
    ];
    match subjects.iter().find(|(_, value)| mode != AuthMode::Static && set(value)) {
        Some((field, _)) => Err(mistake(field, "needs `mode: static`")),
        None => Ok(()),
    }
}

fn api_keys(listed: Vec<document::ApiKey>) -> Result<ApiKeys, Mistake> {
    const FIELD: &str = "auth.api_keys";
    if listed.is_empty() {
        return Err(mistake(FIELD, "must list at least one key"));
    }
    keys(listed, FIELD, None).map(ApiKeys)
}

/// The keys of a workspace, which may have none.
pub(super) fn workspace_keys(
    listed: Vec<document::ApiKey>,
    workspace: &Arc<str>,
) -> Result<Vec<ApiKey>, Mistake> {
    keys(listed, "api_keys", Some(workspace))
}

fn keys(
    listed: Vec<document::ApiKey>,
    field: &str,
    workspace: Option<&Arc<str>>,
) -> Result<Vec<ApiKey>, Mistake> {
    if listed.len() > MAX_API_KEYS {
        return Err(mistake(field, &format!("must list at most {MAX_API_KEYS} keys")));
    }
    let mut keys: Vec<ApiKey> = Vec::with_capacity(listed.len());
    let (mut ids, mut digests) =
        (std::collections::HashSet::new(), std::collections::HashSet::new());
    for (index, key) in listed.into_iter().enumerate() {
        let at =
            |member: &str, problem: &str| (format!("{field}[{index}]{member}"), problem.into());
        if key.id.is_empty() {
            return Err(at(".id", "must not be empty"));
        }
        if !ids.insert(key.id.clone()) {
            return Err(at(".id", "is already used by an earlier key"));
        }
        if !digests.insert(key.sha256) {
            return Err(at(".sha256", "is already used by an earlier key"));
        }
        let principal = Principal::new(
            key.human_id.as_deref(),
            key.agent_id.as_deref(),
            key.team_id.as_deref(),
        )
        .map_err(|problem| at("", &problem.to_string()))?;
        let workspace = workspace.cloned();
        keys.push(ApiKey { id: key.id, principal, workspace, sha256: key.sha256.0 });
    }
    Ok(keys)
}

fn principal(
    human: &document::Text,
    agent: &document::Text,
    team: &document::Text,
) -> Result<Principal, Mistake> {
    Principal::new(human.as_deref(), agent.as_deref(), team.as_deref())
        .map_err(|problem| mistake("auth", &problem.to_string()))
}

pub(super) fn mistake(field: &str, problem: &str) -> Mistake {
    (field.to_owned(), problem.to_owned())
}
