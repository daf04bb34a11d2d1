//! Finds the module in a layer.

use std::borrow::Cow;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

use super::MOST;
use laststream_base::foreign;
use laststream_oci::image::FILE;

/// The first file with the module's name. An archive that is not compressed is searched, too.
pub(super) fn module_in(layer: &[u8]) -> Result<Vec<u8>, String> {
    let damaged =
        |error: io::Error| format!("its last layer is no tar archive, or damaged: {error}");
    let archive = match is_gzip(layer) {
        true => Cow::Owned(bounded(MultiGzDecoder::new(layer)).map_err(damaged)?),
        false => Cow::Borrowed(layer),
    };
    for entry in tar::Archive::new(&*archive).entries().map_err(damaged)? {
        let entry = entry.map_err(damaged)?;
        if entry.path().map_err(damaged)?.file_name() != Some(FILE.as_ref()) {
            continue;
        }
        if entry.size() > MOST {
            return Err(format!(
                "`{FILE}` in it has {} bytes, and no more than {MOST} are read",
                entry.size()
            ));
        }
        return bounded(entry).map_err(damaged);
    }
    Err(format!("its last layer holds no `{FILE}`, and the layers before it are not looked into"))
}

/// Reads up to a limit, because a small layer can unpack to any size.
fn bounded(reader: impl Read) -> io::Result<Vec<u8>> {
    let what_the_archive_adds = 1 << 20;
    foreign::read_to(reader, MOST + what_the_archive_adds)
}

pub(super) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}
