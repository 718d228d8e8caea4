//! Where a server's calls go: to an MCP server, or to vendors by its own tools.

use std::sync::Arc;

use hyper::Uri;

use super::build::{Mistake, Mistakes, at, set, upstream};
use super::catalog::{self, Trusts};
use super::document::{self, Text};
use super::native::Target;
use super::server::{IdempotencyRules, SessionRules};
use super::world::World;

/// What a document says of it.
pub(super) enum Goes {
    Upstream(Uri),
    Connectors(Vec<String>),
}

impl Goes {
    /// Reads `server.upstream` and `server.connectors`, of which a server has one.
    pub fn read(url: Text, connectors: Option<Vec<String>>) -> Result<Self, Mistake> {
        const FORM: &str = "a server has one of `server.upstream`, the URL of an MCP server, and \
                            `server.connectors`, the vendors whose tools it serves itself";
        match (set(url), connectors) {
            (Some(url), None) => {
                upstream(&url).map(Self::Upstream).map_err(|problem| at("server.upstream", problem))
            }
            (None, Some(names)) => Ok(Self::Connectors(names)),
            (None, None) => Err(at("server.upstream", &format!("is missing: {FORM}"))),
            (Some(_), Some(_)) => Err(at("server.connectors", &format!("is too much: {FORM}"))),
        }
    }

    pub fn upstream(&self) -> Option<&Uri> {
        match self {
            Self::Upstream(uri) => Some(uri),
            Self::Connectors(_) => None,
        }
    }

    pub fn into_upstream(self) -> Option<Uri> {
        match self {
            Self::Upstream(uri) => Some(uri),
            Self::Connectors(_) => None,
        }
    }
}

/// What of a server with tools of its own decides about them.
pub(super) struct NativeServer<'s> {
    pub broker: bool,
    pub session: Option<&'s SessionRules>,
    pub rules: Option<&'s IdempotencyRules>,
}

impl NativeServer<'_> {
    /// Its tools; without a world, which has mistakes of its own, they are not judged.
    pub fn target(
        &self,
        connectors: &[String],
        tools: Vec<document::Tool>,
        world: Option<&World>,
        mistakes: &mut Mistakes,
    ) -> Option<Target> {
        if self.broker {
            let problem = "has no effect with `server.connectors`: the gateway makes these calls \
                           itself, and never again";
            mistakes.0.push(at("server.broker", problem));
        }
        if self.session.is_some_and(|session| session.upstream_token.is_some()) {
            let problem = "has no effect with `server.connectors`: each connector has its `auth`";
            mistakes.0.push(at("session.upstream_token", problem));
        }
        let trusts = trusts(tools, mistakes);
        let native = catalog::native(connectors, self.rules?.scope, &trusts, world?);
        match native {
            Ok(native) => Some(Target::Native(Arc::new(native))),
            Err(found) => {
                mistakes.0.extend(found);
                None
            }
        }
    }
}

/// What a server says of its connectors' tools: the trust that they need, and nothing that they
/// declare themselves.
fn trusts(listed: Vec<document::Tool>, mistakes: &mut Mistakes) -> Trusts {
    let mut trusts = Trusts::with_capacity(listed.len());
    for (index, tool) in listed.into_iter().enumerate() {
        let mut wrong = |field: &str, problem: &str| {
            mistakes.0.push(at(&format!("tools[{index}].{field}"), problem));
        };
        let elsewhere = "belongs into the connector's document with `server.connectors`";
        if tool.side_effect.is_some() {
            wrong("side_effect", elsewhere);
        }
        if tool.effect.is_some() {
            wrong("effect", elsewhere);
        }
        if trusts.insert(tool.name, tool.required_trust.unwrap_or_default()).is_some() {
            wrong("name", "is already used by an earlier tool");
        }
    }
    trusts
}
