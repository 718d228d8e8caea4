//! From a path to the server that is governed there, under the policy of this moment.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use hashbrown::HashMap;

use super::destination::{self, Declared, Destination};
use crate::identity::{Issuers, Verifier};
use crate::observe::{Metrics, ServerMetrics};
use crate::policy::{
    Auth, PolicySet, PolicyWatch, RESOURCE_METADATA, Resource, ServerPolicy, SlotScope,
};
use crate::store::receipt::Shared;
use crate::upstream::{Circuit, CircuitSettings};

/// One governed server as one exchange sees it: a snapshot that no reload changes.
pub struct Route {
    /// The server's policy.
    pub policy: Arc<ServerPolicy>,
    /// What its receipts call it.
    pub names: Names,
    /// The server's circuit and places, shared by all workers and kept over reloads.
    pub circuit: Arc<Circuit>,
    /// The same of each of its connectors' vendors, by the connector's name.
    vendors: HashMap<String, Arc<Circuit>>,
    /// The facts of the MCP server as a target, by the tools that declare an effect.
    declared: HashMap<String, Arc<Declared>>,
    /// The server's metric handles.
    pub metrics: Arc<ServerMetrics>,
    /// Verifies access tokens, in mode `oauth`; kept over reloads that keep its rules.
    pub verifier: Option<Arc<Verifier>>,
}

/// A server's names, as its receipts share them.
pub struct Names {
    /// The namespace; empty where there is none.
    pub namespace: Shared,
    /// The name.
    pub server: Shared,
}

impl Route {
    /// The circuit of a call's upstream.
    pub fn circuit_of(&self, destination: &Destination) -> &Arc<Circuit> {
        let connector = destination.callable().map(|callable| callable.connector.as_str());
        connector.and_then(|name| self.vendors.get(name)).unwrap_or(&self.circuit)
    }

    /// Where a call of this tool of the MCP server goes.
    pub fn destination(&self, tool: &str) -> Destination {
        let effect = self.policy.tool(tool).and_then(|tool| tool.effect.clone());
        let declared = self.declared.get(tool).cloned();
        Destination::Mcp { tool: tool.into(), effect, declared }
    }

    /// What the server is called as a protected resource, in mode `oauth`.
    pub fn resource(&self) -> Option<&Resource> {
        match &self.policy.auth {
            Auth::OAuth(rules) => rules.resource.as_ref(),
            Auth::ApiKey(_) | Auth::Mtls(_) | Auth::Static(_) | Auth::Header | Auth::None => None,
        }
    }
}

struct Routes {
    policies: Arc<PolicySet>,
    by_path: HashMap<String, Arc<Route>>,
    /// The paths of the servers' metadata as protected resources (RFC 9728).
    metadata: HashMap<String, Arc<Route>>,
}

/// The routes of the current policy, rebuilt when the policy is.
pub struct Router {
    watch: Arc<PolicyWatch>,
    metrics: Arc<Metrics>,
    settings: CircuitSettings,
    issuers: Issuers,
    routes: ArcSwapOption<Routes>,
    rebuilding: Mutex<()>,
}

/// Where a request leads.
pub enum Found {
    /// To a governed server.
    Route(Arc<Route>),
    /// No server is configured at this path.
    Unknown,
    /// There is no valid policy yet.
    NoPolicy,
}

impl Router {
    /// A router over a watched policy.
    pub fn new(
        watch: Arc<PolicyWatch>,
        metrics: Arc<Metrics>,
        settings: CircuitSettings,
        issuers: Issuers,
    ) -> Self {
        Self {
            watch,
            metrics,
            settings,
            issuers,
            routes: ArcSwapOption::empty(),
            rebuilding: Mutex::new(()),
        }
    }

    /// Where `path` leads now.
    pub fn find(&self, path: &str) -> Found {
        self.look_up(|routes| routes.by_path.get(path).cloned())
    }

    /// The server whose metadata as a protected resource stands at `path`, if there is one.
    pub fn metadata(&self, path: &str) -> Option<Arc<Route>> {
        if !path.starts_with(RESOURCE_METADATA) {
            return None;
        }
        match self.look_up(|routes| routes.metadata.get(path).cloned()) {
            Found::Route(route) => Some(route),
            Found::Unknown | Found::NoPolicy => None,
        }
    }

