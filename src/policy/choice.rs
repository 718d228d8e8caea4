//! A field that is either a word or a table.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// What stands there.
#[derive(Debug)]
pub(super) enum Choice<T> {
    /// A word, its letters as they were written.
    Word(String),
    /// A table.
    Table(T),
}

/// A table in whose place a word may stand.
pub(super) trait OrWord {
    /// The schema of the word.
    fn word() -> Schema;
}

impl<T: JsonSchema + OrWord> JsonSchema for Choice<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [T::word(), generator.subschema_for::<T>()] })
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Choice<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Either(PhantomData))
    }
}

struct Either<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
    type Value = Choice<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word or a table")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Choice<T>, E> {
        Ok(Choice::Word(word.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Choice<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(table)).map(Choice::Table)
    }
}

/// The only member of a table that is set, or what to write instead.
pub(super) fn only<T>(
    members: impl IntoIterator<Item = Option<T>>,
    form: &str,
) -> Result<T, String> {
    let mut set = members.into_iter().flatten();
    match (set.next(), set.next()) {
        (Some(member), None) => Ok(member),
        _ => Err(format!("must be {form}")),
    }
}
