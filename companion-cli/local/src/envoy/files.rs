//! Helpers for files: hashes, permissions, fingerprints, errors.

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use laststream_base::digest::Hasher;
use laststream_base::env_vars::LASTSTREAM_CACHE;
use laststream_base::progress::Progress;

/// The prefix of folders for unfinished work.
pub(crate) const PART: &str = "part-";

/// The error of an operation, such as `read`, on a file of the cache.
pub(crate) fn file_error(what: &str, path: &Path) -> impl FnOnce(io::Error) -> String {
    move |error| {
        format!(
            "cannot {what} `{}`: {error} (`{LASTSTREAM_CACHE}` names another folder)",
            path.display()
        )
    }
}

/// Writes what `next` reads into a file, `most` bytes at most. The result is the SHA-256 in
/// hexadecimal and the number of bytes; `None` if there are more.
pub(crate) fn save<E: From<String>>(
    to: &Path,
    most: u64,
    total: Option<u64>,
    progress: &dyn Progress,
    mut next: impl FnMut(&mut [u8]) -> Result<usize, E>,
) -> Result<Option<(String, u64)>, E> {
    let mut file = File::create(to).map_err(file_error("write", to))?;
    let (mut hasher, mut written, mut buffer) = (Hasher::default(), 0, vec![0; 256 << 10]);
    loop {
        let count = next(&mut buffer)?;
        if count == 0 {
            return Ok(Some((hasher.finish().hex().to_owned(), written)));
        }
        written += count as u64;
        if written > most {
            return Ok(None);
        }
        let part = buffer.get(..count).unwrap_or_default();
        hasher.update(part);
        file.write_all(part).map_err(file_error("write", to))?;
        progress.advanced(written, total);
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
