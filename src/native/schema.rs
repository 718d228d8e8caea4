//! What a tool's arguments must be: JSON Schema, draft 2020-12 where the schema names no other.

use std::fmt;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};

use crate::claim::{Document, Kind, Value};

/// The most bytes of a schema.
pub const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// The most bytes that one `pattern` may take once it is compiled.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;
/// The most bytes of a path or a reason in an [`ArgumentError`].
const MAX_TOLD: usize = 300;

/// A JSON Schema of arguments, ready to judge. It never looks outside of itself: a reference to
/// another document is an error of its load. Its patterns are matched in linear time.
#[derive(Clone)]
pub struct InputSchema {
    text: Arc<str>,
    properties: Arc<[Box<str>]>,
    validator: Arc<Validator>,
}

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// More than [`MAX_SCHEMA_BYTES`].
    #[error("has more than {MAX_SCHEMA_BYTES} bytes")]
    TooLong,
    /// A tool's arguments are always an object (MCP, `Tool.inputSchema`).
    #[error("must be an object with `type: object`, as a tool's arguments are one")]
    NotAnObject,
    /// The draft's own rules are broken, a pattern needs more than linear time, or a reference
    /// leads out of the schema.
    #[error("is no JSON Schema that can be used: {0}")]
    Invalid(String),
}

/// Which argument is wrong and what is asked of it; never its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ArgumentError {
    /// A JSON Pointer into the arguments, or `arguments` for all of them.
    pub place: String,
    /// What the schema says.
    pub problem: String,
}

impl InputSchema {
    /// Reads and compiles a schema, given as JSON text.
    ///
    /// # Errors
    ///
    /// [`SchemaError`].
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        if text.len() > MAX_SCHEMA_BYTES {
            return Err(SchemaError::TooLong);
        }
        let invalid = |problem: &dyn fmt::Display| SchemaError::Invalid(problem.to_string());
        let document = Document::parse(text.as_bytes()).map_err(|error| invalid(&error))?;
        let root = document.root();
        if root.get("type").and_then(Value::as_str).as_deref() != Some("object") {
            return Err(SchemaError::NotAnObject);
        }
        let schema = serde_json::from_str(root.raw()).map_err(|error| invalid(&error))?;
        let patterns = PatternOptions::regex().size_limit(MAX_PATTERN_BYTES);
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(patterns)
            .build(&schema)
            .map_err(|error| invalid(&error))?;
        let properties = root.get("properties").map(names).unwrap_or_default();
        Ok(Self {
            text: root.raw().into(),
            properties: properties.into(),
            validator: Arc::new(validator),
        })
    }

    /// The schema as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether its `properties` list this name.
    pub fn lists(&self, name: &str) -> bool {
        self.properties.iter().any(|property| **property == *name)
    }

    /// Whether arguments are what the schema asks for; absent ones are an empty object.
    ///
    /// # Errors
    ///
    /// The first [`ArgumentError`]. A number beyond the range of a double is one too, as the draft
    /// cannot be applied to it.
    pub fn check(&self, arguments: Option<Value<'_, '_>>) -> Result<(), ArgumentError> {
        let text = arguments.map_or("{}", Value::raw);
        let value: serde_json::Value = serde_json::from_str(text).map_err(|_| ArgumentError {
            place: "arguments".to_owned(),
            problem: "a number is beyond the range of a double, or they are nested too deep".into(),
        })?;
        self.validator.validate(&value).map_err(|error| ArgumentError::of(&error))
    }
}

impl ArgumentError {
    fn of(error: &ValidationError<'_>) -> Self {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { "arguments".to_owned() } else { shortened(place) };
        let problem = match error.kind() {
            ValidationErrorKind::PropertyNames { error } => {
                format!("a member's name: {}", error.masked_with("it"))
            }
            _ => error.masked_with("the value").to_string(),
        };
        Self { place, problem: shortened(problem) }
    }
}

/// The same schema is the same text.
impl PartialEq for InputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for InputSchema {}

impl fmt::Debug for InputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputSchema").field("properties", &self.properties).finish_non_exhaustive()
    }
}

