//! Which tools a server of the gateway's own has, and where each of them leads (EFFECTS sections 1
//! and 4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;

use super::build::{Mistake, at};
use super::connector::{AuthHeader, Connector, MAX_TOOL_NAME, VendorTool};
use super::effect::KeyBinding;
use super::native::{Callable, Catalog, Credential, Native};
use super::server::Tool;
use super::words::{SlotScope, Trust};
use super::workspace::{Connection, Workspace};
use super::world::{Resolved, World};
use crate::claim::json::JsonText;
use crate::claim::{Document, canonical, dispatch_hash};
use crate::native::ArgumentMap;

/// The most connectors of one server.
pub const MAX_CONNECTORS: usize = 64;
/// The most tools that one caller sees on a server, each capability counted as one.
pub const MAX_CATALOG: usize = 1024;
/// The most tools of a server over all its workspaces.
pub const MAX_CALLABLES: usize = 16_384;

const FIELD: &str = "server.connectors";

/// What a server's own document says of the trust that its tools need.
pub(super) type Trusts = HashMap<String, Trust>;

/// Builds the tools of a server that serves these connectors.
///
/// # Errors
///
/// Connectors that are none, names that two tools would have, names of `trusts` that no tool has, and
/// the bounds.
pub(super) fn native(
    connectors: &[String],
    scope: SlotScope,
    trusts: &Trusts,
    world: &World,
) -> Result<Native, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    let connectors = listed(connectors, world, &mut mistakes);
    let mut build = Build { connectors: &connectors, trusts, mistakes, callables: 0 };
    let native = match scope {
        SlotScope::Session => Native::Shared(build.shared()),
        SlotScope::Workspace => Native::ByWorkspace(build.by_workspace(world)),
    };
    build.check_trusts(&native);
    if build.mistakes.is_empty() { Ok(native) } else { Err(build.mistakes) }
}

fn listed<'w>(
    names: &[String],
    world: &'w World,
    mistakes: &mut Vec<Mistake>,
) -> Vec<&'w Connector> {
    if names.is_empty() || names.len() > MAX_CONNECTORS {
        mistakes.push(at(FIELD, &format!("must list 1 to {MAX_CONNECTORS} connectors")));
        return Vec::new();
    }
    let mut listed: Vec<&Connector> = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let field = format!("{FIELD}[{index}]");
        match world.connectors.get(name) {
            None => {
                let problem = "names no connector: add a document of `kind: connector`";
                mistakes.push(at(&field, problem));
            }
            Some(_) if names[..index].contains(name) => {
                mistakes.push(at(&field, "is listed twice"));
            }
            Some(connector) => listed.push(connector),
        }
    }
    listed
}

struct Build<'b> {
    connectors: &'b [&'b Connector],
    trusts: &'b Trusts,
    mistakes: Vec<Mistake>,
    /// How many were made so far.
    callables: usize,
}

/// A tool at an account, before it has a name.
struct Place<'p> {
    tool: &'p VendorTool,
    connector: &'p Connector,
    connection: Option<&'p Connection>,
    credential: Option<Credential>,
}

impl Build<'_> {
    /// Scope `session`: the connectors' tools under their own names and credentials.
    fn shared(&mut self) -> Catalog {
        let mut catalog = Catalog::default();
        for connector in self.connectors {
            let credential = match connector.auth.as_ref().map(own_credential) {
                None => None,
                Some(Some(credential)) => Some(credential),
                Some(None) => {
                    let problem = format!(
                        "`{}` has no `auth.secret` of its own, which it needs unless workspaces \
                         bring theirs",
                        connector.name
                    );
                    self.mistakes.push((FIELD.to_owned(), problem));
                    continue;
                }
            };
            for tool in connector.tools.values() {
                let credential = credential.clone();
                let place = Place { tool, connector, connection: None, credential };
                self.add(&mut catalog, place.callable(&tool.name, self.trusts), "");
            }
        }
        catalog
    }

    /// Scope `workspace`: the tools of each workspace's connections, and its capabilities.
    fn by_workspace(&mut self, world: &World) -> BTreeMap<Arc<str>, Catalog> {
        let workspaces = &world.workspaces;
        let catalog =
            |workspace: &Workspace| (Arc::clone(&workspace.id), self.of(workspace, world));
        workspaces.iter().map(catalog).collect()
    }

    fn of(&mut self, workspace: &Workspace, world: &World) -> Catalog {
        let mut catalog = Catalog::default();
        let whose = format!("workspace `{}`: ", workspace.id);
        for connector in self.connectors {
            let connections: Vec<_> = workspace.connections_of(&connector.name).collect();
            for connection in &connections {
                for tool in connector.tools.values() {
                    // Two accounts at one vendor: a call has to say which.
                    let name = match connections.len() {
                        1 => tool.name.clone(),
                        _ => format!("{}.{}", connection.id, tool.name),
                    };
                    let place = Place::at(connection, tool);
                    self.add(&mut catalog, place.callable(&name, self.trusts), &whose);
                }
            }
        }
        for resolved in world.resolved(workspace) {
            if self.connectors.iter().any(|one| one.name == resolved.route.connector) {
                let callable = capability(&resolved, self.trusts);
                self.add(&mut catalog, callable, &whose);
            }
        }
        catalog
    }

    fn add(&mut self, catalog: &mut Catalog, callable: Callable, whose: &str) {
        let mut wrong = |problem: String| {
            let mistake = (FIELD.to_owned(), format!("{whose}{problem}"));
            // A bound is passed once, and not by every tool beyond it.
            if self.mistakes.last() != Some(&mistake) {
                self.mistakes.push(mistake);
            }
        };
        let name = callable.name.clone();
        if name.len() > MAX_TOOL_NAME {
            return wrong(format!("the name `{name}` has more than {MAX_TOOL_NAME} characters"));
        }
        if catalog.0.len() == MAX_CATALOG || self.callables == MAX_CALLABLES {
            return wrong(format!("has more than {MAX_CATALOG} tools, or {MAX_CALLABLES} in all"));
        }
        if let Some(other) = catalog.0.get(&name) {
            let problem = format!(
                "`{}` and `{}` both have a tool `{name}`: serve them on two servers",
                other.connector, callable.connector
            );
            return wrong(problem);
        }
        self.callables += 1;
        catalog.0.insert(name, Arc::new(callable));
    }

    /// A tool that is meant and is not there would need no trust.
    fn check_trusts(&mut self, native: &Native) {
        let own = self.connectors.iter().flat_map(|connector| connector.tools.keys());
        let called = native.catalogs().flat_map(|catalog| catalog.0.keys());
        let known: BTreeSet<&String> = own.chain(called).collect();
        let mut unknown: Vec<_> = self.trusts.keys().filter(|name| !known.contains(name)).collect();
        unknown.sort_unstable();
        for name in unknown {
            let problem = format!("`{name}` is no tool of these connectors and no capability");
            self.mistakes.push(("tools".to_owned(), problem));
        }
    }
}

