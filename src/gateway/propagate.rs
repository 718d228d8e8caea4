//! What the gateway writes into the body of a call: the key where the tool's upstream looks for it,
//! and the switch of a broker's own retries (EFFECTS sections 2 and 5).
//!
//! Every other byte keeps its meaning, numbers their digits. What is hashed is what the client sent.

use std::borrow::Cow;

use actix_web::web::Bytes;

use super::error::Refusal;
use super::message::Message;
use crate::claim::json::{JsonText, PutError, put};
use crate::claim::{Document, Key, Pointer};
use crate::policy::{KeyBinding, RetriesOff};

/// The body to send for a client's body.
///
/// # Errors
///
/// 400 where something stands in the way of the key or the switch.
pub fn body(
    sent: &Bytes,
    call: Option<&Message<'_, '_>>,
    key: Option<(&KeyBinding, &Key)>,
    switch: Option<&RetriesOff>,
) -> Result<Bytes, Refusal> {
    let Some(message) = call else { return Ok(sent.clone()) };
    let keyed = match key {
        Some((KeyBinding::Body(pointer), key)) => {
            let text = JsonText::string(key.as_str());
            put(message.root(), pointer, &text).map_err(|error| key_in_the_way(pointer, error))?
        }
        _ => Cow::Borrowed(&sent[..]),
    };
    let Some(RetriesOff::Body(pointer, text)) = switch else { return Ok(owned(sent, keyed)) };
    let text = JsonText::parse(text.as_bytes()).map_err(|error| Refusal::parse_error(&error))?;
    let document = Document::parse(&keyed).map_err(|error| Refusal::parse_error(&error))?;
    let switched = put(document.root(), pointer, &text).map_err(|error| {
        Refusal::invalid_params_because(format!(
            "The gateway sets {pointer} on every call of this server, and {error}."
        ))
    })?;
    Ok(match switched {
        Cow::Owned(switched) => switched.into(),
        Cow::Borrowed(_) => owned(sent, keyed.clone()),
    })
}

/// The body of a native tool's request with the key in it.
///
/// # Errors
///
/// 400 where something stands in the way of the key.
pub fn into_json(body: Bytes, pointer: &Pointer, key: &Key) -> Result<Bytes, Refusal> {
    let document = Document::parse(&body).map_err(|error| Refusal::parse_error(&error))?;
    let text = JsonText::string(key.as_str());
    let keyed = put(document.root(), pointer, &text);
    Ok(owned(&body, keyed.map_err(|error| key_in_the_way(pointer, error))?))
}

fn key_in_the_way(pointer: &Pointer, error: PutError) -> Refusal {
    Refusal::key_invalid_because(format!(
        "The key of this tool is written to {pointer} of the request, and {error}."
    ))
}

/// Without a copy where nothing was written.
fn owned(sent: &Bytes, body: Cow<'_, [u8]>) -> Bytes {
    match body {
        Cow::Borrowed(_) => sent.clone(),
        Cow::Owned(body) => body.into(),
    }
}
