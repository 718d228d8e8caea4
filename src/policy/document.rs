//! What a policy document says, as it is read (CONTRACT section 9).
//!
//! The field names are those of the platform whose rendered documents load here unchanged, and
//! ours beside them. Every other field is an error. Fields marked "without effect" are that
//! platform's, and this gateway needs nothing of them; fields whose behaviour this build does not
//! have are refused while they are read, so that the error carries their place.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
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

/// A governed MCP server: who may call it, which tools, and how keys work there.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    /// Always `v1`.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    pub schema_version: String,
    /// Empty: every other kind is another type.
    #[serde(default, rename = "kind")]
    #[schemars(schema_with = "no_kind")]
    _kind: Text,
    /// Without effect.
    #[serde(default, rename = "revision")]
    #[schemars(with = "serde_json::Value")]
    _revision: WithoutEffect,
    /// Without effect.
    #[serde(default, rename = "generated_at")]
    #[schemars(with = "serde_json::Value")]
    _generated_at: WithoutEffect,
    /// The governed server.
    pub server: Server,
    /// Who calls.
    #[serde(default)]
    pub auth: Option<Auth>,
    /// What is enforced.
    #[serde(default)]
    pub policy: Option<Policy>,
    /// What is asked of sessions, and the credential at the upstream.
    #[serde(default)]
    pub session: Option<Session>,
    /// What is known of the tools.
    #[serde(default)]
    pub tools: Option<Vec<Tool>>,
    /// Who may call which tools.
    #[serde(default)]
    pub grants: Option<Vec<Grant>>,
    /// Session bindings, beside those of the sessions file.
    #[serde(default)]
    pub sessions: Option<Vec<Binding>>,
    /// What keyed calls are promised.
    #[serde(default)]
    pub idempotency: Option<Idempotency>,
}

/// Which server, and where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    /// With the namespace, unique.
    pub name: String,
    /// Labels metrics and audit; the namespace of its sessions.
    #[serde(default)]
    pub namespace: Text,
    /// Makes the slots of keys: give it once, never reuse it.
    #[serde(default)]
    pub uid: Text,
    /// A label without effect.
    #[serde(default)]
    pub team_id: Text,
    /// A label without effect.
    #[serde(default)]
    pub cluster: Text,
    /// Where the gateway serves it; `/mcp` where it is left out.
    #[serde(default)]
    pub path: Text,
    /// The MCP server: an absolute `http` or `https` URL. This or `connectors`.
    #[serde(default)]
    pub upstream: Text,
    /// The names of the connectors whose tools are its own. These or `upstream`.
    #[serde(default)]
    pub connectors: Option<Vec<String>>,
    /// Whether it calls vendors itself, and retries by itself.
    #[serde(default)]
    pub broker: Option<bool>,
    /// How a broker's own retries are switched off.
    #[serde(default)]
    pub retries_off: Option<Choice<Switch>>,
}

