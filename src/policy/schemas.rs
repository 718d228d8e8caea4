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
use super::{capability, connector, workspace};

/// Every schema (JSON Schema 2020-12) with the name of its file under `schemas/`.
pub fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("server.json", of::<Document>("a server's policy")),
        ("connector.json", of::<connector::fields::Connector>("a connector")),
        ("workspace.json", of::<workspace::fields::Workspace>("a workspace")),
        ("capability.json", of::<capability::Fields>("a capability")),
        ("sessions.json", sessions()),
    ]
}

fn of<T: JsonSchema>(what: &str) -> Value {
    let mut generator = generator();
    let schema = generator.root_schema_for::<T>();
    finished(schema, what)
}

/// Both forms of the file.
fn sessions() -> Value {
    let mut generator = generator();
    let forms = [Vec::<Binding>::json_schema(&mut generator), generator.subschema_for::<Wrapped>()];
    let mut schema = json_schema!({ "anyOf": forms });
    schema.insert("$schema".to_owned(), generator.settings().meta_schema.as_deref().into());
    schema.insert("$defs".to_owned(), generator.take_definitions(true).into());
    finished(schema, "the sessions file")
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().into_generator()
}

fn finished(mut schema: Schema, what: &str) -> Value {
    schema.insert("title".to_owned(), format!("Onceward: {what}").into());
    // That a field may be left out, `required` says already.
    let mut without_null = RecursiveTransform(|schema: &mut Schema| {
        if schema.get("default").is_some_and(Value::is_null) {
            schema.remove("default");
        }
    });
    without_null.transform(&mut schema);
    schema.to_value()
}
