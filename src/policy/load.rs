//! From the documents of a policy to its servers: connectors first, then what is made of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::build::{self, Mistake};
use super::capability;
use super::connector;
use super::document::{Document, Text};
use super::error::{Place, PolicyError};
use super::read::{self, Format};
use super::secret::{SecretLog, SecretSources};
use super::server::ServerPolicy;
use super::set::LoadContext;
use super::workspace;
use super::world::World;

/// What says what a document is; every other field is of no concern here.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    kind: Text,
}

/// A document of one of the four kinds.
enum Parsed {
    Server(Box<Document>),
    Connector(connector::fields::Connector),
    Capability(capability::Fields),
    Workspace(workspace::fields::Workspace),
}

/// Loads every document: the servers, each with its file, and everything that is wrong.
pub(super) fn load<'d>(
    documents: impl Iterator<Item = (&'d Path, Format, &'d [u8])>,
    context: LoadContext,
    log: &'d SecretLog,
) -> (Vec<(&'d Path, Arc<ServerPolicy>)>, Vec<PolicyError>) {
    let mut load = Load { context, log, errors: Vec::new(), names: Names::default() };
    let mut parsed = Vec::new();
    for (file, format, bytes) in documents {
        match parse(file, format, bytes) {
            Ok(document) => parsed.push((file, document)),
            Err(error) => load.errors.push(error),
        }
    }
    let world = load.world(&mut parsed);
    let servers = load.servers(parsed, world.as_ref());
    (servers, load.errors)
}

fn parse(file: &Path, format: Format, bytes: &[u8]) -> Result<Parsed, PolicyError> {
    let Head { kind } = read::parse(file, format, bytes)?;
    match kind.as_deref().unwrap_or_default() {
        "" => read::parse(file, format, bytes).map(Box::new).map(Parsed::Server),
        "connector" => read::parse(file, format, bytes).map(Parsed::Connector),
        "capability" => read::parse(file, format, bytes).map(Parsed::Capability),
        "workspace" => read::parse(file, format, bytes).map(Parsed::Workspace),
        _ => Err(wrong(
            file,
            build::at(
                "kind",
                "must be `connector`, `capability` or `workspace`, or be left out in the document \
                 of a server; move every other one out of the policy folder",
            ),
        )),
    }
}

fn wrong(file: &Path, (field, problem): Mistake) -> PolicyError {
    let place = Place { position: None, field: Some(field) };
    PolicyError::Document { file: file.to_owned(), place, problem }
}

struct Load<'d> {
    context: LoadContext,
    log: &'d SecretLog,
    errors: Vec<PolicyError>,
    names: Names,
}

impl<'d> Load<'d> {
    /// Everything but the servers, taken out of what was parsed; none where a part has a mistake, so
    /// that what is made of it is not said to be wrong too.
    fn world(&mut self, parsed: &mut Vec<(&'d Path, Parsed)>) -> Option<World> {
        let mut world = World::default();
        let (mut capabilities, mut workspaces) = (Vec::new(), Vec::new());
        for (file, document) in std::mem::take(parsed) {
            match document {
                Parsed::Server(_) => parsed.push((file, document)),
                Parsed::Capability(fields) => capabilities.push((file, fields)),
                Parsed::Workspace(fields) => workspaces.push((file, fields)),
                Parsed::Connector(fields) => {
                    let built = connector::build(fields, &self.sources(file));
                    if let Some(connector) = self.keep(file, built)
                        && self.is_new(file, "name", &connector.name)
                    {
                        world.connectors.insert(connector.name.clone(), Arc::new(connector));
                    }
                }
            }
        }
        if !self.errors.is_empty() {
            return None;
        }
        for (file, fields) in capabilities {
            let built = capability::build(fields, &world.connectors);
            if let Some(capability) = self.keep(file, built)
                && self.is_new(file, "name", &capability.name)
            {
                world.capabilities.insert(capability.name.clone(), capability);
            }
        }
        if !self.errors.is_empty() {
            return None;
        }
        for (file, fields) in workspaces {
            let built = workspace::build(fields, &world.connectors, &self.sources(file));
            if let Some(workspace) = self.keep(file, built)
                && self.is_new(file, "id", &workspace.id)
            {
                let added = world.add(workspace);
                self.keep(file, added);
            }
        }
        self.errors.is_empty().then_some(world)
    }

    fn servers(
        &mut self,
        parsed: Vec<(&'d Path, Parsed)>,
        world: Option<&World>,
    ) -> Vec<(&'d Path, Arc<ServerPolicy>)> {
        let mut servers: Vec<(&Path, Arc<ServerPolicy>)> = Vec::with_capacity(parsed.len());
        for (file, document) in parsed {
            let Parsed::Server(document) = document else { continue };
            let built = build::server(*document, self.context, &self.sources(file), world);
            if let Some(server) = self.keep(file, built) {
                self.errors.extend(clashes(file, &server, &servers));
                servers.push((file, Arc::new(server)));
            }
        }
        servers
    }

    fn keep<T>(&mut self, file: &Path, built: Result<T, Vec<Mistake>>) -> Option<T> {
        let mistakes = match built {
            Ok(built) => return Some(built),
            Err(mistakes) => mistakes,
        };
        self.errors.extend(mistakes.into_iter().map(|mistake| wrong(file, mistake)));
        None
    }

    fn is_new(&mut self, file: &Path, field: &'static str, name: &str) -> bool {
        let Some(other) = self.names.claim(field, name, file) else { return true };
        let (file, value) = (file.to_owned(), name.to_owned());
        self.errors.push(PolicyError::Clash { file, other, field, value });
        false
    }

    fn sources(&self, file: &'d Path) -> SecretSources<'d> {
        SecretSources {
            folder: file.parent().unwrap_or_else(|| Path::new("")),
            variable: |name| std::env::var_os(name).map(std::ffi::OsString::into_encoded_bytes),
            log: self.log,
        }
    }
}

/// Names that only one document can have, and the file that has each.
#[derive(Debug, Default)]
struct Names(HashMap<(&'static str, String), PathBuf>);

impl Names {
    /// The file that has this name already; otherwise `file` has it from now on.
    fn claim(&mut self, kind: &'static str, name: &str, file: &Path) -> Option<PathBuf> {
        match self.0.entry((kind, name.to_owned())) {
            Entry::Occupied(other) => Some(other.get().clone()),
            Entry::Vacant(place) => {
                place.insert(file.to_owned());
                None
            }
        }
    }
}

/// What this server shares with an earlier one and must not: the path routes, namespace and name
/// label metrics, and the uid makes slots.
fn clashes(
    file: &Path,
    server: &ServerPolicy,
    earlier: &[(&Path, Arc<ServerPolicy>)],
) -> Vec<PolicyError> {
    let mut clashes = Vec::new();
    let mut clash = |other: &Path, field, value: &str| {
        clashes.push(PolicyError::Clash {
            file: file.to_owned(),
            other: other.to_owned(),
            field,
            value: value.to_owned(),
        });
    };
    for (other, one) in earlier {
        if one.path == server.path {
            clash(other, "server.path", &server.path);
        }
        if (&one.namespace, &one.name) == (&server.namespace, &server.name) {
            clash(other, "server.name", &server.name);
        }
        if let Some(uid) = server.uid.as_ref().filter(|uid| one.uid.as_ref() == Some(uid)) {
            clash(other, "server.uid", uid);
        }
    }
    clashes
}
