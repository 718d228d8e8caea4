//! Key sources: from a request to its idempotency key, if it has one (CONTRACT section 3).

use actix_web::http::header::{HeaderMap, HeaderName};

use super::error::Refusal;
use super::message::Message;
use crate::claim::{Key, KeyFormat, Value};
use crate::policy::{IdempotencyRules, Keys};

/// The header that carries a key.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Whether a key is present in any source, readable or not. Pointers are read in `tools/call`
/// only.
pub fn is_present(
    headers: &HeaderMap,
    rules: &IdempotencyRules,
    message: Option<&Message<'_, '_>>,
) -> bool {
    headers.contains_key(&IDEMPOTENCY_KEY)
        || message.is_some_and(|message| in_body(rules, message).next().is_some())
}

/// The call's key, or `None` where no source has one.
///
/// # Errors
///
/// A key that cannot be read, sources that disagree, and a key on a request or a server that
/// takes none: each is an error, never "no key".
pub fn read(
    headers: &HeaderMap,
    rules: &IdempotencyRules,
    message: Option<&Message<'_, '_>>,
) -> Result<Option<Key>, Refusal> {
    let mut key = from_header(headers, rules.format)?;
    for value in message.into_iter().flat_map(|message| in_body(rules, message)) {
        let found = from_value(value, rules.format)?;
        match &key {
            Some(key) if key.as_str() != found.as_str() => {
                return Err(Refusal::key_invalid_because(
                    "The request names two different idempotency keys; send one.",
                ));
            }
            _ => key = Some(found),
        }
    }
    let takes_keys =
        rules.keys != Keys::Off && message.is_some_and(|message| message.call().is_some());
    match (&key, takes_keys) {
        (Some(_), false) => Err(Refusal::key_unsupported()),
        _ => Ok(key),
    }
}

/// A key for a call that has none, on a server with `keys: always`: the operating system's random
/// numbers.
///
/// # Errors
///
/// 503 where the system gives none.
pub fn mint() -> Result<Key, Refusal> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| {
        tracing::error!(%error, "the system gives no random numbers");
        Refusal::key_unavailable(
            "The gateway cannot make a key for this call now; nothing was executed, send it again.",
        )
    })?;
    Ok(Key::minted(random))
}

/// The key of the header alone: what can be judged before the body has been read.
///
/// # Errors
///
/// A value that is no key, and more than one line even where they agree.
pub fn from_header(headers: &HeaderMap, format: KeyFormat) -> Result<Option<Key>, Refusal> {
    let mut values = headers.get_all(&IDEMPOTENCY_KEY);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::key_invalid_because(
            "The Idempotency-Key header appears twice; send it once.",
        ));
    }
    Key::parse(value.as_bytes(), format).map(Some).map_err(|error| Refusal::key_invalid(&error))
}

fn in_body<'r, 'd, 'a>(
    rules: &'r IdempotencyRules,
    message: &'r Message<'d, 'a>,
) -> impl Iterator<Item = Value<'d, 'a>> + 'r {
    let reads_body = rules.keys != Keys::Off && message.call().is_some();
    let pointers = if reads_body { rules.key_pointers.as_slice() } else { &[] };
    pointers.iter().filter_map(|pointer| pointer.resolve(message.root()))
}

fn from_value(value: Value<'_, '_>, format: KeyFormat) -> Result<Key, Refusal> {
    let text = value.as_str().ok_or_else(|| {
        Refusal::key_invalid_because("The idempotency key in the body must be a string.")
    })?;
    Key::parse(text.as_bytes(), format).map_err(|error| Refusal::key_invalid(&error))
}
