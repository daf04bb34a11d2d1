//! Reads files of untrusted origin: regular files only, up to a limit. A pipe could block forever,
//! and a device has no end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

/// Does not block on a pipe without a writer, and does not make a terminal the controlling one.
const FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// Opens a file that the user named. Follows links. A pipe is read only if it is a descriptor of
/// this process, as with `<(…)`.
pub fn open_named(path: &Path) -> io::Result<File> {
    if is_own_descriptor(path) {
        return File::open(path);
    }
    regular(open(path, FLAGS, Mode::empty())?.into())
}

/// The contents of a file that the user named.
pub fn read_named(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_to(open_named(path)?, most)
}

pub fn read_to(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        Err(io::Error::other(format!("it is larger than {most} bytes")))
    } else {
        Ok(bytes)
    }
}

/// Whether the path names a descriptor of this process, or `/dev/null`.
fn is_own_descriptor(path: &Path) -> bool {
    let number = |folder: &str| {
        path.strip_prefix(folder)
            .is_ok_and(|rest| rest.to_str().is_some_and(|rest| rest.parse::<u32>().is_ok()))
    };
    [Path::new("/dev/stdin"), Path::new("/dev/null")].contains(&path)
        || number("/dev/fd")
        || number("/proc/self/fd")
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_up_to_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "12345").unwrap();
        assert_eq!(read_named(&file, 5).unwrap(), b"12345");
        assert_eq!(read_named(&file, 4).unwrap_err().to_string(), "it is larger than 4 bytes");
    }
}
