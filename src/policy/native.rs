//! Tools that the gateway itself serves: which there are, and where each of them leads (EFFECTS
//! sections 1 and 4).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};

use super::secret::LoadedSecret;
use super::server::Tool;
use crate::claim::DispatchHash;
use crate::native::{ArgumentMap, InputSchema, RequestTemplate};

/// Where a server's tool calls go.
#[derive(Clone, PartialEq)]
pub enum Target {
    /// To an MCP server: absolute, `http` or `https`.
    Mcp(Uri),
    /// To vendors, as the gateway's own requests.
    Native(Arc<Native>),
}

impl Target {
    /// The MCP server's address, if it is one.
    pub fn mcp(&self) -> Option<&Uri> {
        match self {
            Self::Mcp(uri) => Some(uri),
            Self::Native(_) => None,
        }
    }

    /// The served tools, if they are the gateway's own.
    pub fn native(&self) -> Option<&Arc<Native>> {
        match self {
            Self::Mcp(_) => None,
            Self::Native(native) => Some(native),
        }
    }
}

/// The tools of a server that calls vendors.
#[derive(Debug, Clone, PartialEq)]
pub enum Native {
    /// Scope `session`: the same for every caller.
    Shared(Catalog),
    /// Scope `workspace`: each has its own, by its id.
    ByWorkspace(BTreeMap<Arc<str>, Catalog>),
}

impl Native {
    /// Every catalog.
    pub fn catalogs(&self) -> impl Iterator<Item = &Catalog> {
        let (shared, of_workspaces) = match self {
            Self::Shared(catalog) => (Some(catalog), None),
            Self::ByWorkspace(catalogs) => (None, Some(catalogs.values())),
        };
        shared.into_iter().chain(of_workspaces.into_iter().flatten())
    }

    /// The names of the connectors that its tools use, each once, in order.
    pub fn connectors(&self) -> Vec<&str> {
        let tools = self.catalogs().flat_map(|catalog| catalog.0.values());
        let mut names: Vec<_> = tools.map(|callable| callable.connector.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The workspaces that it serves; none in scope `session`.
    pub fn workspaces(&self) -> impl Iterator<Item = &str> {
        let catalogs = match self {
            Self::Shared(_) => None,
            Self::ByWorkspace(catalogs) => Some(catalogs),
        };
        catalogs.into_iter().flat_map(|catalogs| catalogs.keys().map(|id| &**id))
    }

    /// What a caller of this workspace, or of none, may see.
    pub fn catalog(&self, workspace: Option<&str>) -> Option<&Catalog> {
        match (self, workspace) {
            (Self::Shared(catalog), None) => Some(catalog),
            (Self::ByWorkspace(catalogs), Some(workspace)) => catalogs.get(workspace),
            (Self::Shared(_), Some(_)) | (Self::ByWorkspace(_), None) => None,
        }
    }
}

/// Tools by the names that they are called by, in the order of a listing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Catalog(pub BTreeMap<String, Arc<Callable>>);

/// A tool, and where a call of it leads.
#[derive(Clone, PartialEq)]
pub struct Callable {
    /// The name that it is called by.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// What its arguments must be.
    pub schema: InputSchema,
    /// From a capability's arguments to the tool's; `None` where they are the same.
    pub arguments: Option<ArgumentMap>,
    /// What is sent.
    pub request: RequestTemplate,
    /// The connector's name.
    pub connector: String,
    /// Where its paths start: absolute, `http` or `https`.
    pub base_url: Uri,
    /// What the gateway shows the vendor.
    pub credential: Option<Credential>,
    /// The resolved connection's id; `None` in scope `session`.
    pub connection: Option<String>,
    /// Whether it is a capability: its slot and quota name no connection, and a completed record is
    /// replayed whatever the pin says now.
    pub capability: bool,
    /// The tool's name at the vendor, which a capability's differs from.
    pub vendor_tool: String,
    /// The non-secret facts of the target, as canonical JSON: what a receipt tells and the
    /// fingerprint is of.
    pub route: Bytes,
    /// The fingerprint of binding and route.
    pub dispatch: DispatchHash,
    /// What the policy knows of it.
    pub tool: Tool,
}

/// Names where it leads and no more.
impl fmt::Debug for Callable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callable")
            .field("name", &self.name)
            .field("connector", &self.connector)
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

/// A header that only the vendor may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The header.
    pub header: HeaderName,
    /// Its value, marked sensitive.
    pub value: HeaderValue,
    /// The secret that it was made of.
    pub secret: LoadedSecret,
}
