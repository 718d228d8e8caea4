//! Typed readers: a setting becomes a value, or an error with its place.

use std::net::SocketAddr;
use std::time::Duration;

use super::entries::{Entries, Entry, Raw};
use super::error::ConfigError;
use crate::policy::duration;

/// The longest duration that can be set: thirty days.
pub const MAX_DURATION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The most elements of a list, and the most bytes of one text.
const MAX_LIST: usize = 256;
const MAX_TEXT: usize = 4096;

impl Entry {
    /// A text that is not empty.
    pub(super) fn text(&self) -> Result<&str, ConfigError> {
        match &self.raw {
            Raw::Text(text) | Raw::Variable(text) => self.bounded(text),
            _ => Err(self.wrong("must be a text")),
        }
    }

    fn bounded<'e>(&self, text: &'e str) -> Result<&'e str, ConfigError> {
        match text.len() {
            0 => Err(self.wrong("must not be empty")),
            1..=MAX_TEXT => Ok(text),
            _ => Err(self.wrong(format!("must have at most {MAX_TEXT} bytes"))),
        }
    }

    /// A list of texts; a variable separates them by commas.
    pub(super) fn list(&self) -> Result<Vec<String>, ConfigError> {
        let texts: Vec<&str> = match &self.raw {
            Raw::Variable(text) if text.is_empty() => Vec::new(),
            Raw::Variable(text) => text.split(',').map(str::trim).collect(),
            Raw::List(list) => list
                .iter()
                .map(|one| match one {
                    Raw::Text(text) => Ok(text.as_str()),
                    _ => Err(self.wrong("must be a list of texts")),
                })
                .collect::<Result<_, _>>()?,
            _ => return Err(self.wrong("must be a list of texts")),
        };
        if texts.len() > MAX_LIST {
            return Err(self.wrong(format!("must list at most {MAX_LIST} texts")));
        }
        texts.into_iter().map(|text| self.bounded(text).map(str::to_owned)).collect()
    }

    /// A whole number from `least` to `most`.
    pub(super) fn count(&self, least: u64, most: u64) -> Result<u64, ConfigError> {
        let number = match &self.raw {
            Raw::Integer(digits, radix) => u64::from_str_radix(digits, *radix).ok(),
            Raw::Variable(text) => text.parse().ok(),
            _ => None,
        };
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| self.wrong(format!("must be a whole number from {least} to {most}")))
    }

    /// A whole number from `least` to `most` that counts things in memory.
    pub(super) fn size(&self, least: u64, most: u64) -> Result<usize, ConfigError> {
        usize::try_from(self.count(least, most)?).map_err(|_| self.wrong("is too large"))
    }

    /// A duration of at least a millisecond and at most [`MAX_DURATION`].
    pub(super) fn duration(&self) -> Result<Duration, ConfigError> {
        let parsed = match &self.raw {
            Raw::Text(text) | Raw::Variable(text) => duration(text),
            _ => None,
        };
        parsed.filter(|length| !length.is_zero() && *length <= MAX_DURATION).ok_or_else(|| {
            self.wrong("must be a duration such as \"500ms\", \"5s\", \"2m\", at most 30 days")
        })
    }

    /// An IP address and a port.
    pub(super) fn address(&self) -> Result<SocketAddr, ConfigError> {
        self.text()?
            .parse()
            .map_err(|_| self.wrong("must be an IP address and a port such as \"127.0.0.1:8080\""))
    }
}

/// The typed value of a setting, or its default.
pub(super) fn or<T>(
    entries: &mut Entries,
    key: &str,
    default: T,
    read: impl FnOnce(&Entry) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    entries.take(key).map_or(Ok(default), |entry| read(&entry))
}
