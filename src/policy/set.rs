//! A file or a folder of documents, loaded as one consistent whole.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::error::{Place, PolicyError, PolicyErrors};
use super::load;
use super::read::{self, Format};
use super::secret::SecretLog;
use super::server::ServerPolicy;
use super::values::HexDigest;

/// The most bytes of one policy document.
pub const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;
/// The most documents in a folder, and so the most servers, connectors, workspaces and capabilities
/// together.
pub const MAX_SERVERS: usize = 256;

/// What a policy must know of the process that loads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadContext {
    /// Whether the MCP listener is reached from this machine alone, as mode `static` needs.
    pub loopback: bool,
    /// Whether the MCP listener asks clients for a certificate, as mode `mtls` needs.
    pub client_ca: bool,
}

/// Every governed server. One set serves one exchange from end to end.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySet {
    servers: Vec<Arc<ServerPolicy>>,
    by_path: HashMap<String, usize>,
    revision: String,
}

/// The bytes of every document at a path, as they were at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Documents(Vec<(PathBuf, Format, Vec<u8>)>);

impl PolicySet {
    /// Loads a document, or every `*.json`, `*.yaml` and `*.yml` of a folder, by name; other files
    /// of the folder, and those whose name starts with a dot, are ignored. Blocks on the file
    /// system.
    ///
    /// # Errors
    ///
    /// Every mistake of every document, with its place; bounds [`MAX_DOCUMENT_BYTES`] and
    /// [`MAX_SERVERS`]; an empty folder; paths, names or uids that two servers share.
    pub fn load(path: &Path, context: LoadContext) -> Result<Self, PolicyErrors> {
        Self::from_documents(&Documents::read(path)?, context, &SecretLog::default())
    }

    /// Loads one document from text. The format is that of the name's extension, YAML if it has
    /// none of the known ones.
    ///
    /// # Errors
    ///
    /// As [`PolicySet::load`].
    pub fn from_text(name: &str, text: &str, context: LoadContext) -> Result<Self, PolicyErrors> {
        let file = PathBuf::from(name);
        let format = Format::of(&file).unwrap_or(Format::Yaml);
        let documents = Documents(vec![(file, format, text.into())]);
        Self::from_documents(&documents, context, &SecretLog::default())
    }

    /// The policy of `serve --upstream URL` (CONTRACT section 10): one server at `/mcp`, one static
    /// principal, every tool allowed, uid `local-` and 16 hex digits of the SHA-256 of the URL.
    ///
    /// # Errors
    ///
    /// The URL is not an absolute `http` or `https` URL, or the listener is not loopback.
    pub fn local(upstream: &str, context: LoadContext) -> Result<Self, PolicyErrors> {
        let digest = HexDigest(Sha256::digest(upstream).into());
        let document = serde_json::json!({
            "schema_version": "v1",
            "server": {
                "name": "local",
                "uid": format!("local-{digest:.16}"),
                "upstream": upstream,
            },
            "auth": { "mode": "static", "human_id": "local" },
            "policy": { "default_decision": "allow" },
        });
        let documents = Documents(vec![(
            PathBuf::from("--upstream"),
            Format::Json,
            document.to_string().into_bytes(),
        )]);
        Self::from_documents(&documents, context, &SecretLog::default())
    }

    /// As [`PolicySet::load`]; `secrets` learns which files hold some, whatever comes of it.
    pub(super) fn from_documents(
        documents: &Documents,
        context: LoadContext,
        secrets: &SecretLog,
    ) -> Result<Self, PolicyErrors> {
        let listed = documents.0.iter();
        let listed = listed.map(|(file, format, bytes)| (&**file, *format, &**bytes));
        let (loaded, mut errors) = load::load(listed, context, secrets);
        let servers: Vec<_> = loaded.into_iter().map(|(_, server)| server).collect();
        if servers.is_empty() && errors.is_empty() {
            errors.extend(documents.0.first().map(|(file, ..)| PolicyError::NoServer {
                folder: file.parent().unwrap_or(file).to_owned(),
            }));
        }
        let by_path = servers.iter().zip(0..).map(|(one, at)| (one.path.clone(), at)).collect();
        let revision = format!("sha256:{}", HexDigest(documents.digest()));
        PolicyErrors::unless(errors, Self { servers, by_path, revision })
    }

    /// The server at this path.
    pub fn server(&self, path: &str) -> Option<&Arc<ServerPolicy>> {
        self.by_path.get(path).and_then(|at| self.servers.get(*at))
    }

    /// Every server, in the order of the documents' names.
    pub fn servers(&self) -> impl ExactSizeIterator<Item = &Arc<ServerPolicy>> {
        self.servers.iter()
    }

    /// `sha256:` and the hex digest of the content: of the one document's bytes, or of the names
    /// and bytes of the folder's, each with its length before it.
    pub fn revision(&self) -> &str {
        &self.revision
    }
}

impl Documents {
    /// Reads everything at a path, within the bounds.
    pub(super) fn read(path: &Path) -> Result<Self, PolicyError> {
        let unreadable = |problem| PolicyError::unreadable(path, &problem);
        let files = if std::fs::metadata(path).map_err(unreadable)?.is_dir() {
            folder(path)?
        } else {
            vec![path.to_owned()]
        };
        let mut documents = Vec::with_capacity(files.len());
        for file in files {
            let format = Format::of(&file).ok_or_else(|| PolicyError::Document {
                file: file.clone(),
                place: Place::default(),
                problem: "is not named *.json, *.yaml or *.yml".to_owned(),
            })?;
            let bytes = read::file(&file, MAX_DOCUMENT_BYTES)?;
            documents.push((file, format, bytes));
        }
        Ok(Self(documents))
    }

    /// The SHA-256 that [`PolicySet::revision`] shows.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        if let [(_, _, bytes)] = self.0.as_slice() {
            hash.update(bytes);
        } else {
            for (file, _, bytes) in &self.0 {
                let name = file.file_name().unwrap_or_default().as_encoded_bytes();
                for part in [name, bytes] {
                    hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
                    hash.update(part);
                }
            }
        }
        hash.finalize().into()
    }
}

/// The documents of a folder, by name.
fn folder(folder: &Path) -> Result<Vec<PathBuf>, PolicyError> {
    let unreadable = |problem| PolicyError::unreadable(folder, &problem);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let hidden = file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden || Format::of(&file).is_none() || file.is_dir() {
            continue;
        }
        if files.len() == MAX_SERVERS {
            return Err(PolicyError::TooLarge {
                file: folder.to_owned(),
                bound: "the number of documents",
                limit: MAX_SERVERS,
            });
        }
        files.push(file);
    }
    if files.is_empty() {
        return Err(PolicyError::EmptyFolder { folder: folder.to_owned() });
    }
    files.sort();
    Ok(files)
}