/// How callers are authenticated.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Auth {
    /// How callers are authenticated; `header` where it is left out.
    #[serde(deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<AuthMode>")]
    pub mode: Option<AuthMode>,
    /// Without effect.
    #[serde(rename = "human_id_header")]
    #[schemars(with = "serde_json::Value")]
    _human_id_header: WithoutEffect,
    /// Without effect.
    #[serde(rename = "agent_id_header")]
    #[schemars(with = "serde_json::Value")]
    _agent_id_header: WithoutEffect,
    /// Without effect.
    #[serde(rename = "team_id_header")]
    #[schemars(with = "serde_json::Value")]
    _team_id_header: WithoutEffect,
    /// Without effect.
    #[serde(rename = "session_id_header")]
    #[schemars(with = "serde_json::Value")]
    _session_id_header: WithoutEffect,
    /// Only `Authorization`.
    #[serde(rename = "token_header", deserialize_with = "unsupported::token_header")]
    #[schemars(with = "Text")]
    _token_header: (),
    /// For `mtls`: the trust domain of every caller's id.
    pub trust_domain: Text,
    /// For `mtls`: the id of the certificate that may name callers in a header.
    pub ingress_spiffe_id: Text,
    /// For `mtls`: that header.
    pub spiffe_header: Text,
    /// For `oauth`: the issuer, exactly as its tokens say it.
    pub issuer_url: Text,
    /// For `oauth`: what tokens must be for; this or `resource`.
    pub audience: Text,
    /// For `oauth`: the server's canonical URI, which clients call.
    pub resource: Text,
    /// For `oauth`: scopes that every request needs.
    pub scopes: Option<Vec<String>>,
    /// For `oauth`: how tokens may be signed.
    pub algorithms: Algorithms,
    /// For `oauth`: how far the issuer's clock may be off.
    #[serde(deserialize_with = "values::optional_duration")]
    #[schemars(schema_with = "values::duration_schema")]
    pub leeway: Option<Duration>,
    /// For `oauth`: which claims name the caller.
    pub claims: Option<Claims>,
    /// For `oauth`: how opaque tokens are looked up.
    pub introspection: Option<Introspection>,
    /// For `static`: the human.
    pub human_id: Text,
    /// For `static`: the agent.
    pub agent_id: Text,
    /// For `static`: the team.
    pub team_id: Text,
    /// For `api_key`: the keys.
    pub api_keys: Option<Vec<ApiKey>>,
}

/// A bearer token of `api_key`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApiKey {
    /// The operator's name for it.
    pub id: String,
    /// Of the secret, as 64 hex digits.
    pub sha256: HexDigest,
    /// The human that it stands for.
    #[serde(default)]
    pub human_id: Text,
    /// The agent.
    #[serde(default)]
    pub agent_id: Text,
    /// The team.
    #[serde(default)]
    pub team_id: Text,
}

/// What is enforced.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Policy {
    /// `observe` allows everything and only records.
    #[serde(deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<Mode>")]
    pub mode: Option<Mode>,
    /// For a call that no grant speaks of; `deny` where it is left out.
    #[serde(deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<DefaultDecision>")]
    pub default_decision: Option<DefaultDecision>,
    /// Without effect.
    #[serde(rename = "enforce_on")]
    #[schemars(with = "serde_json::Value")]
    _enforce_on: WithoutEffect,
    /// A label without effect.
    pub policy_version: Text,
    /// Environments in which a tool that writes must have a vendor that dedupes.
    pub deny_unsupported_writes: Option<Vec<String>>,
}

/// Sessions, and the credential at the upstream.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Session {
    /// Whether every `tools/call` needs one.
    pub required: Option<bool>,
    /// Without effect.
    #[serde(rename = "store")]
    #[schemars(with = "serde_json::Value")]
    _store: WithoutEffect,
    /// The header that names it; `X-MCP-Agent-Session` where it is left out.
    pub header_name: Text,
    /// Without effect.
    #[serde(rename = "max_lifetime")]
    #[schemars(with = "serde_json::Value")]
    _max_lifetime: WithoutEffect,
    /// Without effect.
    #[serde(rename = "idle_timeout")]
    #[schemars(with = "serde_json::Value")]
    _idle_timeout: WithoutEffect,
    /// The header of the gateway's credential; without one `Authorization`.
    pub upstream_token_header: Text,
    /// Where that credential is: `env:NAME` or `file:PATH`.
    pub upstream_token: Text,
}

/// What is known of a tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Tool {
    /// As it is called.
    pub name: String,
    /// Without effect.
    #[serde(default, rename = "description")]
    #[schemars(with = "serde_json::Value")]
    _description: WithoutEffect,
    /// The trust that a call needs; `low` where it is left out.
    #[serde(default, deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<Trust>")]
    pub required_trust: Option<Trust>,
    /// What a call does; a tool without it cannot be granted.
    #[serde(default, deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<SideEffect>")]
    pub side_effect: Option<SideEffect>,
    /// Without effect.
    #[serde(default, rename = "risk_level")]
    #[schemars(with = "serde_json::Value")]
    _risk_level: WithoutEffect,
    /// Without effect.
    #[serde(default, rename = "labels")]
    #[schemars(with = "serde_json::Value")]
    _labels: WithoutEffect,
    /// What is known of its calls.
    #[serde(default)]
    pub effect: Option<Effect>,
    /// Only `none`.
    #[serde(default, rename = "approval", deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<Approval>")]
    _approval: Option<Approval>,
}