fn names(properties: Value<'_, '_>) -> Vec<Box<str>> {
    match properties.kind() {
        Kind::Object => properties.members().map(|(name, _)| name.into()).collect(),
        _ => Vec::new(),
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_TOLD {
        let end = (0..=MAX_TOLD).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHARGE: &str = r##"{
        "type": "object",
        "properties": {
            "amount": {"type": "integer", "minimum": 1, "maximum": 1000},
            "currency": {"enum": ["eur", "usd"]},
            "note": {"type": "string", "maxLength": 5, "pattern": "^[a-z]*$"},
            "items": {"type": "array", "items": {"$ref": "#/$defs/item"}}
        },
        "$defs": {"item": {"type": "object", "required": ["sku"]}},
        "required": ["amount"],
        "additionalProperties": false
    }"##;

    fn judged(schema: &str, arguments: Option<&str>) -> Result<(), String> {
        let schema = InputSchema::parse(schema).expect("a schema");
        let document = arguments.map(|text| Document::parse(text.as_bytes()).expect("JSON"));
        schema.check(document.as_ref().map(Document::root)).map_err(|error| error.to_string())
    }

    #[test]
    fn an_argument_that_does_not_fit_is_named_and_its_value_is_not() {
        let refused = [
            (r#"{"amount":"s3cr3t"}"#, "/amount", "integer"),
            (r#"{"amount":4242}"#, "/amount", "1000"),
            (r#"{"amount":1,"currency":"s3cr3t"}"#, "/currency", "eur"),
            (r#"{"amount":1,"note":"s3cr3t"}"#, "/note", "5"),
            (r#"{"amount":1,"note":"4242"}"#, "/note", "[a-z]"),
            (r#"{"amount":1,"items":[{"sku":1},{"s":"s3cr3t"}]}"#, "/items/1", "sku"),
            (r#"{"amount":1,"other":"s3cr3t"}"#, "arguments", "other"),
            (r#"["s3cr3t"]"#, "arguments", "object"),
            (r#"{"amount":4242e999}"#, "arguments", "range"),
            ("{}", "arguments", "amount"),
        ];
        for (arguments, place, expected) in refused {
            let error = judged(CHARGE, Some(arguments)).expect_err(arguments);
            assert!(error.starts_with(&format!("{place}: ")), "{arguments}: {error}");
            assert!(error.contains(expected), "{arguments}: {error}");
            assert!(!error.contains("s3cr3t") && !error.contains("4242"), "{error}");
        }
        assert!(judged(CHARGE, None).is_err(), "absent arguments are an empty object");
    }

    #[test]
    fn what_fits_passes() {
        assert_eq!(judged(CHARGE, Some(r#"{"amount":7,"currency":"eur","items":[]}"#)), Ok(()));
        assert_eq!(judged(CHARGE, Some(r#"{"amount":7.0}"#)), Ok(()), "an integer of the draft");
        assert_eq!(judged(r#"{"type":"object"}"#, None), Ok(()));
        let big = r#"{"n":18446744073709551617}"#;
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#;
        assert_eq!(judged(schema, Some(big)), Ok(()));
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_refused() {
        let long = format!(r#"{{"type":"object","title":"{}"}}"#, "x".repeat(MAX_SCHEMA_BYTES));
        assert_eq!(InputSchema::parse(&long), Err(SchemaError::TooLong));
        for text in ["{}", "true", r#"{"type":["object","null"]}"#, r#"{"type":"array"}"#] {
            assert_eq!(InputSchema::parse(text), Err(SchemaError::NotAnObject), "{text}");
        }
        let invalid = [
            r#"{"type":"object","properties":{"a":{"type":"int"}}}"#,
            r#"{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}"#,
            r#"{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}"#,
            r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}"##,
            r#"{"type":"object","properties":{"a":{"pattern":"(a+)+\\1"}}}"#,
            r#"{"type":"object","properties":{"a":{"pattern":"(?=a)b"}}}"#,
        ];
        for text in invalid {
            assert!(matches!(InputSchema::parse(text), Err(SchemaError::Invalid(_))), "{text}");
        }
    }

    #[test]
    fn its_properties_are_the_names_of_its_root() {
        let schema = InputSchema::parse(CHARGE).expect("a schema");
        assert!(schema.lists("amount") && schema.lists("items"));
        assert!(!schema.lists("sku") && !schema.lists("item"));
        assert_eq!(schema.as_str(), CHARGE.trim());
    }
}
