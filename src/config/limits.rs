//! The `[limits]` table.

use std::time::Duration;

use super::entries::{Entries, Entry};
use super::error::{ConfigError, Place};
use super::values::or;
use crate::claim::limits::MAX_ENTRIES;
use crate::claim::{Limits, Millis};

/// The most bytes that a request's body and a stored reply may be allowed to have: 64 MiB.
pub const MAX_REQUEST_BYTES: u64 = 64 * 1024 * 1024;

pub(super) const DEFAULT_REQUEST_BYTES: usize = 1024 * 1024;

/// The limits of the store and of a request's body, in bytes.
pub(super) fn take(entries: &mut Entries) -> Result<(Limits, usize), ConfigError> {
    let mut places = Vec::new();
    let default = Limits::default();
    let ttl = or(entries, "limits.ttl", default.ttl, |entry| noted(&mut places, entry, millis))?;
    let mut cap =
        |key, default| or(entries, key, default, |entry| noted(&mut places, entry, count));
    let limits = Limits {
        ttl,
        entries: cap("limits.entries", default.entries)?,
        in_flight: cap("limits.in_flight", default.in_flight)?,
        principal_entries: cap("limits.principal_entries", default.principal_entries)?,
        principal_in_flight: cap("limits.principal_in_flight", default.principal_in_flight)?,
        scope_entries: cap("limits.scope_entries", default.scope_entries)?,
        scope_in_flight: cap("limits.scope_in_flight", default.scope_in_flight)?,
        scope_tombstones: cap("limits.scope_tombstones", default.scope_tombstones)?,
        // A reply is forgotten no later than the tombstone that would have stood in its place.
        tombstone_ttl: or(entries, "limits.tombstone_ttl", ttl, |entry| {
            noted(&mut places, entry, millis)
        })?,
        reply_bytes: or(entries, "limits.reply_bytes", default.reply_bytes, bytes)?,
    };
    let request_bytes = or(entries, "limits.request_bytes", DEFAULT_REQUEST_BYTES, bytes)?;
    limits.validate().map_err(|error| broken(&error.to_string(), &places, entries))?;
    Ok((limits, request_bytes))
}

type Places = Vec<(String, Place)>;

/// Reads a value and remembers where it was set, for the rules that span several.
fn noted<T>(
    places: &mut Places,
    entry: &Entry,
    read: impl FnOnce(&Entry) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    places.push((entry.key.clone(), entry.place.clone()));
    read(entry)
}

/// A rule of [`Limits::validate`] is broken, at the last of the settings that its message names.
fn broken(problem: &str, places: &Places, entries: &Entries) -> ConfigError {
    let named = |(key, _): &&(String, Place)| {
        key.strip_prefix("limits.").is_some_and(|key| problem.contains(&format!("`{key}`")))
    };
    let place = places.iter().rev().find(named).map(|(_, place)| place.clone());
    ConfigError::Limits {
        place: place.unwrap_or_else(|| entries.place()),
        problem: problem.to_owned(),
    }
}

fn millis(entry: &Entry) -> Result<Millis, ConfigError> {
    let length: Duration = entry.duration()?;
    u64::try_from(length.as_millis()).map(Millis).map_err(|_| entry.wrong("is too long"))
}

fn count(entry: &Entry) -> Result<u32, ConfigError> {
    u32::try_from(entry.count(1, u64::from(MAX_ENTRIES))?).map_err(|_| entry.wrong("is too large"))
}

fn bytes(entry: &Entry) -> Result<usize, ConfigError> {
    entry.size(1, MAX_REQUEST_BYTES)
}
