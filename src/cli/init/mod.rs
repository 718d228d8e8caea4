//! `onceward init`: a commented configuration to start from (CONTRACT section 10).

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sha2::{Digest as _, Sha256};

use super::{CONFIG, InitArguments};

/// The files, by their path in the folder, and the texts that they are made of.
const FILES: [(&str, &str); 4] = [
    (CONFIG, include_str!("onceward.toml")),
    ("policy/billing.yaml", include_str!("server.yaml")),
    ("policy/vendor.yaml", include_str!("vendor.yaml")),
    ("policy/starter.yaml", include_str!("workspace.yaml")),
];
/// What the API key begins with, so that one that got lost can be found.
const KEY_PREFIX: &str = "onceward_";
/// Random bytes of the API key: 256 bits, which nobody guesses.
const KEY_BYTES: usize = 32;
/// Random bytes of the server's uid: enough that no two starters share one.
const UID_BYTES: usize = 4;

/// Why nothing was made, or not everything.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// A file stands where one would be written. Nothing was written.
    #[error("{}: exists already, and nothing is overwritten: name an empty folder", .0.display())]
    Exists(PathBuf),
    /// The system would not write.
    #[error("{}: cannot be written: {problem}", .file.display())]
    Unwritable {
        /// The file or folder.
        file: PathBuf,
        /// What the system says.
        problem: io::Error,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers for the API key: {0}")]
    Random(getrandom::Error),
}

/// What was made. Its `Display` shows the API key, which is nowhere else, and what to do next.
pub struct Starter {
    files: Vec<PathBuf>,
    key: String,
}

/// Writes the files and exits 0, or says why not and exits 1.
pub fn run(arguments: &InitArguments) -> ExitCode {
    match init(&arguments.folder) {
        Ok(starter) => {
            // A reader that closes the pipe has seen enough.
            let _ = write!(io::stdout(), "{starter}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("onceward: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes a configuration into a folder, which is made if it is not there.
///
/// # Errors
///
/// A file that is there already, before anything is written; what the system says.
pub fn init(folder: &Path) -> Result<Starter, InitError> {
    let files: Vec<PathBuf> = FILES.iter().map(|(name, _)| folder.join(name)).collect();
    if let Some(known) = files.iter().find(|file| fs::symlink_metadata(file).is_ok()) {
        return Err(InitError::Exists(known.clone()));
    }
    let key = format!("{KEY_PREFIX}{}", random::<KEY_BYTES>()?);
    let digest = hex(&Sha256::digest(&key));
    let uid = format!("billing-{}", random::<UID_BYTES>()?);
    for (file, (_, text)) in files.iter().zip(FILES) {
        write(file, &text.replace("DIGEST", &digest).replace("UID", &uid))?;
    }
    Ok(Starter { files, key })
}

/// Makes a file that is not there.
fn write(file: &Path, text: &str) -> Result<(), InitError> {
    let unwritable = |problem| InitError::Unwritable { file: file.to_owned(), problem };
    fs::create_dir_all(file.parent().unwrap_or_else(|| Path::new(""))).map_err(unwritable)?;
    // Whoever was quicker since the look at what is there keeps its file.
    let mut made =
        OpenOptions::new().write(true).create_new(true).open(file).map_err(unwritable)?;
    made.write_all(text.as_bytes()).map_err(unwritable)
}

/// So many bytes of the system's random source, as hex digits.
fn random<const BYTES: usize>() -> Result<String, InitError> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(InitError::Random)?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for Starter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            writeln!(f, "wrote {}", file.display())?;
        }
        let config = self.files.first().map(|file| file.display().to_string()).unwrap_or_default();
        let key = &self.key;
        writeln!(
            f,
            "
The API key of the workspace, shown this once; its file holds its SHA-256 alone:

  {key}

Next:

  onceward check --config {config}
  onceward serve --config {config}
  curl http://127.0.0.1:8080/billing -H 'Authorization: Bearer {key}' \\
    -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \\
    -d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}}'"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::check;

    fn text_of(file: &Path) -> String {
        fs::read_to_string(file).expect("read")
    }

    #[test]
    fn what_is_written_can_be_served_and_has_no_warning() {
        let folder = tempfile::tempdir().expect("a folder");
        let starter = init(&folder.path().join("new/gateway")).expect("made");
        assert_eq!(starter.files.len(), FILES.len());
        let report = check(&starter.files[0], []).unwrap_or_else(|errors| {
            panic!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        });
        let text = report.to_string();
        assert!(!text.contains("warning"), "{text}");
        for part in ["server billing", "create_charge", "key header idempotency-key"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn the_key_is_random_and_only_its_digest_is_written() {
        let made = [(), ()].map(|()| {
            let folder = tempfile::tempdir().expect("a folder");
            let starter = init(folder.path()).expect("made");
            let texts: String = starter.files.iter().map(|file| text_of(file)).collect();
            (starter.key, texts)
        });
        for (key, texts) in &made {
            assert_eq!(key.len(), "onceward_".len() + 64, "256 bits");
            assert!(!texts.contains(key.as_str()));
            assert!(texts.contains(&format!("sha256: {}", hex(&Sha256::digest(key)))));
            assert!(!texts.contains("DIGEST") && !texts.contains("UID"));
        }
        let uid = |texts: &str| {
            texts.lines().find(|line| line.contains("uid:")).map(str::to_owned).expect("a uid")
        };
        assert_ne!(made[0].0, made[1].0);
        assert_ne!(uid(&made[0].1), uid(&made[1].1));
    }

    #[test]
    fn nothing_is_overwritten_and_nothing_else_is_written_then() {
        for (name, _) in FILES {
            let folder = tempfile::tempdir().expect("a folder");
            let known = folder.path().join(name);
            fs::create_dir_all(known.parent().expect("a folder")).expect("made");
            fs::write(&known, "mine").expect("written");
            let error = init(folder.path()).err().expect(name).to_string();
            assert!(error.contains(&format!("{}: exists already", known.display())), "{error}");
            assert_eq!(text_of(&known), "mine");
            for (other, _) in FILES.iter().filter(|(other, _)| *other != name) {
                assert!(!folder.path().join(other).exists(), "{other} beside {name}");
            }
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("written");
        let error = init(&file).err().expect("no folder").to_string();
        assert!(error.contains("file/onceward.toml: cannot be written"), "{error}");
    }
}
