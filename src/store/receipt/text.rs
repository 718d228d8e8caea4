//! What receipts share, and what is a number here and a text in JSON.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use crate::claim::{RequestHash, SlotKey};

/// A text that many receipts have: cloning shares. Thousands of receipts are kept, so that each text
/// of its own would be memory that no cache holds when it is written and when it is given back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shared(Arc<str>);

impl Deref for Shared {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<Arc<str>> for Shared {
    fn from(text: Arc<str>) -> Self {
        Self(text)
    }
}

impl From<&str> for Shared {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl Serialize for Shared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Shared {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Cow::<str>::deserialize(deserializer)?.into()))
    }
}

/// Reads what its `Display` writes.
pub(super) trait Text: Display + Sized {
    fn read(text: &str) -> Option<Self>;
}

impl Text for SlotKey {
    fn read(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

impl Text for RequestHash {
    fn read(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

pub(super) fn serialize<S: Serializer>(
    value: &impl Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>, T: Text>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    T::read(&text).ok_or_else(|| Error::custom("64 lower-case hex digits were expected"))
}

pub(super) fn list<S: Serializer>(
    values: &[impl Serialize],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values)
}