    /// A server whose callers are workspaces, if there is one: all of them know every workspace's
    /// keys.
    pub fn of_workspaces(&self) -> Option<Arc<Route>> {
        let is_theirs =
            |route: &&Arc<Route>| route.policy.idempotency.scope == SlotScope::Workspace;
        match self.look_up(|routes| routes.by_path.values().find(is_theirs).cloned()) {
            Found::Route(route) => Some(route),
            Found::Unknown | Found::NoPolicy => None,
        }
    }

    fn look_up(&self, find: impl Fn(&Routes) -> Option<Arc<Route>>) -> Found {
        let Some(policies) = self.watch.snapshot() else { return Found::NoPolicy };
        let routes = self.routes.load();
        let route = match routes.as_ref() {
            Some(routes) if Arc::ptr_eq(&routes.policies, &policies) => find(routes),
            _ => find(&self.rebuild(&policies)),
        };
        route.map_or(Found::Unknown, Found::Route)
    }

    /// Every route of the current policy, for the status page.
    pub fn all(&self) -> Vec<Arc<Route>> {
        match self.watch.snapshot() {
            None => Vec::new(),
            Some(policies) => self.rebuild(&policies).by_path.values().cloned().collect(),
        }
    }

    fn rebuild(&self, policies: &Arc<PolicySet>) -> Arc<Routes> {
        let _one = self.rebuilding.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.routes.load_full();
        if let Some(routes) = &old
            && Arc::ptr_eq(&routes.policies, policies)
        {
            return Arc::clone(routes);
        }
        let by_path: HashMap<_, _> = policies
            .servers()
            .map(|policy| (policy.path.clone(), self.route(policy, old.as_deref())))
            .collect();
        let metadata = metadata(
            &policies.servers().filter_map(|one| by_path.get(&one.path)).collect::<Vec<_>>(),
        );
        let routes = Arc::new(Routes { policies: Arc::clone(policies), by_path, metadata });
        self.routes.store(Some(Arc::clone(&routes)));
        routes
    }

    fn route(&self, policy: &Arc<ServerPolicy>, old: Option<&Routes>) -> Arc<Route> {
        // A circuit speaks about an upstream, so it outlives a reload that keeps the upstream.
        let old = old.and_then(|routes| routes.by_path.get(&policy.path));
        let circuit = old
            .filter(|route| route.policy.target == policy.target)
            .map(|route| Arc::clone(&route.circuit))
            .unwrap_or_else(|| Circuit::new(self.settings));
        let metrics = self.metrics.server(&policy.namespace, &policy.name);
        let verifier = match &policy.auth {
            Auth::OAuth(rules) => old
                .filter(|route| route.policy.auth == policy.auth)
                .and_then(|route| route.verifier.clone())
                .or_else(|| Some(self.issuers.verifier(rules))),
            Auth::ApiKey(_) | Auth::Mtls(_) | Auth::Static(_) | Auth::Header | Auth::None => None,
        };
        let vendors = self.vendors(policy, old.map(|route| &**route));
        let declared = destination::declared(policy);
        let names = Names {
            namespace: policy.namespace.as_str().into(),
            server: policy.name.as_str().into(),
        };
        Arc::new(Route {
            names,
            policy: Arc::clone(policy),
            circuit,
            vendors,
            declared,
            metrics,
            verifier,
        })
    }

    /// A circuit for every connector of a native server.
    fn vendors(&self, policy: &ServerPolicy, old: Option<&Route>) -> HashMap<String, Arc<Circuit>> {
        let connectors = policy.target.native().map(|native| native.connectors());
        let circuit = |name: &str| {
            let old = old.and_then(|route| route.vendors.get(name));
            (name.to_owned(), old.cloned().unwrap_or_else(|| Circuit::new(self.settings)))
        };
        connectors.into_iter().flatten().map(circuit).collect()
    }
}

/// Where the servers' metadata stands: of each below its own path, and below that of its canonical
/// URI, which is another one behind a proxy that rewrites paths. The first to claim a path has it.
fn metadata(routes: &[&Arc<Route>]) -> HashMap<String, Arc<Route>> {
    let resources = || routes.iter().filter_map(|route| Some((*route, route.resource()?)));
    let own = resources().map(|(route, _)| {
        (format!("{RESOURCE_METADATA}{}", route.policy.path.trim_end_matches('/')), route)
    });
    let outside = resources().map(|(route, resource)| (resource.metadata_path.clone(), route));
    let mut paths = HashMap::new();
    for (path, route) in own.chain(outside) {
        paths.entry(path).or_insert_with(|| Arc::clone(route));
    }
    paths
}
