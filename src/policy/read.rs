//! From a file to a typed document: bounded, strict, and with the place of a mistake.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy};
use serde_saphyr::{MessageFormatter as _, UserMessageFormatter};

use super::error::{Place, PolicyError};
use crate::files::{self, FileError};

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Yaml,
}

impl Format {
    /// By the file's extension; `None` for a file that is no document.
    pub(super) fn of(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// The most levels of nesting; a server's document needs five, the schema of a tool's arguments more.
const MAX_DEPTH: usize = 64;
/// The most YAML anchors, and the most aliases.
const MAX_ALIASES: usize = 100;
/// The most events that aliases may expand to.
const MAX_ALIAS_EVENTS: usize = 10_000;

/// The whole of a regular file of at most `limit` bytes.
pub(super) fn file(path: &Path, limit: usize) -> Result<Vec<u8>, PolicyError> {
    files::read(path, limit).map_err(|error| match error {
        FileError::Unreadable(problem) => PolicyError::unreadable(path, &problem),
        FileError::TooLarge(_) => {
            let bound = "the size in bytes";
            PolicyError::TooLarge { file: path.to_owned(), bound, limit }
        }
    })
}

/// Parses a text. Names are unique at every depth and there is one document, in either format.
pub(super) fn parse<T: DeserializeOwned>(
    file: &Path,
    format: Format,
    bytes: &[u8],
) -> Result<T, PolicyError> {
    let wrong = |position, field: Option<String>, problem: &str| PolicyError::Document {
        file: file.to_owned(),
        place: Place { position, field },
        problem: without_values(problem),
    };
    let text = std::str::from_utf8(bytes).map_err(|_| wrong(None, None, "is not UTF-8"))?;
    match format {
        Format::Json => json(text),
        Format::Yaml => yaml(text),
    }
    .map_err(|fault| wrong(fault.position, fault.field, &fault.problem))
}

struct Fault {
    position: Option<(u64, u64)>,
    field: Option<String>,
    problem: String,
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    // serde checks names only where it knows a struct; this reader checks them at every depth.
    if let Err(error) = crate::claim::Document::parse(text.as_bytes()) {
        let before = text.get(..error.offset()).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|one| *one != '\n').count() + 1;
        return Err(Fault {
            position: position(line, column),
            field: None,
            problem: error.to_string(),
        });
    }
    let syntax = |error: &serde_json::Error, field| {
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        Fault {
            position: position(error.line(), error.column()),
            field,
            problem: message.strip_suffix(&place).unwrap_or(&message).to_owned(),
        }
    };
    let mut from = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut from)
        .map_err(|error| syntax(error.inner(), field(error.path())))?;
    from.end().map_err(|error| syntax(&error, None))?;
    Ok(value)
}

fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    let mut at = None;
    serde_saphyr::with_deserializer_from_str_with_options(text, yaml_options(), |from| {
        serde_path_to_error::deserialize(from).map_err(|error| {
            at = field(error.path());
            error.into_inner()
        })
    })
    .map_err(|error| Fault {
        position: error.location().map(|at| (at.line(), at.column())),
        field: at,
        // The texts for people who write YAML, not for those who call the parser.
        problem: UserMessageFormatter.format_message(error.without_snippet()).into_owned(),
    })
}

fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_ALIAS_EVENTS,
            max_replay_stack_depth: MAX_DEPTH,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        // Only `true` and `false` are booleans: `no` in a text field stays a text all the same.
        strict_booleans: true,
        reject_unsupported_tags: true,
        reject_tagged_field_names: true,
        // A snippet would show the lines around a mistake, and a secret that was put there.
        with_snippet: false,
    }
}

fn position(line: usize, column: usize) -> Option<(u64, u64)> {
    Some((u64::try_from(line).ok()?, u64::try_from(column).ok()?)).filter(|(line, _)| *line > 0)
}

/// The path of the field; a name that could not be read is a `?` at its end, which says nothing.
fn field(path: &serde_path_to_error::Path) -> Option<String> {
    let path = path.to_string();
    let known = path.trim_end_matches('?').trim_end_matches('.');
    Some(known.to_owned()).filter(|path| !path.is_empty())
}

/// Drops the offending value that serde quotes: where a digest belongs, it may be the secret.
fn without_values(problem: &str) -> String {
    let quotes = ["invalid type: ", "invalid value: "];
    match problem.rsplit_once(", expected ") {
        Some((found, expected)) if quotes.iter().any(|start| found.contains(start)) => {
            format!("expected {expected}")
        }
        _ => problem.to_owned(),
    }
}
