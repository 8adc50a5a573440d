//! Files whose contents matter and may change: certificates, keys, tokens.
//!
//! Mounted Secrets and ConfigMaps change by swapping a symbolic link, so contents are compared, not times.
//!
//! Does not: watch with the system's help; a look every ten seconds at a few small files costs microseconds.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often files are looked at.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Largest file that is read; the largest CA bundles are near 250 KB.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Reads a file of bounded size.
///
/// # Errors
/// When it cannot be read or is larger than 4 MiB.
pub(crate) fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    if std::fs::metadata(path)?.len() > MAX_BYTES {
        return Err(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            "larger than 4 MiB",
        ));
    }
    std::fs::read(path)
}

/// A set of files and a fingerprint of what they held when they were last taken in.
#[derive(Debug)]
pub(crate) struct WatchedFiles {
    paths: Vec<PathBuf>,
    taken: Option<u64>,
}

impl WatchedFiles {
    /// Watches `paths`; [`Self::changed`] answers true until [`Self::take`] was called.
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, taken: None }
    }

    /// The fingerprint of the present contents when it differs from what was taken in; `None` also when a file cannot
    /// be read (what was read last stays in use).
    pub(crate) fn changed(&self) -> Option<u64> {
        if self.paths.is_empty() {
            return None;
        }
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        for path in &self.paths {
            match read(path) {
                Ok(bytes) => {
                    hasher.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
                    hasher.update(&bytes);
                }
                Err(error) => {
                    tracing::debug!(path = %path.display(), %error, "a watched file cannot be read");
                    return None;
                }
            }
        }
        let fingerprint = hasher.digest();
        (Some(fingerprint) != self.taken).then_some(fingerprint)
    }

    /// The contents with this fingerprint are in use now.
    pub(crate) fn take(&mut self, fingerprint: u64) {
        self.taken = Some(fingerprint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_once_and_an_unreadable_file_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "one").unwrap();
        let mut files = WatchedFiles::new(vec![path.clone()]);
        let first = files.changed().unwrap();
        files.take(first);
        assert_eq!(files.changed(), None);
        std::fs::write(&path, "two").unwrap();
        assert!(files.changed().is_some_and(|second| second != first));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(files.changed(), None);
    }
}
