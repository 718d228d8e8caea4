//! What a policy document says, as it is read (CONTRACT section 9).
//!
//! The field names are those of the platform whose rendered documents load here unchanged, and
//! ours beside them. Every other field is an error. Fields marked "without effect" are that
//! platform's, and this gateway needs nothing of them; fields whose behaviour this build does not
//! have are refused while they are read, so that the error carries their place.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

use super::broker::fields::Switch;
use super::choice::Choice;
use super::effect::fields::Effect;
use super::oauth::fields::{Algorithms, Claims, Introspection};
use super::values::{self, Expiry, HexDigest};
use super::words::{
    self, Approval, AuthMode, DefaultDecision, Keys, Mode, RuleDecision, SideEffect, SlotScope,
    Streams, Trust,
};
use crate::claim::{Fingerprint, KeyFormat};

/// The only schema version there is.
pub(super) const SCHEMA_VERSION: &str = "v1";

/// A text that may be null, absent or empty, all of which mean the same.
pub(super) type Text = Option<String>;

/// A field of the platform that has no effect here: any value is accepted.
pub(super) type WithoutEffect = Option<IgnoredAny>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub schema_version: String,
    /// Empty: every other kind is another type.
    #[serde(default, rename = "kind")]
    _kind: Text,
    #[serde(default, rename = "revision")]
    _revision: WithoutEffect,
    #[serde(default, rename = "generated_at")]
    _generated_at: WithoutEffect,
    pub server: Server,
    #[serde(default)]
    pub auth: Option<Auth>,
    #[serde(default)]
    pub policy: Option<Policy>,
    #[serde(default)]
    pub session: Option<Session>,
    #[serde(default)]
    pub tools: Option<Vec<Tool>>,
    #[serde(default)]
    pub grants: Option<Vec<Grant>>,
    #[serde(default)]
    pub sessions: Option<Vec<Binding>>,
    #[serde(default)]
    pub idempotency: Option<Idempotency>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub name: String,
    #[serde(default)]
    pub namespace: Text,
    #[serde(default)]
    pub uid: Text,
    #[serde(default)]
    pub team_id: Text,
    #[serde(default)]
    pub cluster: Text,
    #[serde(default)]
    pub path: Text,
    /// One of the two.
    #[serde(default)]
    pub upstream: Text,
    #[serde(default)]
    pub connectors: Option<Vec<String>>,
    #[serde(default)]
    pub broker: Option<bool>,
    #[serde(default)]
    pub retries_off: Option<Choice<Switch>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Auth {
    #[serde(deserialize_with = "words::optional")]
    pub mode: Option<AuthMode>,
    #[serde(rename = "human_id_header")]
    _human_id_header: WithoutEffect,
    #[serde(rename = "agent_id_header")]
    _agent_id_header: WithoutEffect,
    #[serde(rename = "team_id_header")]
    _team_id_header: WithoutEffect,
    #[serde(rename = "session_id_header")]
    _session_id_header: WithoutEffect,
    #[serde(rename = "token_header", deserialize_with = "unsupported::token_header")]
    _token_header: (),
    pub trust_domain: Text,
    pub ingress_spiffe_id: Text,
    pub spiffe_header: Text,
    pub issuer_url: Text,
    pub audience: Text,
    pub resource: Text,
    pub scopes: Option<Vec<String>>,
    pub algorithms: Algorithms,
    #[serde(deserialize_with = "values::optional_duration")]
    pub leeway: Option<Duration>,
    pub claims: Option<Claims>,
    pub introspection: Option<Introspection>,
    pub human_id: Text,
    pub agent_id: Text,
    pub team_id: Text,
    pub api_keys: Option<Vec<ApiKey>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApiKey {
    pub id: String,
    pub sha256: HexDigest,
    #[serde(default)]
    pub human_id: Text,
    #[serde(default)]
    pub agent_id: Text,
    #[serde(default)]
    pub team_id: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Policy {
    #[serde(deserialize_with = "words::optional")]
    pub mode: Option<Mode>,
    #[serde(deserialize_with = "words::optional")]
    pub default_decision: Option<DefaultDecision>,
    #[serde(rename = "enforce_on")]
    _enforce_on: WithoutEffect,
    pub policy_version: Text,
    pub deny_unsupported_writes: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Session {
    pub required: Option<bool>,
    #[serde(rename = "store")]
    _store: WithoutEffect,
    pub header_name: Text,
    #[serde(rename = "max_lifetime")]
    _max_lifetime: WithoutEffect,
    #[serde(rename = "idle_timeout")]
    _idle_timeout: WithoutEffect,
    pub upstream_token_header: Text,
    pub upstream_token: Text,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tool {
    pub name: String,
    #[serde(default, rename = "description")]
    _description: WithoutEffect,
    #[serde(default, deserialize_with = "words::optional")]
    pub required_trust: Option<Trust>,
    #[serde(default, deserialize_with = "words::optional")]
    pub side_effect: Option<SideEffect>,
    #[serde(default, rename = "risk_level")]
    _risk_level: WithoutEffect,
    #[serde(default, rename = "labels")]
    _labels: WithoutEffect,
    #[serde(default)]
    pub effect: Option<Effect>,
    #[serde(default, rename = "approval", deserialize_with = "words::optional")]
    _approval: Option<Approval>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Grant {
    pub name: String,
    #[serde(default)]
    pub namespace: Text,
    #[serde(default)]
    pub human_id: Text,
    #[serde(default)]
    pub agent_id: Text,
    #[serde(default)]
    pub team_id: Text,
    #[serde(default, deserialize_with = "words::optional")]
    pub max_trust: Option<Trust>,
    #[serde(default, deserialize_with = "words::list")]
    pub allowed_side_effects: Vec<SideEffect>,
    #[serde(default, rename = "policy_version")]
    _policy_version: WithoutEffect,
    #[serde(default)]
    pub disabled: Option<bool>,
    #[serde(default)]
    pub tool_rules: Option<Vec<ToolRule>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolRule {
    pub name: String,
    #[serde(default, deserialize_with = "words::optional")]
    pub decision: Option<RuleDecision>,
    #[serde(default, deserialize_with = "words::optional")]
    pub required_trust: Option<Trust>,
}

/// A session binding; the sessions file holds the same.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Binding {
    pub name: String,
    #[serde(default)]
    pub namespace: Text,
    #[serde(default)]
    pub human_id: Text,
    #[serde(default)]
    pub agent_id: Text,
    #[serde(default)]
    pub team_id: Text,
    #[serde(default, deserialize_with = "words::optional")]
    pub consented_trust: Option<Trust>,
    #[serde(default)]
    pub revoked: Option<bool>,
    #[serde(default)]
    pub expires_at: Expiry,
    #[serde(default, rename = "policy_version")]
    _policy_version: WithoutEffect,
    #[serde(default, rename = "upstream_token_ref")]
    _upstream_token_ref: WithoutEffect,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Idempotency {
    #[serde(deserialize_with = "words::optional")]
    pub keys: Option<Keys>,
    #[serde(deserialize_with = "words::optional")]
    pub format: Option<KeyFormat>,
    #[serde(deserialize_with = "words::optional")]
    pub fingerprint: Option<Fingerprint>,
    #[serde(deserialize_with = "words::optional")]
    pub streams: Option<Streams>,
    #[serde(deserialize_with = "words::optional")]
    pub scope: Option<SlotScope>,
    pub key_pointers: Option<Vec<String>>,
}

/// Fields of the contract whose behaviour this build does not have: accepted where they ask for
/// nothing, refused otherwise.
mod unsupported {
    use serde::de::Error as _;

    use super::{Deserialize, Deserializer, Text};

    pub(super) fn token_header<'de, D: Deserializer<'de>>(from: D) -> Result<(), D::Error> {
        let header = Text::deserialize(from)?.unwrap_or_default();
        if header.is_empty() || header.eq_ignore_ascii_case("authorization") {
            return Ok(());
        }
        Err(D::Error::custom("not supported by this build: tokens are read from `Authorization`"))
    }
}
