//! Helpers for files: hashes, permissions, fingerprints.

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use laststream_base::digest::Hasher;

/// The prefix of folders for unfinished work.
pub(crate) const PART: &str = "part-";

/// A file that computes the SHA-256 and the number of the bytes that are written to it.
pub(crate) struct HashingFile {
    file: File,
    hasher: Hasher,
    written: u64,
}

impl HashingFile {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create(path)?, hasher: Hasher::default(), written: 0 })
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn finish(self) -> String {
        self.hasher.finish().hex().to_owned()
    }
}

impl Write for HashingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

pub(crate) fn sha256(path: &Path) -> io::Result<String> {
    let mut hasher = Hasher::default();
    io::copy(&mut BufReader::with_capacity(256 << 10, File::open(path)?), &mut hasher)?;
    Ok(hasher.finish().hex().to_owned())
}

/// Makes a finished file executable and syncs it to the disk before it gets its name.
pub(crate) fn make_program(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o755))?;
    file.sync_all()
}

pub(crate) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.is_file() && about.mode() & 0o111 != 0)
}

/// Size and time of a file. If both are the same, the contents count as unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Fingerprint {
    pub(crate) size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Fingerprint {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let about = fs::metadata(path)?;
        Ok(Self { size: about.len(), seconds: about.mtime(), nanoseconds: about.mtime_nsec() })
    }
}
