//! Secrets: a document says where one is, never what it is.

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use super::build::Mistake;
use super::document::Text;
use super::read;

/// The most bytes of a secret, the line end of its file included.
pub const MAX_SECRET_BYTES: usize = 16 * 1024;

/// Where a secret is: a variable of the process's environment, or a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretRef {
    #[serde(default)]
    pub env: Text,
    #[serde(default)]
    pub file: Text,
}

/// What secrets are read from.
#[derive(Clone, Copy)]
pub(super) struct SecretSources<'s> {
    /// Where relative paths of files start.
    pub folder: &'s Path,
    /// The variables of the environment.
    pub variable: fn(&str) -> Option<String>,
    /// What was read.
    pub log: &'s SecretLog,
}

/// The files that one loading looked for secrets in, and a digest of what each of them held. A
/// secret is part of what was loaded, though its file is no document.
#[derive(Debug, Default)]
pub(super) struct SecretLog(RefCell<Vec<(PathBuf, Option<[u8; 32]>)>>);

impl SecretLog {
    /// Whether a file now holds another text, or one that could not be read can be. Blocks on the
    /// file system.
    pub(super) fn is_outdated(&self) -> bool {
        self.0.borrow().iter().any(|(path, seen)| content(path).as_deref().map(digest) != *seen)
    }

    fn read(&self, path: &Path) -> Option<String> {
        let text = content(path);
        self.0.borrow_mut().push((path.to_owned(), text.as_deref().map(digest)));
        text
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// Where a secret came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the environment.
    Variable(String),
    /// A file.
    File(PathBuf),
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
        }
    }
}

/// A secret: 1 to [`MAX_SECRET_BYTES`] visible ASCII characters. Its `Debug` shows where it came
/// from and no more; two are compared in constant time.
#[derive(Clone)]
pub struct Secret {
    text: String,
    source: SecretSource,
}

impl Secret {
    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Where it came from.
    pub fn source(&self) -> &SecretSource {
        &self.source
    }

    /// Reads it, at the place `field` of a document.
    pub(super) fn read(
        reference: SecretRef,
        field: &str,
        sources: &SecretSources<'_>,
    ) -> Result<Self, Mistake> {
        let wrong = |problem: &str| (field.to_owned(), problem.to_owned());
        let set = |text: Text| text.filter(|text| !text.is_empty());
        let source = match (set(reference.env), set(reference.file)) {
            (Some(name), None) => SecretSource::Variable(name),
            (None, Some(file)) => SecretSource::File(sources.folder.join(file)),
            _ => return Err(wrong("must name one of `env` and `file`")),
        };
        let text = match &source {
            SecretSource::Variable(name) => (sources.variable)(name)
                .ok_or_else(|| wrong(&format!("the variable {name} is not set")))?,
            SecretSource::File(path) => {
                sources.log.read(path).ok_or_else(|| wrong(&format!("cannot read {source}")))?
            }
        };
        if text.is_empty() || text.len() > MAX_SECRET_BYTES || !visible(&text) {
            return Err(wrong(&format!(
                "{source} must hold 1 to {MAX_SECRET_BYTES} visible ASCII characters in one line"
            )));
        }
        Ok(Self { text, source })
    }
}

/// Without the line end that editors and `echo` put there.
fn content(path: &Path) -> Option<String> {
    let bytes = read::file(path, MAX_SECRET_BYTES).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(text.trim_end_matches(['\n', '\r']).to_owned())
}

fn visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && same(&self.text, &other.text)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(env: Option<&str>, file: Option<&str>, folder: &Path) -> Result<Secret, String> {
        let variable = |name: &str| match name {
            "SET" => Some("s3cr3t".to_owned()),
            "SPACED" => Some("s3cr3t s3cr3t".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let reference = SecretRef { env: env.map(str::to_owned), file: file.map(str::to_owned) };
        let log = SecretLog::default();
        let secret =
            Secret::read(reference, "here", &SecretSources { folder, variable, log: &log });
        assert!(!log.is_outdated());
        secret.map_err(|(field, problem)| format!("{field}: {problem}"))
    }

    #[test]
    fn a_secret_comes_from_a_variable_or_from_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("token"), "s3cr3t\n").expect("written");
        let from_variable = read(Some("SET"), None, folder.path()).expect("set");
        let from_file = read(None, Some("token"), folder.path()).expect("there");
        for secret in [&from_variable, &from_file] {
            assert_eq!(secret.expose(), "s3cr3t");
            assert!(!format!("{secret:?}").contains("s3cr3t"));
        }
    }

    #[test]
    fn what_is_no_secret_is_refused_and_not_quoted() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("two"), "s3cr3t\ns3cr3t").expect("written");
        for (env, file, expected) in [
            (None, None, "one of `env` and `file`"),
            (Some("SET"), Some("two"), "one of `env` and `file`"),
            (Some("UNSET"), None, "the variable UNSET is not set"),
            (Some("EMPTY"), None, "variable EMPTY must hold"),
            (Some("SPACED"), None, "visible ASCII"),
            (None, Some("two"), "in one line"),
            (None, Some("none"), "cannot read file"),
        ] {
            let error = read(env, file, folder.path()).expect_err(expected);
            assert!(error.contains(expected) && error.starts_with("here: "), "{error}");
            assert!(!error.contains("s3cr3t"), "{error}");
        }
    }
}
