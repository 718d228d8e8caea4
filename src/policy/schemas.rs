//! JSON Schemas of the documents, for editors and pipelines, from the types that read them.
//!
//! A schema says less than a load: words stand in it as they are mostly written, and what one field
//! makes of another is left to `onceward check`.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::document::{Binding, Document};
use super::session::Wrapped;

/// Every schema (JSON Schema 2020-12) with the name of its file under `schemas/`.
pub fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        (
            "server.json",
            titled("Onceward: a server's policy", |generator| {
                generator.root_schema_for::<Document>()
            }),
        ),
        (
            "sessions.json",
            titled("Onceward: the sessions file", |generator| {
                let forms = [bare(generator), generator.subschema_for::<Wrapped>()];
                let mut schema = json_schema!({ "anyOf": forms });
                let definitions = generator.take_definitions(true);
                schema.insert("$defs".to_owned(), definitions.into());
                schema
            }),
        ),
    ]
}

fn bare(generator: &mut SchemaGenerator) -> Schema {
    Vec::<Binding>::json_schema(generator)
}

fn titled(title: &str, of: impl FnOnce(&mut SchemaGenerator) -> Schema) -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = of(&mut generator);
    schema.insert("$schema".to_owned(), generator.settings().meta_schema.as_deref().into());
    schema.insert("title".to_owned(), title.into());
    // That a field may be left out, `required` says already.
    RecursiveTransform(|schema: &mut Schema| {
        if schema.get("default").is_some_and(Value::is_null) {
            schema.remove("default");
        }
    })
    .transform(&mut schema);
    schema.to_value()
}
