//! Workspaces: who shares vendor accounts, which accounts these are, and where their capabilities
//! lead (EFFECTS section 4).

pub(super) mod fields;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::auth::{self, ApiKey};
use super::build::{Mistake, at, schema_version, set};
use super::choice::Choice;
use super::connector::{CAPABILITY_PREFIX, Connector, id_form, is_id};
use super::native::Credential;
use super::secret::{LoadedSecret, SecretSources};

/// The most connections of one workspace.
pub const MAX_CONNECTIONS: usize = 64;
/// The most pins of one workspace.
pub const MAX_PINS: usize = 256;
/// The most facts of one connection, and the most characters of each name and value.
pub const MAX_FACTS: (usize, usize) = (16, 255);

/// Stands for a connection in the slots of capabilities.
const UNRESOLVED: &str = "unresolved";

/// A workspace.
#[derive(Debug)]
pub(super) struct Workspace {
    pub id: Arc<str>,
    pub api_keys: Vec<ApiKey>,
    /// By id.
    pub connections: BTreeMap<String, Connection>,
    /// By the capability's name.
    pub pins: BTreeMap<String, Pin>,
}

/// An account of a workspace's at a vendor.
#[derive(Debug)]
pub(super) struct Connection {
    pub id: String,
    pub connector: Arc<Connector>,
    pub credential: Option<Credential>,
    /// What a route record tells of the account, and no secret.
    pub facts: BTreeMap<String, String>,
}

/// Where a capability leads.
#[derive(Debug)]
pub(super) struct Pin {
    pub connector: String,
    pub connection: Option<String>,
}

impl Workspace {
    /// Its connections at a connector.
    pub fn connections_of(&self, connector: &str) -> impl Iterator<Item = &Connection> {
        self.connections.values().filter(move |one| one.connector.name == connector)
    }
}

/// Reads a workspace.
///
/// # Errors
///
/// Everything that is wrong, each with its place.
pub(super) fn build(
    document: fields::Workspace,
    connectors: &HashMap<String, Arc<Connector>>,
    sources: &SecretSources<'_>,
) -> Result<Workspace, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    if let Err(mistake) = schema_version(&document.schema_version) {
        mistakes.push(mistake);
    }
    if !is_id(&document.id) {
        mistakes.push(at("id", &id_form()));
    }
    let id: Arc<str> = document.id.into();
    let api_keys = auth::workspace_keys(document.api_keys.unwrap_or_default(), &id).unwrap_or_else(
        |mistake| {
            mistakes.push(mistake);
            Vec::new()
        },
    );
    let listed = document.connections.unwrap_or_default();
    let connections = connections(listed, connectors, sources, &mut mistakes);
    let pins = pins(document.pins.unwrap_or_default(), &mut mistakes);
    if mistakes.is_empty() {
        Ok(Workspace { id, api_keys, connections, pins })
    } else {
        Err(mistakes)
    }
}

fn connections(
    listed: Vec<fields::Connection>,
    connectors: &HashMap<String, Arc<Connector>>,
    sources: &SecretSources<'_>,
    mistakes: &mut Vec<Mistake>,
) -> BTreeMap<String, Connection> {
    let mut connections = BTreeMap::new();
    if listed.len() > MAX_CONNECTIONS {
        mistakes.push(at("connections", &format!("must list at most {MAX_CONNECTIONS}")));
        return connections;
    }
    for (index, connection) in listed.into_iter().enumerate() {
        let place = format!("connections[{index}]");
        match self::connection(connection, &place, connectors, sources) {
            Err(mistake) => mistakes.push(mistake),
            Ok(connection) => {
                if connections.insert(connection.id.clone(), connection).is_some() {
                    let field = format!("{place}.id");
                    mistakes.push(at(&field, "is already used by an earlier connection"));
                }
            }
        }
    }
    connections
}

fn connection(
    connection: fields::Connection,
    place: &str,
    connectors: &HashMap<String, Arc<Connector>>,
    sources: &SecretSources<'_>,
) -> Result<Connection, Mistake> {
    let field = |name: &str| format!("{place}.{name}");
    if !is_id(&connection.id) {
        return Err((field("id"), id_form()));
    }
    // The first is a capability's place in a slot, the second would give tools their names.
    if [UNRESOLVED, CAPABILITY_PREFIX.trim_end_matches('.')].contains(&&*connection.id) {
        return Err(at(&field("id"), "has a meaning of its own: choose another id"));
    }
    let connector = connectors.get(&connection.connector).ok_or_else(|| {
        at(&field("connector"), "names no connector: add a document of `kind: connector`")
    })?;
    let reference = set(connection.secret);
    let secret = field("secret");
    let credential = match (&connector.auth, reference) {
        (None, None) => None,
        (None, Some(_)) => {
            return Err(at(&secret, "has no place: the connector has no `auth` to send it in"));
        }
        (Some(_), None) => {
            return Err(at(&secret, "is required, as the connector's `auth` sends one"));
        }
        (Some(auth), Some(reference)) => {
            let loaded = LoadedSecret::load(&reference, &secret, sources)?;
            Some(auth.credential(&loaded).map_err(|problem| at(&secret, problem))?)
        }
    };
    let facts = connection.facts.unwrap_or_default();
    let fits = |text: &String| text.chars().count() <= MAX_FACTS.1;
    if facts.len() > MAX_FACTS.0 || !facts.iter().all(|(name, value)| fits(name) && fits(value)) {
        let problem = format!(
            "must hold at most {} facts, each with at most {} characters",
            MAX_FACTS.0, MAX_FACTS.1
        );
        return Err((field("facts"), problem));
    }
    Ok(Connection { id: connection.id, connector: Arc::clone(connector), credential, facts })
}

fn pins(
    listed: BTreeMap<String, Choice<fields::Pin>>,
    mistakes: &mut Vec<Mistake>,
) -> BTreeMap<String, Pin> {
    if listed.len() > MAX_PINS {
        mistakes.push(at("pins", &format!("must hold at most {MAX_PINS} pins")));
        return BTreeMap::new();
    }
    let pin = |pin| match pin {
        Choice::Word(connector) => Pin { connector, connection: None },
        Choice::Table(fields::Pin { connector, connection }) => {
            Pin { connector, connection: set(connection) }
        }
    };
    listed.into_iter().map(|(name, listed)| (name, pin(listed))).collect()
}
