//! Everything that native servers are made of: connectors, workspaces and capabilities, and how they
//! fit together.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::auth::{ApiKey, MAX_API_KEYS};
use super::build::{Mistake, at};
use super::capability::{Capability, Route};
use super::connector::Connector;
use super::workspace::{Connection, Pin, Workspace};

/// The documents that are no servers.
#[derive(Debug, Default)]
pub(super) struct World {
    pub connectors: HashMap<String, Arc<Connector>>,
    pub capabilities: BTreeMap<String, Capability>,
    pub workspaces: Vec<Workspace>,
    /// By workspace, then by capability: the connection that serves it.
    routes: HashMap<Arc<str>, BTreeMap<String, String>>,
}

/// Where a capability leads in a workspace.
#[derive(Clone, Copy)]
pub(super) struct Resolved<'w> {
    pub capability: &'w Capability,
    pub route: &'w Route,
    pub connection: &'w Connection,
}

impl World {
    /// Takes a workspace over, with the routes of its capabilities.
    ///
    /// # Errors
    ///
    /// Keys that another one has, pins that lead nowhere, and capabilities that need one.
    pub fn add(&mut self, workspace: Workspace) -> Result<(), Vec<Mistake>> {
        let mut mistakes: Vec<_> = self.api_key_mistake(&workspace).into_iter().collect();
        let unknown = workspace.pins.keys().filter(|name| !self.capabilities.contains_key(*name));
        mistakes.extend(unknown.map(|name| {
            let problem = "names no capability: add a document of `kind: capability`";
            at(&format!("pins.{name}"), problem)
        }));
        let mut routes = BTreeMap::new();
        for (name, capability) in &self.capabilities {
            match resolve(capability, &workspace) {
                Ok(Some(connection)) => {
                    routes.insert(name.clone(), connection);
                }
                Ok(None) => {}
                Err(mistake) => mistakes.push(mistake),
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        self.routes.insert(Arc::clone(&workspace.id), routes);
        self.workspaces.push(workspace);
        Ok(())
    }

    /// The keys of every workspace; each of them tells its own.
    pub fn api_keys(&self) -> impl Iterator<Item = &ApiKey> {
        self.workspaces.iter().flat_map(|workspace| &workspace.api_keys)
    }

    /// The capabilities that a workspace can serve.
    pub fn resolved<'w>(&'w self, workspace: &'w Workspace) -> impl Iterator<Item = Resolved<'w>> {
        let routes = self.routes.get(&workspace.id).into_iter().flatten();
        routes.filter_map(move |(name, connection)| {
            let capability = self.capabilities.get(name)?;
            let connection = workspace.connections.get(connection)?;
            let leads = |route: &&Route| route.connector == connection.connector.name;
            let route = capability.routes.iter().find(leads)?;
            Some(Resolved { capability, route, connection })
        })
    }

    fn api_key_mistake(&self, workspace: &Workspace) -> Option<Mistake> {
        let known = |key: &ApiKey| self.api_keys().any(|other| other.sha256() == key.sha256());
        if self.api_keys().count() + workspace.api_keys.len() > MAX_API_KEYS {
            let problem = format!("make more than {MAX_API_KEYS} keys over all workspaces");
            return Some(at("api_keys", &problem));
        }
        let index = workspace.api_keys.iter().position(known)?;
        let problem = "is already used by a key of another workspace";
        Some(at(&format!("api_keys[{index}].sha256"), problem))
    }
}

/// The connection that serves a capability in a workspace; none where no connection can.
fn resolve(capability: &Capability, workspace: &Workspace) -> Result<Option<String>, Mistake> {
    let name = &capability.name;
    let serves = |connector: &str| capability.routes.iter().any(|one| one.connector == connector);
    if let Some(pin) = workspace.pins.get(name) {
        let wrong = |problem: &str| at(&format!("pins.{name}"), problem);
        if !serves(&pin.connector) {
            return Err(wrong("names a connector that the capability has no route to"));
        }
        return pinned(pin, workspace).map(Some).map_err(wrong);
    }
    let connections = workspace.connections.values();
    let mut able = connections.filter(|one| serves(&one.connector.name)).map(|one| &one.id);
    match (able.next(), able.next()) {
        (first, None) => Ok(first.cloned()),
        (Some(one), Some(other)) => {
            let problem = format!(
                "must say where `{name}` leads, as `{one}` and `{other}` can both serve it: add \
                 `{name}: {{ connector: NAME, connection: ID }}`"
            );
            Err(at("pins", &problem))
        }
        (None, Some(_)) => Ok(None),
    }
}

fn pinned(pin: &Pin, workspace: &Workspace) -> Result<String, &'static str> {
    let mut connections = workspace.connections_of(&pin.connector);
    match &pin.connection {
        Some(id) => connections
            .find(|connection| connection.id == *id)
            .map(|connection| connection.id.clone())
            .ok_or("names a connection that the workspace has not at this connector"),
        None => match (connections.next(), connections.next()) {
            (Some(connection), None) => Ok(connection.id.clone()),
            (None, _) => Err("names a connector that the workspace has no connection at"),
            (Some(_), Some(_)) => Err("must name one of the connections at this connector, as \
                                       `{ connector: NAME, connection: ID }`"),
        },
    }
}
