//! Files of the operator's, read whole and within a bound. A room below all that read some.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system would not give it, or it is no regular file.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// It has more bytes than the bound.
    #[error("the file has more than {0} bytes")]
    TooLarge(usize),
}

/// The bytes of a regular file, at most `most`. Blocks on the file system.
///
/// # Errors
///
/// [`FileError`], without the path, which the caller knows.
pub fn read(path: &Path, most: usize) -> Result<Vec<u8>, FileError> {
    // Opening a pipe would wait for a writer, and reading a device may never end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file").into());
    }
    let mut bytes = Vec::new();
    let bound = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(bound).read_to_end(&mut bytes)?;
    if bytes.len() > most { Err(FileError::TooLarge(most)) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_up_to_the_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        assert!(matches!(read(&path, 3), Err(FileError::Unreadable(_))), "not there");
        std::fs::write(&path, "abc").expect("written");
        assert_eq!(read(&path, 3).expect("three bytes"), b"abc");
        assert!(matches!(read(&path, 2), Err(FileError::TooLarge(2))));
        assert!(matches!(read(folder.path(), 3), Err(FileError::Unreadable(_))), "a folder");
    }
}
