//! Secrets of a policy: a document names where one is ([`crate::secret`]), never what it is, and what
//! it was is part of what was loaded.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use super::build::Mistake;
use crate::secret::{Secret, SecretError, SecretRef};

/// What secrets are read from.
#[derive(Clone, Copy)]
pub(super) struct SecretSources<'s> {
    /// Where relative paths of files start.
    pub folder: &'s Path,
    /// The variables of the environment.
    pub variable: fn(&str) -> Option<Vec<u8>>,
    /// What was read.
    pub log: &'s SecretLog,
}

/// The files that one loading looked for secrets in, and a digest of what each of them held. A
/// secret is part of what was loaded, though its file is no document.
#[derive(Debug, Default)]
pub(super) struct SecretLog(RefCell<Vec<(SecretRef, Option<[u8; 32]>)>>);

impl SecretLog {
    /// Whether a file now holds another text, or one that could not be read can be. Blocks on the
    /// file system.
    pub(super) fn is_outdated(&self) -> bool {
        self.0.borrow().iter().any(|(source, seen)| digest(&source.read()) != *seen)
    }

    fn note(&self, source: &SecretRef, read: &Result<Secret, SecretError>) {
        if let SecretRef::File(_) = source {
            self.0.borrow_mut().push((source.clone(), digest(read)));
        }
    }
}

fn digest(read: &Result<Secret, SecretError>) -> Option<[u8; 32]> {
    read.as_ref().ok().map(|secret| Sha256::digest(secret.expose()).into())
}

/// A secret with the reference that a document has to it. Its `Debug` is the reference; the texts of
/// two are compared in constant time.
#[derive(Clone)]
pub struct LoadedSecret {
    text: Secret,
    source: SecretRef,
}

impl LoadedSecret {
    /// The secret itself.
    pub fn expose(&self) -> &str {
        self.text.expose()
    }

    /// Where it came from.
    pub fn source(&self) -> &SecretRef {
        &self.source
    }

    /// Reads it, at the place `field` of a document.
    pub(super) fn load(
        reference: &str,
        field: &str,
        sources: &SecretSources<'_>,
    ) -> Result<Self, Mistake> {
        let wrong = |problem: String| (field.to_owned(), problem);
        let source = SecretRef::parse(reference, sources.folder)
            .map_err(|error| wrong(error.to_string()))?;
        let read = source.read_from(sources.variable);
        sources.log.note(&source, &read);
        let text = read.map_err(|error| wrong(error.to_string()))?;
        Ok(Self { text, source })
    }
}

impl PartialEq for LoadedSecret {
    fn eq(&self, other: &Self) -> bool {
        let same: bool = self.expose().as_bytes().ct_eq(other.expose().as_bytes()).into();
        self.source == other.source && same
    }
}

impl Eq for LoadedSecret {}

impl fmt::Debug for LoadedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoadedSecret({})", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(reference: &str, folder: &Path) -> Result<LoadedSecret, String> {
        let variable = |name: &str| (name == "SET").then(|| b"s3cr3t".to_vec());
        let log = SecretLog::default();
        let sources = SecretSources { folder, variable, log: &log };
        let secret = LoadedSecret::load(reference, "here", &sources);
        assert!(!log.is_outdated());
        secret.map_err(|(field, problem)| format!("{field}: {problem}"))
    }

    #[test]
    fn a_secret_comes_from_a_variable_or_from_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("token"), "s3cr3t\n").expect("written");
        for reference in ["env:SET", "file:token"] {
            let secret = load(reference, folder.path()).expect(reference);
            assert_eq!(secret.expose(), "s3cr3t");
            assert!(!format!("{secret:?}").contains("s3cr3t"));
        }
    }

    #[test]
    fn what_is_no_secret_is_refused_at_its_place_and_not_quoted() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("two"), "s3cr3t\ns3cr3t").expect("written");
        for (reference, expected) in [
            ("s3cr3t", "`env:NAME` or `file:PATH`"),
            ("env:UNSET", "is not set"),
            ("file:two", "one line"),
            ("file:none", "cannot be read"),
        ] {
            let error = load(reference, folder.path()).expect_err(expected);
            assert!(error.contains(expected) && error.starts_with("here: "), "{error}");
            assert!(!error.contains("s3cr3t"), "{error}");
        }
    }

    #[test]
    fn a_file_that_changed_outdates_what_was_loaded() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = SecretLog::default();
        let sources = SecretSources { folder: folder.path(), variable: |_| None, log: &log };
        assert!(LoadedSecret::load("file:token", "here", &sources).is_err());
        assert!(!log.is_outdated());
        std::fs::write(folder.path().join("token"), "s3cr3t\n").expect("written");
        assert!(log.is_outdated(), "it can be read now");
    }
}
