//! What is a number here and a text in JSON.

use std::borrow::Cow;
use std::fmt::Display;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;

use crate::claim::{RequestHash, SlotKey};

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