fn own_credential(auth: &AuthHeader) -> Option<Credential> {
    auth.credential(auth.secret.as_ref()?).ok()
}

fn capability(resolved: &Resolved<'_>, trusts: &Trusts) -> Callable {
    let Resolved { capability, route, connection } = *resolved;
    let mut callable = Place::at(connection, &route.tool).callable(&capability.name, trusts);
    callable.description = capability.description.clone().or(callable.description);
    callable.schema = capability.schema.clone();
    callable.arguments = Some(ArgumentMap::clone(&route.arguments));
    callable.capability = true;
    callable
}

impl<'p> Place<'p> {
    fn at(connection: &'p Connection, tool: &'p VendorTool) -> Self {
        Self {
            tool,
            connector: &connection.connector,
            connection: Some(connection),
            credential: connection.credential.clone(),
        }
    }

    /// The tool under a name. It needs the most trust that is asked for under that name and under
    /// its own, so that another name is no way around it.
    fn callable(&self, name: &str, trusts: &Trusts) -> Callable {
        let trust = |name: &str| trusts.get(name).copied().unwrap_or_default();
        let route = self.route();
        let effect = self.tool.tool.effect.as_deref();
        let binding = effect.map_or_else(KeyBinding::default, |effect| effect.binding.clone());
        Callable {
            name: name.to_owned(),
            description: self.tool.description.clone(),
            schema: self.tool.schema.clone(),
            arguments: None,
            request: self.tool.request.clone(),
            connector: self.connector.name.clone(),
            base_url: self.connector.base_url.clone(),
            credential: self.credential.clone(),
            connection: self.connection.map(|connection| connection.id.clone()),
            capability: false,
            vendor_tool: self.tool.name.clone(),
            dispatch: dispatch_hash(&route, &binding.describe()),
            route: route.into(),
            tool: Tool {
                required_trust: trust(name).max(trust(&self.tool.name)),
                ..self.tool.tool.clone()
            },
        }
    }

    /// The non-secret facts of the target, as canonical JSON.
    fn route(&self) -> Vec<u8> {
        let base_url = self.connector.base_url.to_string();
        let mut members = vec![
            member("base_url", &base_url),
            member("connector", &self.connector.name),
            member("method", self.tool.request.method().as_str()),
            member("path", self.tool.request.path()),
            member("tool", &self.tool.name),
        ];
        if let Some(connection) = self.connection {
            let facts = connection.facts.iter().map(|(name, value)| member(name, value));
            members.push(member("connection", &connection.id));
            members.push(format!("\"facts\":{}", object(facts)));
        }
        let text = object(members);
        // The text is JSON: its names differ, and every part of it was written as JSON.
        Document::parse(text.as_bytes())
            .map_or_else(|_| Vec::new(), |route| canonical(route.root()))
    }
}

fn member(name: &str, value: &str) -> String {
    format!("{}:{}", JsonText::string(name).as_str(), JsonText::string(value).as_str())
}

fn object(members: impl IntoIterator<Item = String>) -> String {
    format!("{{{}}}", members.into_iter().collect::<Vec<_>>().join(","))
}
