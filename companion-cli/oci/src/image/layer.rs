//! Layers: gzipped tar archives. The same files always give the same bytes.

use std::io::{self, Write as _};

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// RFC 1952: unknown operating system.
const UNKNOWN_SYSTEM: u8 = 255;

/// A file of an archive.
#[derive(Debug, Clone, Copy)]
pub struct Packed<'a> {
    /// The path in the archive, without a leading slash.
    pub path: &'a str,
    /// Its permissions.
    pub mode: u32,
    /// Its content.
    pub bytes: &'a [u8],
}

/// A tar archive of these files. Owner and time are always zero.
pub fn archive(files: &[Packed<'_>]) -> io::Result<Vec<u8>> {
    let size: usize = files.iter().map(|file| file.bytes.len() + 1024).sum();
    let mut builder = Builder::new(Vec::with_capacity(size + 1024));
    for file in files {
        builder.append(&header(file)?, file.bytes)?;
    }
    builder.into_inner()
}

fn header(file: &Packed<'_>) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_path(file.path)?;
    header.set_size(file.bytes.len() as u64);
    header.set_mode(file.mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_cksum();
    Ok(header)
}

/// The archive, compressed with gzip.
pub fn compress(archive: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new()
        .mtime(0)
        .operating_system(UNKNOWN_SYSTEM)
        .write(Vec::new(), Compression::best());
    encoder.write_all(archive)?;
    encoder.finish()
}
