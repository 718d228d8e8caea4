//! The settings as they are written: a TOML text with environment variables over it, each setting
//! with its place. Typed readers take them out; what is left over is unknown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Place};
use super::observe::Standard;

/// What every variable of this program starts with.
const PREFIX: &str = "ONCEWARD_";

/// The most bytes of a configuration.
pub(super) const MAX_CONFIG_BYTES: usize = 1024 * 1024;

/// A setting's value before its type is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Raw {
    Text(String),
    /// Digits in the base, of a TOML integer.
    Integer(String, u32),
    List(Vec<Raw>),
    /// A TOML value that no setting has.
    Other,
    /// The text of an environment variable, which can stand for any of them.
    Variable(String),
}

/// A setting that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) raw: Raw,
}

impl Entry {
    pub(super) fn wrong(&self, problem: impl Into<String>) -> ConfigError {
        ConfigError::Value {
            place: self.place.clone(),
            key: self.key.clone(),
            problem: problem.into(),
        }
    }
}

/// Every setting that was found, by `table.key`.
#[derive(Debug)]
pub(super) struct Entries {
    file: PathBuf,
    found: BTreeMap<String, Entry>,
}

impl Entries {
    /// Reads the text and puts the variables `ONCEWARD_TABLE__KEY` over it. Variables without two
    /// underscores after the prefix are not ours to judge and are left alone. The standard variables
    /// of OpenTelemetry name a trace collector where nothing of ours does.
    pub(super) fn read(
        text: &str,
        file: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut entries = Self::from_toml(text, file)?;
        let mut standard = Standard::default();
        for (name, value) in environment {
            let Some((table, key)) =
                name.strip_prefix(PREFIX).and_then(|setting| setting.split_once("__"))
            else {
                standard.notice(&name, &value);
                continue;
            };
            let key = format!("{table}.{}", key.replace("__", ".")).to_ascii_lowercase();
            entries.insert(key, Place::Variable(name), Raw::Variable(value));
        }
        if let Some((name, url)) = standard.endpoint()
            && !entries.found.contains_key("traces.endpoint")
        {
            let place = Place::Variable(name.to_owned());
            entries.insert("traces.endpoint".to_owned(), place, Raw::Variable(url));
        }
        Ok(entries)
    }

    fn from_toml(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let line = |at: usize| Place::Line(file.to_owned(), line(text, at));
        let document = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            place: error
                .span()
                .map_or_else(|| Place::File(file.to_owned()), |span| line(span.start)),
            problem: error.message().to_owned(),
        })?;
        let mut entries = Self { file: file.to_owned(), found: BTreeMap::new() };
        for (table, settings) in document.into_inner() {
            let place = line(table.span().start);
            let DeValue::Table(settings) = settings.into_inner() else {
                return Err(ConfigError::Unknown { place, key: table.into_inner().into_owned() });
            };
            // A table with nothing in it must be a known one all the same.
            if settings.is_empty() && !super::TABLES.contains(&table.get_ref().as_ref()) {
                return Err(ConfigError::Unknown { place, key: table.into_inner().into_owned() });
            }
            for (key, value) in settings {
                let place = line(key.span().start);
                let key = format!("{}.{}", table.get_ref(), key.get_ref());
                match value.into_inner() {
                    DeValue::Table(inner)
                        if super::TABLES.contains(&key.as_str()) && !inner.is_empty() =>
                    {
                        for (name, value) in inner {
                            let place = line(name.span().start);
                            let name = format!("{key}.{}", name.get_ref());
                            entries.insert(name, place, Raw::from_toml(value.into_inner()));
                        }
                    }
                    value => entries.insert(key, place, Raw::from_toml(value)),
                }
            }
        }
        Ok(entries)
    }

    fn insert(&mut self, key: String, place: Place, raw: Raw) {
        self.found.insert(key.clone(), Entry { key, place, raw });
    }

    /// The file that settings are missing from.
    pub(super) fn place(&self) -> Place {
        Place::File(self.file.clone())
    }

    /// Takes a setting out.
    pub(super) fn take(&mut self, key: &str) -> Option<Entry> {
        self.found.remove(key)
    }

    /// Once everything known was taken: the first setting left over is an error.
    pub(super) fn finish(self) -> Result<(), ConfigError> {
        match self.found.into_values().next() {
            Some(Entry { key, place, .. }) => Err(ConfigError::Unknown { place, key }),
            None => Ok(()),
        }
    }
}

impl Raw {
    fn from_toml(value: DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.into_owned()),
            DeValue::Integer(digits) => Self::Integer(digits.as_str().to_owned(), digits.radix()),
            DeValue::Array(list) => {
                Self::List(list.into_iter().map(|one| Self::from_toml(one.into_inner())).collect())
            }
            DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Table(_) => {
                Self::Other
            }
        }
    }
}

/// The line, from 1, of a byte of the text.
fn line(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}
