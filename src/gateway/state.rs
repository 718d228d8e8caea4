//! What the workers share, and what each of them has for itself.

use std::sync::Arc;

use super::cors::Origins;
use super::drain::Drain;
use super::holders::Holders;
use super::hosts::Hosts;
use super::inspect::BodyLimits;
use super::router::Router;
use crate::observe::{Audit, Traces};
use crate::policy::SessionsWatch;
use crate::store::{Clock, Store};
use crate::upstream::Client;

/// Shared by all workers.
pub struct Gateway {
    /// The idempotency records.
    pub store: Arc<dyn Store>,
    /// The governed servers.
    pub router: Router,
    /// The session bindings of the sessions file.
    pub sessions: Arc<SessionsWatch>,
    /// Where audit events go.
    pub audit: Arc<Audit>,
    /// Where spans go; `None` where traces are off.
    pub traces: Option<Arc<Traces>>,
    /// The clock of the circuits.
    pub clock: Arc<dyn Clock>,
    /// Which web origins may call.
    pub origins: Origins,
    /// Whom the sessions of certificates stand for.
    pub holders: Holders,
    /// Under which names it answers.
    pub hosts: Hosts,
    /// Bounds on request bodies; `idle` bounds a client that takes nothing, too.
    pub body: BodyLimits,
    /// The most bytes of a reply that are kept (`limits.reply_bytes`).
    pub reply_bytes: usize,
    /// Running exchanges.
    pub drain: Drain,
}

/// One worker's own: the upstream client with its pool.
pub struct Worker {
    /// What it shares.
    pub gateway: Arc<Gateway>,
    /// Its client.
    pub client: Client,
}
