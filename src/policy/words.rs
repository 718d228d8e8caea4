//! The closed vocabularies of a policy document, each read once at the edge.
//!
//! Case does not matter, as on the platform whose documents load here. An empty text is an absent
//! one. A word of the contract whose behaviour this build does not have is refused by name.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value;

use crate::claim::{Fingerprint, KeyFormat};

/// A closed vocabulary.
pub(super) trait Word: Copy + 'static {
    /// Every word with its meaning.
    const WORDS: &'static [(&'static str, Self)];
    /// Words of the contract that this build does not have, each with what to do instead.
    const UNSUPPORTED: &'static [(&'static str, &'static str)] = &[];
}

/// How far a caller is trusted, or must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Trust {
    /// The default everywhere.
    #[default]
    Low,
    /// Above low, below high.
    Medium,
    /// The most.
    High,
}

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideEffect {
    /// Changes nothing.
    Read,
    /// Changes something.
    Write,
    /// Changes something that cannot be brought back.
    Destructive,
}

/// Whether a server's policy is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Grants decide.
    #[default]
    AllowList,
    /// Everything is allowed.
    Observe,
}

/// What happens to a call that no grant speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DefaultDecision {
    /// It is allowed.
    Allow,
    /// It is refused.
    #[default]
    Deny,
}

/// What a tool rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RuleDecision {
    /// The tool is granted.
    #[default]
    Allow,
    /// The tool is refused, whatever other grants say.
    Deny,
}

/// Whether a server takes idempotency keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keys {
    /// A call may carry one.
    #[default]
    Optional,
    /// A call without one is given one.
    Always,
    /// A key is refused.
    Off,
}

/// What becomes of an event stream that answers a keyed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Streams {
    /// A tombstone: the reply is not kept.
    #[default]
    Tombstone,
    /// It is recorded and replayed.
    Record,
}

/// What makes a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlotScope {
    /// Principal and session.
    #[default]
    Session,
    /// Workspace and connection.
    Workspace,
}

/// How callers are authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuthMode {
    /// By a bearer token.
    ApiKey,
    /// By an access token of an OAuth issuer.
    OAuth,
    /// By a client certificate.
    Mtls,
    /// One configured principal.
    Static,
    /// By unverified headers. The default, as on the platform.
    #[default]
    Header,
    /// Not at all.
    None,
}

/// Whether a tool's calls wait for an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Approval {
    /// They do not.
    #[default]
    None,
}

impl Word for Trust {
    const WORDS: &'static [(&'static str, Self)] =
        &[("low", Self::Low), ("medium", Self::Medium), ("high", Self::High)];
}

impl Word for SideEffect {
    const WORDS: &'static [(&'static str, Self)] =
        &[("read", Self::Read), ("write", Self::Write), ("destructive", Self::Destructive)];
}

impl Word for Mode {
    const WORDS: &'static [(&'static str, Self)] =
        &[("allow-list", Self::AllowList), ("observe", Self::Observe)];
}

impl Word for DefaultDecision {
    const WORDS: &'static [(&'static str, Self)] = &[("allow", Self::Allow), ("deny", Self::Deny)];
}

impl Word for RuleDecision {
    const WORDS: &'static [(&'static str, Self)] = &[("allow", Self::Allow), ("deny", Self::Deny)];
}

impl Word for Keys {
    const WORDS: &'static [(&'static str, Self)] =
        &[("optional", Self::Optional), ("always", Self::Always), ("off", Self::Off)];
}

impl Word for Streams {
    const WORDS: &'static [(&'static str, Self)] =
        &[("tombstone", Self::Tombstone), ("record", Self::Record)];
}

impl Word for SlotScope {
    const WORDS: &'static [(&'static str, Self)] =
        &[("session", Self::Session), ("workspace", Self::Workspace)];
}

impl Word for AuthMode {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("api_key", Self::ApiKey),
        ("oauth", Self::OAuth),
        ("mtls", Self::Mtls),
        ("static", Self::Static),
        ("header", Self::Header),
        ("none", Self::None),
    ];
}

impl Word for Approval {
    const WORDS: &'static [(&'static str, Self)] = &[("none", Self::None)];
    const UNSUPPORTED: &'static [(&'static str, &'static str)] = &[(
        "required",
        "deny the tool in every grant's `tool_rules` until approvals are available, or leave the \
         field out if the calls need none",
    )];
}

/// Reads one word.
pub(super) fn parse<W: Word>(text: &str) -> Result<W, String> {
    let same = |word: &str| word.eq_ignore_ascii_case(text);
    if let Some((_, meaning)) = W::WORDS.iter().find(|(word, _)| same(word)) {
        return Ok(*meaning);
    }
    if let Some((word, instead)) = W::UNSUPPORTED.iter().find(|(word, _)| same(word)) {
        return Err(format!("`{word}` is not supported by this build: {instead}"));
    }
    let known: Vec<String> = W::WORDS.iter().map(|(word, _)| format!("`{word}`")).collect();
    Err(format!("must be {}", known.join(" or ")))
}

/// For `#[serde(deserialize_with)]`: a word, where null and the empty text are absent.
pub(super) fn optional<'de, D: Deserializer<'de>, W: Word>(from: D) -> Result<Option<W>, D::Error> {
    match Option::<String>::deserialize(from)?.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => parse(text).map(Some).map_err(D::Error::custom),
    }
}

/// The same for a list; an empty word in it means nothing and is an error.
pub(super) fn list<'de, D: Deserializer<'de>, W: Word>(from: D) -> Result<Vec<W>, D::Error> {
    let texts = Option::<Vec<String>>::deserialize(from)?.unwrap_or_default();
    texts.iter().map(|text| parse(text).map_err(D::Error::custom)).collect()
}

/// The schema of [`optional`]: the words as they are mostly written.
pub(super) fn optional_schema<W: Word>(_: &mut SchemaGenerator) -> Schema {
    let nothing = [Value::from(""), Value::Null];
    let words: Vec<Value> = names::<W>().chain(nothing).collect();
    json_schema!({ "enum": words })
}

/// The schema of [`list`].
pub(super) fn list_schema<W: Word>(_: &mut SchemaGenerator) -> Schema {
    let words: Vec<Value> = names::<W>().collect();
    json_schema!({ "type": ["array", "null"], "items": { "enum": words } })
}

fn names<W: Word>() -> impl Iterator<Item = Value> {
    W::WORDS.iter().map(|(word, _)| Value::from(*word))
}

impl Word for KeyFormat {
    const WORDS: &'static [(&'static str, Self)] = &[("any", Self::Any), ("idt", Self::Idt)];
}

impl Word for Fingerprint {
    const WORDS: &'static [(&'static str, Self)] =
        &[("request", Self::Request), ("call", Self::Call)];
}
