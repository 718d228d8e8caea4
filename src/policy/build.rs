//! From what a document says to what is used.

use std::sync::Arc;

use actix_web::http::header::HeaderName as ListenerHeader;
use hashbrown::{HashMap, HashSet};
use hyper::Uri;
use hyper::header::HeaderName;

use super::auth::{self, Auth};
use super::document::{self, Document, SCHEMA_VERSION, Text};
use super::effect::{self, Carrier, MAX_ENVIRONMENT};
use super::goes::{Goes, NativeServer};
use super::grant::Grants;
use super::native::Target;
use super::secret::{LoadedSecret, SecretSources};
use super::server::{
    IdempotencyRules, RetriesOff, ServerPolicy, SessionRules, Tool, UpstreamToken,
};
use super::session::Bindings;
use super::set::LoadContext;
use super::words::{DefaultDecision, Mode, SlotScope};
use super::world::World;
use super::{broker, headers, idempotency};

/// The most characters of a server's name, namespace, uid and path.
pub const MAX_NAME: usize = 255;

const DEFAULT_PATH: &str = "/mcp";
const DEFAULT_SESSION_HEADER: &str = "x-mcp-agent-session";

/// A field and what is wrong with it.
pub(super) type Mistake = (String, String);

/// Every mistake of one document, gathered while what is right is taken over.
#[derive(Default)]
pub(super) struct Mistakes(pub Vec<Mistake>);

impl Mistakes {
    pub fn keep<T>(&mut self, outcome: Result<T, Mistake>) -> Option<T> {
        outcome.map_err(|mistake| self.0.push(mistake)).ok()
    }
}

/// Builds a server for a listener of this kind.
pub(super) fn server(
    mut document: Document,
    context: LoadContext,
    sources: &SecretSources<'_>,
    world: Option<&World>,
) -> Result<ServerPolicy, Vec<Mistake>> {
    let mut mistakes = Mistakes::default();
    mistakes.keep(schema_version(&document.schema_version));
    let namespace = document.server.namespace.clone().unwrap_or_default();
    let broker = document.server.broker.unwrap_or_default();
    let switch = document.server.retries_off.take();
    let goes = mistakes
        .keep(Goes::read(document.server.upstream.take(), document.server.connectors.take()));
    let identity = mistakes.keep(identity(document.server));
    let rules = document.idempotency.unwrap_or_default();
    let auth = document.auth.unwrap_or_default();
    let auth = mistakes.keep(auth::build(
        auth,
        rules.scope.unwrap_or_default(),
        &namespace,
        context,
        sources,
        world.into_iter().flat_map(World::api_keys).cloned(),
    ));
    let idempotency = mistakes.keep(idempotency::build(rules, auth.as_ref()));
    let session = mistakes.keep(session(document.session.unwrap_or_default(), sources));
    let taken = own_headers(session.as_ref(), auth.as_ref());
    let upstream = goes.as_ref().and_then(Goes::upstream);
    let retries_off = mistakes.keep(broker::build(broker, switch, upstream, &taken));
    let listed = document.tools.unwrap_or_default();
    let (target, tools) = match goes {
        Some(Goes::Connectors(names)) => {
            let own =
                NativeServer { broker, session: session.as_ref(), rules: idempotency.as_ref() };
            (own.target(&names, listed, world, &mut mistakes), HashMap::new())
        }
        goes => {
            let scope = idempotency.as_ref().map(|rules| rules.scope);
            if scope == Some(SlotScope::Workspace) && goes.is_some() {
                mistakes.0.push(at(
                    "idempotency.scope",
                    "`workspace` needs `server.connectors`: on an MCP server a call has no \
                     connection that is a workspace's",
                ));
            }
            let carrier = Carrier::Mcp { taken: &taken, broker };
            let tools = tools(listed, carrier, &mut mistakes);
            (goes.and_then(Goes::into_upstream).map(Target::Mcp), tools)
        }
    };
    let policy = mistakes.keep(policy(document.policy.unwrap_or_default()));
    let grants = mistakes.keep(Grants::build(document.grants.unwrap_or_default()));
    let sessions = mistakes.keep(
        Bindings::build(document.sessions.unwrap_or_default(), &namespace)
            .map_err(|(index, problem)| at(&format!("sessions[{index}].name"), problem)),
    );
    let parts = (|| {
        Some(Parts {
            identity: identity?,
            target: target?,
            auth: auth?,
            retries_off: retries_off?,
            policy: policy?,
            session: session?,
            tools,
            grants: grants?,
            sessions: sessions?,
            idempotency: idempotency?,
        })
    })();
    match parts {
        Some(parts) if mistakes.0.is_empty() => Ok(assemble(parts)),
        _ => Err(mistakes.0),
    }
}

