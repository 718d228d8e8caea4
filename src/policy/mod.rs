//! What may happen: policy documents, session bindings, and the decision on one request
//! (CONTRACT section 9).
//!
//! A document's text becomes types once, when it is loaded ([`PolicySet::load`]); afterwards
//! everything is a lookup. [`authorize()`] is pure. [`PolicyWatch`] and [`SessionsWatch`] keep the
//! last good content in use while files change.

mod auth;
mod authorize;
mod broker;
mod build;
mod capability;
mod catalog;
mod choice;
mod connector;
mod document;
mod effect;
mod error;
mod goes;
mod grant;
mod headers;
mod idempotency;
mod json;
mod load;
mod mtls;
mod native;
mod oauth;
mod read;
mod reload;
mod schemas;
mod secret;
mod server;
mod session;
mod set;
mod slots;
mod values;
mod watch;
mod words;
mod workspace;
mod world;

pub use auth::{ApiKey, ApiKeys, Auth, MAX_API_KEYS};
pub use authorize::{Decision, Reason, Request, authorize};
pub(crate) use authorize::{binding, live};
pub use build::MAX_NAME;
pub use capability::MAX_ROUTES;
pub use catalog::{MAX_CALLABLES, MAX_CATALOG, MAX_CONNECTORS};
pub use connector::{MAX_CONNECTOR_TOOLS, MAX_DESCRIPTION, MAX_ID, MAX_TOOL_NAME};
pub use effect::{Effect, KeyBinding, MAX_ENVIRONMENT, OnUnknown};
pub use error::{Place, PolicyError, PolicyErrors};
pub use grant::{Grant, Grants, Subjects, ToolRule};
pub use mtls::MtlsRules;
pub use native::{Callable, Catalog, Credential, Native, Target};
pub use oauth::{
    Algorithm, Introspection, MAX_INTROSPECTION_CACHE, MAX_LEEWAY, MAX_LISTED, MAX_TEXT, OAuth,
    PrincipalClaims, RESOURCE_METADATA, Resource, endpoint_url,
};
pub(crate) use reload::{Digest, SETTLE, Tracker, every_so_often, settled};
pub use reload::{Polled, Reloads};
pub use schemas::schemas;
pub use secret::LoadedSecret;
pub use server::{
    IdempotencyRules, MAX_KEY_POINTERS, RetriesOff, ServerPolicy, SessionRules, Tool, UpstreamToken,
};
pub use session::{Binding, MAX_SESSIONS, MAX_SESSIONS_BYTES, SessionsFile};
pub use set::{LoadContext, MAX_DOCUMENT_BYTES, MAX_SERVERS, PolicySet};
pub use slots::MAX_REMEMBERED;
pub(crate) use values::{HexDigest, duration};
pub use watch::{PolicyWatch, SessionsWatch};
pub use words::{DefaultDecision, Keys, Mode, RuleDecision, SideEffect, SlotScope, Streams, Trust};
pub use workspace::{MAX_CONNECTIONS, MAX_FACTS, MAX_PINS};

#[cfg(test)]
mod tests;
