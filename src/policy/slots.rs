//! What gives a call its slot, and so must not change while records may stand (CONTRACT section 9,
//! "a reload that would move slots").

use std::collections::HashMap;
use std::sync::Arc;

use super::auth::{ApiKey, Auth};
use super::error::{PolicyError, PolicyErrors};
use super::native::Native;
use super::oauth::{OAuth, PrincipalClaims};
use super::server::ServerPolicy;
use super::set::PolicySet;
use super::words::SlotScope;
use crate::claim::{Fingerprint, KeyFormat, Pointer};
use crate::identity::Principal;

/// The most servers, credentials and tools of workspaces that one process remembers; past it, a reload that brings new
/// ones is refused until a restart.
pub const MAX_REMEMBERED: usize = 65_536;

/// What every server that this process ever served made slots of, by uid. A server that left is
/// remembered too: its records stand, and it may come back.
#[derive(Debug, Clone, Default)]
pub(super) struct SlotMemory(HashMap<String, SlotRules>);

#[derive(Debug, Clone)]
struct SlotRules {
    auth_mode: &'static str,
    static_principal: Option<Principal>,
    /// The issuer whose subjects are meant, and the claims that name them.
    token_principal: Option<(String, PrincipalClaims)>,
    /// Whom each API key ever listed stood for, and in which workspace, by digest.
    credentials: HashMap<[u8; 32], (Principal, Option<Arc<str>>)>,
    session_header: String,
    format: KeyFormat,
    fingerprint: Fingerprint,
    scope: SlotScope,
    key_pointers: Vec<Pointer>,
    accounts: Accounts,
}

/// The connection, and the tool there, that each name has ever meant in each workspace. A capability's
/// slot names neither.
type Accounts = HashMap<(Arc<str>, String), (Option<String>, String)>;

impl SlotMemory {
    /// Takes over a set, or refuses it as a whole and stays as it was.
    ///
    /// # Errors
    ///
    /// For each server the first change that would move its slots; [`MAX_REMEMBERED`].
    pub(super) fn admit(&mut self, set: &PolicySet) -> Result<(), PolicyErrors> {
        let servers = || set.servers().filter_map(|server| Some((remembered_as(server)?, server)));
        let refuse = |server: &ServerPolicy, what| PolicyError::MovesSlots {
            server: server.name.clone(),
            what,
        };
        let moved: Vec<_> = servers()
            .filter_map(|(uid, server)| {
                self.0.get(&uid)?.moved_by(server).map(|what| refuse(server, what))
            })
            .collect();
        PolicyErrors::unless(moved, ())?;
        let mut next = self.clone();
        for (uid, server) in servers() {
            next.remember(&uid, server);
            if next.size() > MAX_REMEMBERED {
                return Err(refuse(server, "so many servers or keys").into());
            }
        }
        *self = next;
        Ok(())
    }

    fn remember(&mut self, uid: &str, server: &ServerPolicy) {
        let mut rules = SlotRules::of(server);
        if let Some(known) = self.0.remove(uid) {
            rules.credentials.extend(known.credentials);
            rules.accounts.extend(known.accounts);
        }
        self.0.insert(uid.to_owned(), rules);
    }

    fn size(&self) -> usize {
        self.0.values().map(|rules| 1 + rules.credentials.len() + rules.accounts.len()).sum()
    }
}

impl SlotRules {
    fn of(server: &ServerPolicy) -> Self {
        Self {
            auth_mode: server.auth.mode(),
            static_principal: static_principal(server).cloned(),
            token_principal: oauth(server)
                .map(|rules| (rules.issuer.clone(), rules.claims.clone())),
            credentials: api_keys(server)
                .map(|key| (*key.sha256(), (key.principal.clone(), key.workspace.clone())))
                .collect(),
            session_header: server.session.header_name.as_str().to_owned(),
            format: server.idempotency.format,
            fingerprint: server.idempotency.fingerprint,
            scope: server.idempotency.scope,
            key_pointers: server.idempotency.key_pointers.clone(),
            accounts: accounts(server),
        }
    }