struct Parts {
    identity: Identity,
    target: Target,
    auth: Auth,
    retries_off: Option<RetriesOff>,
    policy: Rules,
    session: SessionRules,
    tools: HashMap<String, Tool>,
    grants: Grants,
    sessions: Bindings,
    idempotency: IdempotencyRules,
}

fn assemble(parts: Parts) -> ServerPolicy {
    let Parts { identity, policy, .. } = parts;
    ServerPolicy {
        name: identity.name,
        namespace: identity.namespace,
        uid: identity.uid,
        team_id: identity.team_id,
        cluster: identity.cluster,
        path: identity.path,
        target: parts.target,
        retries_off: parts.retries_off,
        auth: parts.auth,
        mode: policy.mode,
        default_decision: policy.default_decision,
        policy_version: policy.version,
        deny_unsupported_writes: policy.deny_unsupported_writes,
        session: parts.session,
        grants: parts.grants,
        idempotency: parts.idempotency,
        tools: parts.tools,
        sessions: parts.sessions,
    }
}

pub(super) fn schema_version(version: &str) -> Result<(), Mistake> {
    if version == SCHEMA_VERSION {
        return Ok(());
    }
    Err(at("schema_version", &format!("must be `{SCHEMA_VERSION}`")))
}

/// The `server` table.
struct Identity {
    name: String,
    namespace: String,
    uid: Option<String>,
    team_id: Option<String>,
    cluster: Option<String>,
    path: String,
}

fn identity(server: document::Server) -> Result<Identity, Mistake> {
    let namespace = server.namespace.unwrap_or_default();
    let uid = set(server.uid);
    if !is_name(&server.name) {
        return Err(at(
            "server.name",
            &format!("must be 1 to {MAX_NAME} visible ASCII characters"),
        ));
    }
    if !namespace.is_empty() && !is_name(&namespace) {
        return Err(at(
            "server.namespace",
            &format!("must be at most {MAX_NAME} visible ASCII characters"),
        ));
    }
    if uid.as_deref().is_some_and(|uid| !is_uid(uid)) {
        return Err(at(
            "server.uid",
            &format!("must be 1 to {MAX_NAME} letters, digits, `_`, `.`, `:` or `-`"),
        ));
    }
    Ok(Identity {
        name: server.name,
        namespace,
        uid,
        team_id: set(server.team_id),
        cluster: set(server.cluster),
        path: path(set(server.path))?,
    })
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_uid(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(allowed)
}

/// A path that reads the same before and after percent decoding.
fn path(path: Option<String>) -> Result<String, Mistake> {
    let path = path.unwrap_or_else(|| DEFAULT_PATH.to_owned());
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    if path.starts_with('/') && path.len() <= MAX_NAME && path.bytes().all(allowed) {
        return Ok(path);
    }
    Err(at(
        "server.path",
        &format!(
            "must start with `/` and have at most {MAX_NAME} letters, digits, `-`, `.`, `_`, `~` \
             or `/`"
        ),
    ))
}

/// Reads an upstream's address; the error says what is wrong with it.
pub(super) fn upstream(text: &str) -> Result<Uri, &'static str> {
    const FORM: &str = "must be an absolute URL such as `http://127.0.0.1:9000/mcp`";
    let uri: Uri = text.parse().map_err(|_| FORM)?;
    let authority = uri.authority().ok_or(FORM)?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || authority.host().is_empty() {
        return Err(FORM);
    }
    if authority.as_str().contains('@') {
        return Err("must not hold a user name or password, which would reach logs");
    }
    if text.contains('#') {
        return Err("must not have a fragment, which is never sent");
    }
    Ok(uri)
}

fn session(
    session: document::Session,
    sources: &SecretSources<'_>,
) -> Result<SessionRules, Mistake> {
    let wrong = |problem: &str| at("session.header_name", problem);
    let name = set(session.header_name).unwrap_or_else(|| DEFAULT_SESSION_HEADER.to_owned());
    let header_name: ListenerHeader =
        name.parse().map_err(|_| wrong("is not a valid HTTP header name"))?;
    if headers::is_taken(header_name.as_str()) {
        return Err(wrong("is taken: choose a header that has no other meaning"));
    }
    let upstream_token =
        upstream_token(&session.upstream_token_header, session.upstream_token, sources)?;
    if upstream_token.as_ref().is_some_and(|token| token.header.as_str() == header_name.as_str()) {
        return Err(wrong("is the header of the upstream's credential too: give each its own"));
    }
    let outbound_name = name.parse().map_err(|_| wrong("is not a valid HTTP header name"))?;
    let required = session.required.unwrap_or_default();
    Ok(SessionRules { required, header_name, outbound_name, upstream_token })
}

