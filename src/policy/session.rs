//! Session bindings: those of a policy document and those of the sessions file.

use std::collections::HashMap;
use std::path::Path;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;

use super::document;
use super::error::{Place, PolicyError};
use super::grant::Subjects;
use super::read::{self, Format};
use super::words::Trust;
use crate::identity::Principal;

/// The most bytes of a sessions file.
pub const MAX_SESSIONS_BYTES: usize = 8 * 1024 * 1024;
/// The most bindings in one file.
pub const MAX_SESSIONS: usize = 65_536;

/// A governed agent session that the policy knows (CONTRACT section 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// What the session header must say.
    pub name: String,
    /// Whom it belongs to.
    pub subjects: Subjects,
    /// The caller whom a certificate of this session stands for, which the subjects make; `None`
    /// where they make nobody.
    pub principal: Option<Principal>,
    /// The most trust that the session's humans consented to.
    pub consented_trust: Trust,
    /// Whether it was ended by hand.
    pub revoked: bool,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

impl Binding {
    fn from_document(binding: document::Binding) -> Self {
        let subjects = Subjects::new(binding.human_id, binding.agent_id, binding.team_id);
        Self {
            name: binding.name,
            principal: subjects.principal(),
            subjects,
            consented_trust: binding.consented_trust.unwrap_or_default(),
            revoked: binding.revoked.unwrap_or_default(),
            expires_at: binding.expires_at.0,
        }
    }
}

/// Bindings by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Bindings(HashMap<String, HashMap<String, Binding>>);

impl Bindings {
    /// Indexes the bindings; one without a namespace belongs to `namespace`. On failure, the place
    /// of the mistake in the list and what it is.
    pub(super) fn build(
        listed: Vec<document::Binding>,
        namespace: &str,
    ) -> Result<Self, (usize, &'static str)> {
        let mut bindings = Self::default();
        for (index, mut binding) in listed.into_iter().enumerate() {
            if binding.name.is_empty() {
                return Err((index, "must not be empty"));
            }
            let namespace = binding
                .namespace
                .take()
                .filter(|own| !own.is_empty())
                .unwrap_or_else(|| namespace.to_owned());
            let binding = Binding::from_document(binding);
            let space = bindings.0.entry(namespace).or_default();
            if space.insert(binding.name.clone(), binding).is_some() {
                return Err((index, "is already used by an earlier session of this namespace"));
            }
        }
        Ok(bindings)
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Binding> {
        self.0.get(namespace)?.get(name)
    }

    pub(super) fn len(&self) -> usize {
        self.0.values().map(HashMap::len).sum()
    }
}

/// The bindings of the sessions file, which win over the policy's of the same namespace and name
/// (CONTRACT section 9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionsFile(Bindings);

/// Both forms that the file may have.
struct Listed(Vec<document::Binding>);

/// The sessions file, with a name for its list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wrapped {
    /// Every binding.
    sessions: Vec<document::Binding>,
}

impl SessionsFile {
    /// Reads a file: JSON, either `{"sessions": [binding, …]}` or the bare array, each binding
    /// with the fields of a policy document's `sessions`. A binding without a namespace belongs to
    /// servers without one.
    ///
    /// # Errors
    ///
    /// An unreadable file, one above [`MAX_SESSIONS_BYTES`] or [`MAX_SESSIONS`], and whatever
    /// [`SessionsFile::parse`] refuses.
    pub fn load(file: &Path) -> Result<Self, PolicyError> {
        Self::parse(file, &read::file(file, MAX_SESSIONS_BYTES)?)
    }

    /// The same from bytes; `file` is named in errors.
    ///
    /// # Errors
    ///
    /// Invalid JSON, unknown fields, two bindings of one namespace and name.
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Self, PolicyError> {
        let Listed(listed) = Listed::parse(file, bytes)?;
        if listed.len() > MAX_SESSIONS {
            return Err(PolicyError::TooLarge {
                file: file.to_owned(),
                bound: "the number of sessions",
                limit: MAX_SESSIONS,
            });
        }
        Bindings::build(listed, "").map(Self).map_err(|(index, problem)| PolicyError::Document {
            file: file.to_owned(),
            place: Place { position: None, field: Some(format!("sessions[{index}].name")) },
            problem: problem.to_owned(),
        })
    }

    /// The binding of this namespace and name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Binding> {
        self.0.get(namespace, name)
    }

    /// How many bindings there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Listed {
    fn parse(file: &Path, bytes: &[u8]) -> Result<Self, PolicyError> {
        if bytes.trim_ascii_start().first() == Some(&b'[') {
            return read::parse(file, Format::Json, bytes).map(Self);
        }
        read::parse(file, Format::Json, bytes).map(|Wrapped { sessions }| Self(sessions))
    }
}