    /// The first field whose change would move slots.
    fn moved_by(&self, server: &ServerPolicy) -> Option<&'static str> {
        let rules = &server.idempotency;
        let other_caller = |key: &ApiKey| {
            let known = self.credentials.get(key.sha256());
            known.is_some_and(|(principal, workspace)| {
                *principal != key.principal || *workspace != key.workspace
            })
        };
        // A key in the body that is no longer looked for would make its retry an unkeyed call.
        let unread = |pointer: &Pointer| !rules.key_pointers.contains(pointer);
        let tokens = self.token_principal.as_ref().zip(oauth(server));
        let other_issuer = tokens.is_some_and(|((issuer, _), rules)| *issuer != rules.issuer);
        let other_claims = tokens.is_some_and(|((_, claims), rules)| *claims != rules.claims);
        let other_account =
            |(name, account)| self.accounts.get(name).is_some_and(|known| known != account);
        // `keys` moves nothing: without `always` a key that was given is taken all the same, and with
        // `off` it is refused. Neither does a tool's binding: the record pins it, and a retry with
        // another one meets its record and conflicts.
        let moves = [
            (self.scope != rules.scope, "`idempotency.scope`"),
            (self.fingerprint != rules.fingerprint, "`idempotency.fingerprint`"),
            (self.format != rules.format, "`idempotency.format`"),
            (self.auth_mode != server.auth.mode(), "`auth.mode`"),
            (self.static_principal.as_ref() != static_principal(server), "the static principal"),
            (other_issuer, "`auth.issuer_url`"),
            (other_claims, "`auth.claims`"),
            (api_keys(server).any(other_caller), "the principal or workspace of a listed API key"),
            (self.session_header != server.session.header_name.as_str(), "`session.header_name`"),
            (self.key_pointers.iter().any(unread), "`idempotency.key_pointers` that drops one"),
            (accounts(server).iter().any(other_account), "the connection that a tool's name means"),
        ];
        moves.iter().find(|(moves, _)| *moves).map(|(_, what)| *what)
    }
}

/// By its uid; where slots belong to workspaces it needs none, and no uid has a slash.
fn remembered_as(server: &ServerPolicy) -> Option<String> {
    let by_name = || format!("{}/{}", server.namespace, server.name);
    let of_workspaces = server.idempotency.scope == SlotScope::Workspace;
    server.uid.clone().or_else(|| of_workspaces.then(by_name))
}

fn accounts(server: &ServerPolicy) -> Accounts {
    let Some(Native::ByWorkspace(catalogs)) = server.target.native().map(|native| &**native) else {
        return Accounts::new();
    };
    let mut accounts = Accounts::new();
    for (workspace, catalog) in catalogs {
        let tools = catalog.0.iter().filter(|(_, callable)| !callable.capability);
        accounts.extend(tools.map(|(name, callable)| {
            let account = (callable.connection.clone(), callable.vendor_tool.clone());
            ((Arc::clone(workspace), name.clone()), account)
        }));
    }
    accounts
}

fn static_principal(server: &ServerPolicy) -> Option<&Principal> {
    match &server.auth {
        Auth::Static(principal) => Some(principal),
        Auth::ApiKey(_) | Auth::OAuth(_) | Auth::Mtls(_) | Auth::Header | Auth::None => None,
    }
}

fn oauth(server: &ServerPolicy) -> Option<&OAuth> {
    match &server.auth {
        Auth::OAuth(rules) => Some(rules),
        Auth::ApiKey(_) | Auth::Mtls(_) | Auth::Static(_) | Auth::Header | Auth::None => None,
    }
}

fn api_keys(server: &ServerPolicy) -> impl Iterator<Item = &ApiKey> {
    match &server.auth {
        Auth::ApiKey(keys) => Some(keys.iter()),
        Auth::OAuth(_) | Auth::Mtls(_) | Auth::Static(_) | Auth::Header | Auth::None => None,
    }
    .into_iter()
    .flatten()
}
