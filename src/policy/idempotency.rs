//! The `idempotency` table of a document.

use super::auth::Auth;
use super::build::{Mistake, at};
use super::document;
use super::server::{IdempotencyRules, MAX_KEY_POINTERS};
use super::words::{Keys, SlotScope};
use crate::claim::{KeyFormat, Pointer};

const KEYS: &str = "idempotency.keys";
const FORMAT: &str = "idempotency.format";

/// Reads it; without `auth`, which has a mistake of its own, what depends on the mode is not judged.
///
/// # Errors
///
/// What contradicts itself, and [`MAX_KEY_POINTERS`].
pub(super) fn build(
    rules: document::Idempotency,
    auth: Option<&Auth>,
) -> Result<IdempotencyRules, Mistake> {
    let scope = rules.scope.unwrap_or_default();
    let keys = keys(rules.keys, scope)?;
    if let Some(auth) = auth {
        suits(keys, auth)?;
    }
    Ok(IdempotencyRules {
        keys,
        scope,
        format: format(rules.format, keys, scope)?,
        fingerprint: rules.fingerprint.unwrap_or_default(),
        streams: rules.streams.unwrap_or_default(),
        key_pointers: key_pointers(rules.key_pointers.unwrap_or_default(), keys)?,
    })
}

/// Whether every caller can be given a key, where every call needs one.
fn suits(keys: Keys, auth: &Auth) -> Result<(), Mistake> {
    if keys != Keys::Always || auth.verifies() {
        return Ok(());
    }
    let problem = format!(
        "`always` gives every call a key, and only a verified caller can have one: auth mode `{}` \
         verifies nobody, use `api_key`, `oauth`, `mtls` or `static`",
        auth.mode()
    );
    Err(at(KEYS, &problem))
}

fn keys(keys: Option<Keys>, scope: SlotScope) -> Result<Keys, Mistake> {
    match (scope, keys) {
        (SlotScope::Session, keys) => Ok(keys.unwrap_or_default()),
        (SlotScope::Workspace, None | Some(Keys::Always)) => Ok(Keys::Always),
        (SlotScope::Workspace, Some(Keys::Optional | Keys::Off)) => Err(at(
            KEYS,
            "must be `always` with `scope: workspace`, or be left out: its effects are those of an \
             account that many callers share",
        )),
    }
}

fn format(format: Option<KeyFormat>, keys: Keys, scope: SlotScope) -> Result<KeyFormat, Mistake> {
    match (scope, format) {
        (SlotScope::Workspace, Some(KeyFormat::Any)) => Err(at(
            FORMAT,
            "must be `idt` with `scope: workspace`, or be left out: a workspace's keys reach its \
             vendors as they are",
        )),
        (_, Some(format)) => Ok(format),
        (_, None) if keys == Keys::Always => Ok(KeyFormat::Idt),
        (_, None) => Ok(KeyFormat::default()),
    }
}

fn key_pointers(listed: Vec<String>, keys: Keys) -> Result<Vec<Pointer>, Mistake> {
    const FIELD: &str = "idempotency.key_pointers";
    if listed.len() > MAX_KEY_POINTERS {
        return Err(at(FIELD, &format!("must list at most {MAX_KEY_POINTERS} pointers")));
    }
    if keys == Keys::Off && !listed.is_empty() {
        return Err(at(FIELD, "has no effect with `keys: off`: leave one of the two out"));
    }
    let mut pointers = Vec::with_capacity(listed.len());
    for (index, text) in listed.iter().enumerate() {
        let wrong = |problem: &str| at(&format!("{FIELD}[{index}]"), problem);
        let pointer = Pointer::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if text.is_empty() {
            return Err(wrong("must point into the body, which is never a key as a whole"));
        }
        if pointers.contains(&pointer) {
            return Err(wrong("is listed twice"));
        }
        pointers.push(pointer);
    }
    Ok(pointers)
}
