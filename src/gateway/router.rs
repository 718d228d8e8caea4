//! From a path to the server that is governed there, under the policy of this moment.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use hashbrown::HashMap;

use crate::observe::{Metrics, ServerMetrics};
use crate::policy::{PolicySet, PolicyWatch, ServerPolicy};
use crate::upstream::{Circuit, CircuitSettings};

/// One governed server as one exchange sees it: a snapshot that no reload changes.
#[derive(Debug)]
pub struct Route {
    /// The server's policy.
    pub policy: Arc<ServerPolicy>,
    /// The server's circuit and places, shared by all workers and kept over reloads.
    pub circuit: Arc<Circuit>,
    /// The server's metric handles.
    pub metrics: Arc<ServerMetrics>,
}

#[derive(Debug)]
struct Routes {
    policies: Arc<PolicySet>,
    by_path: HashMap<String, Arc<Route>>,
}

/// The routes of the current policy, rebuilt when the policy is.
#[derive(Debug)]
pub struct Router {
    watch: Arc<PolicyWatch>,
    metrics: Arc<Metrics>,
    settings: CircuitSettings,
    routes: ArcSwapOption<Routes>,
    rebuilding: Mutex<()>,
}

/// Where a request leads.
#[derive(Debug)]
pub enum Destination {
    /// To a governed server.
    Route(Arc<Route>),
    /// No server is configured at this path.
    Unknown,
    /// There is no valid policy yet.
    NoPolicy,
}

impl Router {
    /// A router over a watched policy.
    pub fn new(watch: Arc<PolicyWatch>, metrics: Arc<Metrics>, settings: CircuitSettings) -> Self {
        Self {
            watch,
            metrics,
            settings,
            routes: ArcSwapOption::empty(),
            rebuilding: Mutex::new(()),
        }
    }

    /// Where `path` leads now.
    pub fn find(&self, path: &str) -> Destination {
        let Some(policies) = self.watch.snapshot() else { return Destination::NoPolicy };
        let routes = self.routes.load();
        let route = match routes.as_ref() {
            Some(routes) if Arc::ptr_eq(&routes.policies, &policies) => {
                routes.by_path.get(path).cloned()
            }
            _ => self.rebuild(&policies).by_path.get(path).cloned(),
        };
        route.map_or(Destination::Unknown, Destination::Route)
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
        let by_path = policies
            .servers()
            .map(|policy| (policy.path.clone(), self.route(policy, old.as_deref())))
            .collect();
        let routes = Arc::new(Routes { policies: Arc::clone(policies), by_path });
        self.routes.store(Some(Arc::clone(&routes)));
        routes
    }

    fn route(&self, policy: &Arc<ServerPolicy>, old: Option<&Routes>) -> Arc<Route> {
        // A circuit speaks about an upstream, so it outlives a reload that keeps the upstream.
        let circuit = old
            .and_then(|routes| routes.by_path.get(&policy.path))
            .filter(|route| route.policy.upstream == policy.upstream)
            .map(|route| Arc::clone(&route.circuit))
            .unwrap_or_else(|| Circuit::new(self.settings));
        let metrics = self.metrics.server(&policy.namespace, &policy.name);
        Arc::new(Route { policy: Arc::clone(policy), circuit, metrics })
    }
}
