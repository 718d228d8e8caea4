//! From what a document says to what is used.

use actix_web::http::header::HeaderName;
use hashbrown::{HashMap, HashSet};
use hyper::Uri;

use super::auth::{self, Auth};
use super::document::{self, Document, SCHEMA_VERSION, Text};
use super::grant::Grants;
use super::native::Target;
use super::secret::{LoadedSecret, SecretSources};
use super::server::{
    IdempotencyRules, MAX_KEY_POINTERS, ServerPolicy, SessionRules, Tool, UpstreamToken,
};
use super::session::Bindings;
use super::set::LoadContext;
use super::words::{Keys, SlotScope};
use crate::claim::Pointer;

/// The most characters of a server's name, namespace, uid and path.
pub const MAX_NAME: usize = 255;

const DEFAULT_PATH: &str = "/mcp";
const DEFAULT_SESSION_HEADER: &str = "x-mcp-agent-session";

/// Headers that mean something else already.
const TAKEN_HEADERS: [&str; 9] = [
    "authorization",
    "content-length",
    "content-type",
    "host",
    "idempotency-key",
    "mcp-session-id",
    "x-mcp-agent-id",
    "x-mcp-human-id",
    "x-mcp-team-id",
];

/// Headers of one connection or message, which the gateway sets itself.
const CONNECTION_HEADERS: [&str; 10] = [
    "accept-encoding",
    "connection",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A field and what is wrong with it.
pub(super) type Mistake = (String, String);

/// Every mistake of one document, gathered while what is right is taken over.
#[derive(Default)]
struct Mistakes(Vec<Mistake>);

impl Mistakes {
    fn keep<T>(&mut self, outcome: Result<T, Mistake>) -> Option<T> {
        outcome.map_err(|mistake| self.0.push(mistake)).ok()
    }
}

/// Builds a server for a listener of this kind.
pub(super) fn server(
    document: Document,
    context: LoadContext,
    sources: &SecretSources<'_>,
) -> Result<ServerPolicy, Vec<Mistake>> {
    let mut mistakes = Mistakes::default();
    mistakes.keep(schema_version(&document.schema_version));
    let namespace = document.server.namespace.clone().unwrap_or_default();
    let identity = mistakes.keep(identity(document.server));
    let auth = document.auth.unwrap_or_default();
    let auth = mistakes.keep(auth::build(auth, &namespace, context, sources));
    let session = mistakes.keep(session(document.session.unwrap_or_default(), sources));
    let tools = mistakes.keep(tools(document.tools.unwrap_or_default()));
    let grants = mistakes.keep(Grants::build(document.grants.unwrap_or_default()));
    let sessions = mistakes.keep(
        Bindings::build(document.sessions.unwrap_or_default(), &namespace)
            .map_err(|(index, problem)| at(&format!("sessions[{index}].name"), problem)),
    );
    let idempotency = mistakes.keep(idempotency(document.idempotency.unwrap_or_default()));
    let policy = document.policy.unwrap_or_default();
    match (identity, auth, session, tools, grants, sessions, idempotency) {
        (
            Some(identity),
            Some(auth),
            Some(session),
            Some(tools),
            Some(grants),
            Some(sessions),
            Some(idempotency),
        ) if mistakes.0.is_empty() => Ok(assemble(
            identity,
            policy,
            Parts { auth, session, tools, grants, sessions, idempotency },
        )),
        _ => Err(mistakes.0),
    }
}

struct Parts {
    auth: Auth,
    session: SessionRules,
    tools: HashMap<String, Tool>,
    grants: Grants,
    sessions: Bindings,
    idempotency: IdempotencyRules,
}

fn assemble(identity: Identity, policy: document::Policy, parts: Parts) -> ServerPolicy {
    ServerPolicy {
        name: identity.name,
        namespace: identity.namespace,
        uid: identity.uid,
        team_id: identity.team_id,
        cluster: identity.cluster,
        path: identity.path,
        target: Target::Mcp(identity.upstream),
        retries_off: None,
        deny_unsupported_writes: HashSet::default(),
        auth: parts.auth,
        mode: policy.mode.unwrap_or_default(),
        default_decision: policy.default_decision.unwrap_or_default(),
        policy_version: policy.policy_version.unwrap_or_default(),
        session: parts.session,
        grants: parts.grants,
        idempotency: parts.idempotency,
        tools: parts.tools,
        sessions: parts.sessions,
    }
}

fn schema_version(version: &str) -> Result<(), Mistake> {
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
    upstream: Uri,
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
        upstream: upstream(&server.upstream).map_err(|problem| at("server.upstream", problem))?,
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

/// Whether a header, its name in lower case, means something else already.
pub(super) fn is_taken(header: &str) -> bool {
    TAKEN_HEADERS.contains(&header)
}

fn session(
    session: document::Session,
    sources: &SecretSources<'_>,
) -> Result<SessionRules, Mistake> {
    let wrong = |problem: &str| at("session.header_name", problem);
    let name = set(session.header_name).unwrap_or_else(|| DEFAULT_SESSION_HEADER.to_owned());
    let header_name: HeaderName =
        name.parse().map_err(|_| wrong("is not a valid HTTP header name"))?;
    if is_taken(header_name.as_str()) {
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
    let header: hyper::header::HeaderName = name
        .unwrap_or("authorization")
        .parse()
        .map_err(|_| at(FIELD, "is not a valid HTTP header name"))?;
    let taken = TAKEN_HEADERS.iter().chain(&CONNECTION_HEADERS).any(|name| *name == header);
    if taken && header != hyper::header::AUTHORIZATION {
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

fn tools(listed: Vec<document::Tool>) -> Result<HashMap<String, Tool>, Mistake> {
    let mut tools = HashMap::with_capacity(listed.len());
    for (index, tool) in listed.into_iter().enumerate() {
        let wrong = |problem| at(&format!("tools[{index}].name"), problem);
        if tool.name.is_empty() {
            return Err(wrong("must not be empty"));
        }
        let meaning = Tool {
            required_trust: tool.required_trust.unwrap_or_default(),
            side_effect: tool.side_effect,
            effect: None,
        };
        if tools.insert(tool.name, meaning).is_some() {
            return Err(wrong("is already used by an earlier tool"));
        }
    }
    Ok(tools)
}

fn idempotency(rules: document::Idempotency) -> Result<IdempotencyRules, Mistake> {
    let keys = rules.keys.unwrap_or_default();
    Ok(IdempotencyRules {
        keys,
        scope: SlotScope::Session,
        format: rules.format.unwrap_or_default(),
        fingerprint: rules.fingerprint.unwrap_or_default(),
        streams: rules.streams.unwrap_or_default(),
        key_pointers: key_pointers(rules.key_pointers.unwrap_or_default(), keys)?,
    })
}

fn key_pointers(listed: Vec<String>, keys: Keys) -> Result<Vec<Pointer>, Mistake> {
    const FIELD: &str = "idempotency.key_pointers";
    if listed.len() > MAX_KEY_POINTERS {
        return Err(at(FIELD, &format!("must list at most {MAX_KEY_POINTERS} pointers")));
    }
    if keys == Keys::Off && !listed.is_empty() {
        return Err(at(FIELD, "has no effect with `keys: off`: leave one of the two out"));
    }
    let mut pointers = Vec::with_capacity(listed.len());
    for (index, text) in listed.iter().enumerate() {
        let wrong = |problem: &str| at(&format!("{FIELD}[{index}]"), problem);
        let pointer = Pointer::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if text.is_empty() {
            return Err(wrong("must point into the body, which is never a key as a whole"));
        }
        if pointers.contains(&pointer) {
            return Err(wrong("is listed twice"));
        }
        pointers.push(pointer);
    }
    Ok(pointers)
}

fn set(text: Text) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn at(field: &str, problem: &str) -> Mistake {
    (field.to_owned(), problem.to_owned())
}
