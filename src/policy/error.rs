//! Why a policy or a sessions file cannot be used: whose mistake it is, where, and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The operating system would not give the file.
    #[error("{}: cannot be read: {problem}", .file.display())]
    Unreadable {
        /// The file or folder.
        file: PathBuf,
        /// What the operating system says.
        problem: String,
    },
    /// A bound on what is read was passed.
    #[error("{}: {bound} must not exceed {limit}", .file.display())]
    TooLarge {
        /// The file or folder.
        file: PathBuf,
        /// What is bounded.
        bound: &'static str,
        /// The bound.
        limit: usize,
    },
    /// The folder holds no document.
    #[error(
        "{}: holds no policy document: add a *.json, *.yaml or *.yml file", .folder.display()
    )]
    EmptyFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder holds documents, and none of them is a server's.
    #[error("{}: holds no server: add its document, which has no `kind`", .folder.display())]
    NoServer {
        /// The folder, or the file.
        folder: PathBuf,
    },
    /// The document cannot be parsed, or says something it must not.
    #[error("{}{place}: {problem}", .file.display())]
    Document {
        /// The file.
        file: PathBuf,
        /// Where in it.
        place: Place,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Two documents claim what only one can have.
    #[error(
        "{}: {field}: `{value}` is already used by {}: give each its own",
        .file.display(), .other.display()
    )]
    Clash {
        /// The later file.
        file: PathBuf,
        /// The earlier file.
        other: PathBuf,
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// The reload would give standing records other slots.
    #[error(
        "server `{server}`: a change of {what} would move the slots of standing records, so the \
         last good policy stays: drain, wait out the longer of `ttl` and `tombstone_ttl`, then \
         restart"
    )]
    MovesSlots {
        /// The server's name.
        server: String,
        /// The field, or what is bounded.
        what: &'static str,
    },
}

impl PolicyError {
    pub(super) fn unreadable(file: &Path, problem: &std::io::Error) -> Self {
        Self::Unreadable { file: file.to_owned(), problem: problem.to_string() }
    }
}

/// Where in a document a mistake is; each part only where it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// Line and column, both from 1.
    pub position: Option<(u64, u64)>,
    /// The field, such as `grants[2].tool_rules[0].decision`.
    pub field: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ": {field}")?;
        }
        Ok(())
    }
}

/// Everything that is wrong with a policy; never empty. Displays as one line for each mistake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PolicyErrors(Vec<PolicyError>);

impl PolicyErrors {
    /// The value, or the mistakes if there are any.
    pub(super) fn unless<T>(errors: Vec<PolicyError>, value: T) -> Result<T, Self> {
        if errors.is_empty() { Ok(value) } else { Err(Self(errors)) }
    }
}

impl From<PolicyError> for PolicyErrors {
    fn from(error: PolicyError) -> Self {
        Self(vec![error])
    }
}

impl From<PolicyErrors> for Vec<PolicyError> {
    fn from(errors: PolicyErrors) -> Self {
        errors.0
    }
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}