/// The gateway's own credential at the upstream: in `Authorization` as a bearer token, in any other
/// header as it is.
fn upstream_token(
    header: &Text,
    token: Text,
    sources: &SecretSources<'_>,
) -> Result<Option<UpstreamToken>, Mistake> {
    const FIELD: &str = "session.upstream_token_header";
    let name = header.as_deref().filter(|name| !name.is_empty());
    let token = match (name, token) {
        (None, None) => return Ok(None),
        (Some(_), None) => {
            return Err(at(
                FIELD,
                "needs `session.upstream_token`, which says where the secret is",
            ));
        }
        (_, Some(token)) => token,
    };
    let header: HeaderName = name
        .unwrap_or("authorization")
        .parse()
        .map_err(|_| at(FIELD, "is not a valid HTTP header name"))?;
    if headers::is_taken_from_credentials(header.as_str()) {
        return Err(at(FIELD, "is taken: choose a header that has no other meaning"));
    }
    let secret = LoadedSecret::load(&token, "session.upstream_token", sources)?;
    let text = match header == hyper::header::AUTHORIZATION {
        true => format!("Bearer {}", secret.expose()),
        false => secret.expose().to_owned(),
    };
    let mut value = hyper::header::HeaderValue::try_from(text)
        .map_err(|_| at("session.upstream_token", "cannot be the value of a header"))?;
    value.set_sensitive(true);
    Ok(Some(UpstreamToken { header, value, secret }))
}

/// Every tool that is right; the others leave a mistake each.
fn tools(
    listed: Vec<document::Tool>,
    carrier: Carrier<'_>,
    mistakes: &mut Mistakes,
) -> HashMap<String, Tool> {
    let mut tools = HashMap::with_capacity(listed.len());
    for (index, tool) in listed.into_iter().enumerate() {
        let place = format!("tools[{index}]");
        let wrong = |problem| at(&format!("{place}.name"), problem);
        if tool.name.is_empty() {
            mistakes.0.push(wrong("must not be empty"));
            continue;
        }
        let declared = effect::build(&place, tool.side_effect, tool.effect, carrier);
        let Some(declared) = mistakes.keep(declared) else { continue };
        let meaning = Tool {
            required_trust: tool.required_trust.unwrap_or_default(),
            side_effect: declared.side_effect,
            effect: declared.effect.map(Arc::new),
        };
        if tools.insert(tool.name, meaning).is_some() {
            mistakes.0.push(wrong("is already used by an earlier tool"));
        }
    }
    tools
}

/// The `policy` table.
struct Rules {
    mode: Mode,
    default_decision: DefaultDecision,
    version: String,
    deny_unsupported_writes: HashSet<String>,
}

fn policy(policy: document::Policy) -> Result<Rules, Mistake> {
    Ok(Rules {
        mode: policy.mode.unwrap_or_default(),
        default_decision: policy.default_decision.unwrap_or_default(),
        version: policy.policy_version.unwrap_or_default(),
        deny_unsupported_writes: environments(policy.deny_unsupported_writes.unwrap_or_default())?,
    })
}

/// Environments by name, each once.
fn environments(listed: Vec<String>) -> Result<HashSet<String>, Mistake> {
    const FIELD: &str = "policy.deny_unsupported_writes";
    let mut environments = HashSet::with_capacity(listed.len());
    for (index, name) in listed.into_iter().enumerate() {
        let wrong = |problem: &str| at(&format!("{FIELD}[{index}]"), problem);
        if !effect::is_environment(&name) {
            let problem = format!("must have 1 to {MAX_ENVIRONMENT} characters, no control ones");
            return Err(wrong(&problem));
        }
        if !environments.insert(name) {
            return Err(wrong("is listed twice"));
        }
    }
    Ok(environments)
}

/// Headers that this server gives a meaning to, which no other value may stand in.
fn own_headers(session: Option<&SessionRules>, auth: Option<&Auth>) -> Vec<HeaderName> {
    let session = session.into_iter().flat_map(|rules| {
        let token = rules.upstream_token.as_ref().map(|token| token.header.clone());
        std::iter::once(rules.outbound_name.clone()).chain(token)
    });
    let ingress = auth.and_then(|auth| match auth {
        Auth::Mtls(rules) => Some(rules.header.clone()),
        Auth::ApiKey(_) | Auth::OAuth(_) | Auth::Static(_) | Auth::Header | Auth::None => None,
    });
    session.chain(ingress).collect()
}

/// A text that says something.
pub(super) fn set(text: Text) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

pub(super) fn at(field: &str, problem: &str) -> Mistake {
    (field.to_owned(), problem.to_owned())
}
