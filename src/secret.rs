//! Secrets of the gateway's own: where one comes from, and its text once it was read.
//!
//! Configuration and policy name a secret by a reference, `env:NAME` or `file:PATH`, and never hold
//! it, so that nothing that prints them can print it. A room below both, because both name secrets.

use std::fmt;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use crate::files::{self, FileError};

/// The most bytes of a secret: 16 KiB, the line end of its file included.
pub const MAX_SECRET_BYTES: usize = 16 * 1024;

/// Where a secret comes from. Its `Display` and `Debug` are the reference as it was written, which
/// is no secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum SecretRef {
    /// `env:NAME`: an environment variable of this process.
    Env(String),
    /// `file:PATH`: the text of a file, without one line end. Read anew each time, so that a
    /// mounted secret can be replaced.
    File(PathBuf),
}

/// Why a text is not a reference. Says nothing of the text, which may be the secret itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be `env:NAME` or `file:PATH`, never the secret itself")]
pub struct NotAReference;

/// Why a secret could not be read: the operator has to mend the variable or the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// No such variable.
    #[error("{0}: the environment variable is not set")]
    NotSet(SecretRef),
    /// The system does not give the file.
    #[error("{0}: the file cannot be read: {1}")]
    Unreadable(SecretRef, String),
    /// Nothing is in it.
    #[error("{0}: the secret is empty")]
    Empty(SecretRef),
    /// More than [`MAX_SECRET_BYTES`].
    #[error("{0}: the secret has more than {MAX_SECRET_BYTES} bytes")]
    TooLong(SecretRef),
    /// A character that no credential has (RFC 6749, appendix A: 0x20 to 0x7E), which could break a
    /// header.
    #[error("{0}: the secret must be one line of printable ASCII characters")]
    NotPrintable(SecretRef),
}

impl SecretRef {
    /// Reads `env:NAME` or `file:PATH`; a relative path starts at `folder`.
    ///
    /// # Errors
    ///
    /// [`NotAReference`] for everything else.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, NotAReference> {
        match text.split_once(':') {
            Some(("env", name)) if is_variable(name) => Ok(Self::Env(name.to_owned())),
            Some(("file", path)) if !path.is_empty() && !path.contains('\0') => {
                Ok(Self::File(folder.join(path)))
            }
            _ => Err(NotAReference),
        }
    }

    /// The secret as it is now. Blocks on a file, which must be a regular one.
    ///
    /// # Errors
    ///
    /// [`SecretError`]; none holds a part of the secret.
    pub fn read(&self) -> Result<Secret, SecretError> {
        self.read_from(|name| std::env::var_os(name).map(|value| value.into_encoded_bytes()))
    }

    /// The same, with the environment as an argument.
    ///
    /// # Errors
    ///
    /// As [`SecretRef::read`].
    pub fn read_from(
        &self,
        environment: impl FnOnce(&str) -> Option<Vec<u8>>,
    ) -> Result<Secret, SecretError> {
        let bytes = match self {
            Self::Env(name) => {
                environment(name).ok_or_else(|| SecretError::NotSet(self.clone()))?
            }
            Self::File(path) => {
                files::read(path, MAX_SECRET_BYTES).map_err(|error| match error {
                    FileError::TooLarge(_) => SecretError::TooLong(self.clone()),
                    FileError::Unreadable(problem) => {
                        SecretError::Unreadable(self.clone(), problem.to_string())
                    }
                })?
            }
        };
        self.judge(bytes)
    }

    fn judge(&self, bytes: Vec<u8>) -> Result<Secret, SecretError> {
        if bytes.len() > MAX_SECRET_BYTES {
            return Err(SecretError::TooLong(self.clone()));
        }
        let mut text = SecretString::from(
            String::from_utf8(bytes).map_err(|_| SecretError::NotPrintable(self.clone()))?,
        );
        let held = text.expose_secret();
        if let Some(line) = held.strip_suffix('\n') {
            text = SecretString::from(line.strip_suffix('\r').unwrap_or(line));
        }
        match text.expose_secret() {
            "" => Err(SecretError::Empty(self.clone())),
            held if held.bytes().all(|byte| matches!(byte, b' '..=b'~')) => Ok(Secret(text)),
            _ => Err(SecretError::NotPrintable(self.clone())),
        }
    }
}

