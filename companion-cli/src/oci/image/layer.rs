//! The one layer: a gzipped tar archive with the module in it. The same module gives the same bytes, whoever makes it, and when.

use std::io::{self, Write as _};

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// Istio and Envoy Gateway look for a file of this name.
pub const FILE: &str = "plugin.wasm";

/// RFC 1952: nobody knows which system made it.
const UNKNOWN_SYSTEM: u8 = 255;

/// The archive as it is before compression. Owner, mode and time are not those of any file.
pub(super) fn archive(module: &[u8]) -> io::Result<Vec<u8>> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_path(FILE)?;
    header.set_size(module.len() as u64);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_cksum();
    let mut builder = Builder::new(Vec::with_capacity(module.len() + 2048));
    builder.append(&header, module)?;
    builder.into_inner()
}

pub(super) fn compress(archive: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).operating_system(UNKNOWN_SYSTEM).write(Vec::new(), Compression::best());
    encoder.write_all(archive)?;
    encoder.finish()
}
