//! Why a configuration cannot be used.

use std::fmt;
use std::path::PathBuf;

/// One mistake of the operator's, with its place and what to do. Values are never quoted: one may
/// be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The operating system would not give the file.
    #[error("{}: cannot be read: {problem}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the operating system says.
        problem: String,
    },
    /// It is not TOML.
    #[error("{place}: {problem}")]
    Syntax {
        /// Where.
        place: Place,
        /// What the parser says.
        problem: String,
    },
    /// There is no such table or key.
    #[error("{place}: unknown key `{key}`: remove it, or correct its name")]
    Unknown {
        /// Where.
        place: Place,
        /// Table and key, such as `listen.port`.
        key: String,
    },
    /// Limits that do not fit together (CONTRACT section 11).
    #[error("{place}: `[limits]`: {problem}")]
    Limits {
        /// The last of the settings that break the rule.
        place: Place,
        /// The rule, with the names of the settings.
        problem: String,
    },
    /// A value that cannot be used.
    #[error("{place}: `{key}` {problem}")]
    Value {
        /// Where.
        place: Place,
        /// Table and key.
        key: String,
        /// What is wrong, and what to do.
        problem: String,
    },
}

/// Where a setting comes from, or should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole: what is wrong is that something is left out.
    File(PathBuf),
    /// A line of the file, from 1.
    Line(PathBuf, usize),
    /// An environment variable.
    Variable(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "{}", file.display()),
            Self::Line(file, line) => write!(f, "{}: line {line}", file.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
        }
    }
}