/// Who may call which tools.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Grant {
    /// Unique with its namespace.
    pub name: String,
    /// Its namespace.
    #[serde(default)]
    pub namespace: Text,
    /// Must equal the caller's, if it is set.
    #[serde(default)]
    pub human_id: Text,
    /// Must equal the caller's, if it is set.
    #[serde(default)]
    pub agent_id: Text,
    /// Must equal the caller's, if it is set.
    #[serde(default)]
    pub team_id: Text,
    /// The most trust that it gives; `low` where it is left out.
    #[serde(default, deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<Trust>")]
    pub max_trust: Option<Trust>,
    /// An empty list allows nothing.
    #[serde(default, deserialize_with = "words::list")]
    #[schemars(schema_with = "words::list_schema::<SideEffect>")]
    pub allowed_side_effects: Vec<SideEffect>,
    /// Without effect.
    #[serde(default, rename = "policy_version")]
    #[schemars(with = "serde_json::Value")]
    _policy_version: WithoutEffect,
    /// Whether it is out of use.
    #[serde(default)]
    pub disabled: Option<bool>,
    /// Without rules it covers every tool.
    #[serde(default)]
    pub tool_rules: Option<Vec<ToolRule>>,
}

/// What a grant says of one tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolRule {
    /// The tool.
    pub name: String,
    /// `deny` wins over every other grant.
    #[serde(default, deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<RuleDecision>")]
    pub decision: Option<RuleDecision>,
    /// The trust that it asks for, beside the tool's own.
    #[serde(default, deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<Trust>")]
    pub required_trust: Option<Trust>,
}

/// A session binding; the sessions file holds the same.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SessionBinding")]
pub(super) struct Binding {
    /// What the session header says, or the certificate.
    pub name: String,
    /// In a server's document the server's, in the sessions file none, where it is left out.
    #[serde(default)]
    pub namespace: Text,
    /// Whose it is.
    #[serde(default)]
    pub human_id: Text,
    /// Whose it is.
    #[serde(default)]
    pub agent_id: Text,
    /// Whose it is.
    #[serde(default)]
    pub team_id: Text,
    /// The most trust that was consented to; `low` where it is left out.
    #[serde(default, deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<Trust>")]
    pub consented_trust: Option<Trust>,
    /// Whether it was ended by hand.
    #[serde(default)]
    pub revoked: Option<bool>,
    /// When it ends by itself (RFC 3339).
    #[serde(default)]
    pub expires_at: Expiry,
    /// Without effect.
    #[serde(default, rename = "policy_version")]
    #[schemars(with = "serde_json::Value")]
    _policy_version: WithoutEffect,
    /// Without effect.
    #[serde(default, rename = "upstream_token_ref")]
    #[schemars(with = "serde_json::Value")]
    _upstream_token_ref: WithoutEffect,
}

/// What keyed calls are promised.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Idempotency {
    /// `always` gives a call without a key one; `off` refuses keys.
    #[serde(deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<Keys>")]
    pub keys: Option<Keys>,
    /// `idt`: `idt_` and 32 lower-case hex digits.
    #[serde(deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<KeyFormat>")]
    pub format: Option<KeyFormat>,
    /// What makes a request under the same key the same call.
    #[serde(deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<Fingerprint>")]
    pub fingerprint: Option<Fingerprint>,
    /// What becomes of an event stream.
    #[serde(deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<Streams>")]
    pub streams: Option<Streams>,
    /// Whose the slots are.
    #[serde(deserialize_with = "words::optional")]
    #[schemars(schema_with = "words::optional_schema::<SlotScope>")]
    pub scope: Option<SlotScope>,
    /// Where in a body a key may stand, as JSON Pointers.
    pub key_pointers: Option<Vec<String>>,
}

fn no_kind(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["", null] })
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
