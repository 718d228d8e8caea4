//! Where a call goes: to an MCP server, or to a vendor by a tool of the gateway's own.

use std::sync::Arc;

use actix_web::web::Bytes;

use hashbrown::HashMap;

use crate::claim::{DispatchHash, dispatch_hash};
use crate::policy::{Callable, Effect, ServerPolicy, Tool};
use crate::store::receipt::Shared;

/// Where a call goes.
#[derive(Clone)]
pub enum Destination {
    /// To the MCP server, as it came.
    Mcp {
        /// The tool, as it was called.
        tool: Box<str>,
        /// What the tool declares of its effect.
        effect: Option<Arc<Effect>>,
        /// The facts of the target, where the tool declares an effect.
        declared: Option<Arc<Declared>>,
    },
    /// To a vendor.
    Native(Arc<Native>),
}

/// A native tool and the facts of its target.
pub struct Native {
    /// The tool.
    pub callable: Arc<Callable>,
    declared: Declared,
}

/// The non-secret facts of a target.
pub struct Declared {
    /// As canonical JSON text.
    pub route: Bytes,
    /// The fingerprint of the facts and the binding.
    pub hash: DispatchHash,
    /// The facts as receipts share them, and how the key reaches the server; made once for each
    /// tool of an MCP server.
    shared: Option<Shared>,
    /// See `shared`.
    pub binding: Option<Shared>,
}

impl Declared {
    /// The facts, as a receipt tells them.
    pub fn facts(&self) -> Option<Shared> {
        self.shared.clone().or_else(|| Some(str::from_utf8(&self.route).ok()?.into()))
    }
}

/// The facts of an MCP server as a target, by the tools that declare an effect. Its URL is told
/// without its query, which may hold a credential.
pub fn declared(policy: &ServerPolicy) -> HashMap<String, Arc<Declared>> {
    let Some(upstream) = policy.target.mcp() else { return HashMap::new() };
    let url = format!(
        "{}://{}{}",
        upstream.scheme_str().unwrap_or_default(),
        upstream.authority().map_or("", |authority| authority.as_str()),
        upstream.path()
    );
    let facts = |tool: &str| {
        serde_json::json!({ "server": policy.uid, "tool": tool, "url": url }).to_string()
    };
    let of = |(name, tool): (&str, &Tool)| {
        let effect = tool.effect.as_ref()?;
        let (route, binding) = (facts(name), effect.binding.describe());
        let hash = dispatch_hash(route.as_bytes(), &binding);
        let (shared, binding) = (Some(route.as_str().into()), Some(binding.as_str().into()));
        let declared = Declared { shared, route: Bytes::from(route), hash, binding };
        Some((name.to_owned(), Arc::new(declared)))
    };
    policy.tools().filter_map(of).collect()
}

impl Destination {
    /// To a vendor.
    pub fn native(callable: &Arc<Callable>) -> Self {
        let (route, hash) = (callable.route.clone(), callable.dispatch);
        let declared = Declared { route, hash, shared: None, binding: None };
        Self::Native(Arc::new(Native { callable: Arc::clone(callable), declared }))
    }

    /// The tool, as it was called.
    pub fn tool(&self) -> &str {
        match self {
            Self::Mcp { tool, .. } => tool,
            Self::Native(native) => &native.callable.name,
        }
    }

    /// What the tool declares of its effect.
    pub fn effect(&self) -> Option<&Arc<Effect>> {
        match self {
            Self::Mcp { effect, .. } => effect.as_ref(),
            Self::Native(native) => native.callable.tool.effect.as_ref(),
        }
    }

    /// The facts of the target; none for a tool of an MCP server that declares no effect.
    pub fn declared(&self) -> Option<&Declared> {
        match self {
            Self::Mcp { declared, .. } => declared.as_deref(),
            Self::Native(native) => Some(&native.declared),
        }
    }

    /// Connection and tool, as a slot in scope `workspace` names them.
    pub fn slot(&self) -> (Option<&str>, &str) {
        match self {
            Self::Mcp { tool, .. } => (None, tool),
            Self::Native(native) if native.callable.capability => (None, &native.callable.name),
            Self::Native(native) => {
                (native.callable.connection.as_deref(), &native.callable.vendor_tool)
            }
        }
    }

    /// The route that answers tell: a capability's.
    pub fn told_route(&self) -> Option<&Bytes> {
        match self {
            Self::Native(native) if native.callable.capability => Some(&native.declared.route),
            Self::Native(_) | Self::Mcp { .. } => None,
        }
    }

    /// The native tool, if it is one.
    pub fn callable(&self) -> Option<&Arc<Callable>> {
        match self {
            Self::Mcp { .. } => None,
            Self::Native(native) => Some(&native.callable),
        }
    }
}