fn is_variable(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(plain) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl fmt::Debug for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text of a secret: at least one printable ASCII character. Its `Debug` shows nothing, and its
/// memory is wiped when it is dropped.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// The text, for the one place that sends or compares it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(text: &str) -> SecretRef {
        SecretRef::parse(text, Path::new("/etc/onceward")).expect(text)
    }

    fn of_variable(value: &[u8]) -> Result<String, SecretError> {
        reference("env:TOKEN")
            .read_from(|name| (name == "TOKEN").then(|| value.to_vec()))
            .map(|secret| secret.expose().to_owned())
    }

    #[test]
    fn a_reference_is_a_variable_or_a_file() {
        assert_eq!(reference("env:UPSTREAM_TOKEN"), SecretRef::Env("UPSTREAM_TOKEN".to_owned()));
        assert_eq!(reference("file:/run/token"), SecretRef::File("/run/token".into()));
        assert_eq!(reference("file:token"), SecretRef::File("/etc/onceward/token".into()));
        assert_eq!(reference("file:a:b"), SecretRef::File("/etc/onceward/a:b".into()));
    }

    #[test]
    fn a_literal_is_refused_and_never_repeated() {
        for text in ["", "env:", "file:"] {
            assert_eq!(SecretRef::parse(text, Path::new("")), Err(NotAReference), "{text}");
        }
        for text in ["s3cr3t", "env:A=B", "env:1A", "env:A B", "vault:x", "ENV:A"] {
            let error = SecretRef::parse(text, Path::new("")).expect_err(text).to_string();
            assert!(!error.contains(text), "{error}");
        }
    }

    #[test]
    fn one_line_end_is_not_part_of_it() {
        assert_eq!(of_variable(b"t0ken"), Ok("t0ken".to_owned()));
        assert_eq!(of_variable(b"t0ken\n"), Ok("t0ken".to_owned()));
        assert_eq!(of_variable(b"t0ken\r\n"), Ok("t0ken".to_owned()));
        assert_eq!(of_variable(b" t0 ken "), Ok(" t0 ken ".to_owned()), "spaces are");
    }

    #[test]
    fn what_cannot_be_a_credential_is_refused_unquoted() {
        let token = || reference("env:TOKEN");
        let cases = [
            (b"".to_vec(), SecretError::Empty(token())),
            (b"\n".to_vec(), SecretError::Empty(token())),
            (b"two\n\n".to_vec(), SecretError::NotPrintable(token())),
            (b"two\nlines".to_vec(), SecretError::NotPrintable(token())),
            (b"caf\xc3\xa9".to_vec(), SecretError::NotPrintable(token())),
            (b"caf\xe9".to_vec(), SecretError::NotPrintable(token())),
            (b"a\0b".to_vec(), SecretError::NotPrintable(token())),
            (vec![b'a'; MAX_SECRET_BYTES + 1], SecretError::TooLong(token())),
        ];
        for (value, error) in cases {
            assert_eq!(of_variable(&value), Err(error), "{value:?}");
        }
        assert!(of_variable(&vec![b'a'; MAX_SECRET_BYTES]).is_ok());
        let unset = token().read_from(|_| None).map(|_| ());
        assert_eq!(unset, Err(SecretError::NotSet(token())));
    }

    #[test]
    fn a_file_is_read_anew_each_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let reference = SecretRef::parse("file:token", folder.path()).expect("a reference");
        assert!(matches!(reference.read(), Err(SecretError::Unreadable(..))));
        for text in ["first", "second"] {
            std::fs::write(folder.path().join("token"), format!("{text}\n")).expect("a file");
            assert_eq!(reference.read().expect("a secret").expose(), text);
        }
        std::fs::write(folder.path().join("token"), vec![b'a'; MAX_SECRET_BYTES + 9])
            .expect("a file");
        assert!(matches!(reference.read(), Err(SecretError::TooLong(_))));
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_regular_file_is_not_waited_for() {
        // A device that never ends; a pipe that nobody writes to would not even open.
        let reference = SecretRef::parse("file:/dev/zero", Path::new("")).expect("a reference");
        let read = reference.read().map(|_| ());
        let problem = "not a regular file".to_owned();
        assert_eq!(read, Err(SecretError::Unreadable(reference, problem)));
    }

    #[test]
    fn nothing_that_prints_it_shows_it() {
        let reference = reference("env:TOKEN");
        let secret = reference.read_from(|_| Some(b"s3cr3t".to_vec())).expect("a secret");
        assert_eq!(format!("{secret:?} {secret:#?}"), "Secret(..) Secret(..)");
        assert_eq!(format!("{reference} {reference:?}"), "env:TOKEN env:TOKEN");
    }
}
