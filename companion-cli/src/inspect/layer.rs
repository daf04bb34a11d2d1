//! Finds the module in a layer.

use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::MOST;
use crate::image::FILE;

/// What is in a layer.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    /// The module, also where nobody would look for it.
    pub(super) module: Option<Vec<u8>>,
    /// Why nobody would find it, as the end of “because …”.
    pub(super) obstacle: Option<String>,
    /// The layer is the module, without archive and compression.
    pub(super) is_bare: bool,
}

pub(super) fn unpack(layer: &[u8]) -> Unpacked {
    if layer.starts_with(b"\0asm") {
        let obstacle = Some("its last layer is the module itself, and no archive".to_owned());
        return Unpacked { module: Some(layer.to_owned()), obstacle, is_bare: true };
    }
    if !is_gzip(layer) {
        return of_archive(layer, Some("its last layer is not compressed with gzip"));
    }
    match bounded(MultiGzDecoder::new(layer)) {
        Err(error) => obstacle(format!("its last layer is damaged: {error}")),
        Ok(inner) if is_gzip(&inner) => match bounded(MultiGzDecoder::new(inner.as_slice())) {
            Ok(archive) => of_archive(&archive, Some("its last layer is compressed twice")),
            Err(_) => obstacle("its last layer is compressed twice".to_owned()),
        },
        Ok(archive) => of_archive(&archive, None),
    }
}

fn obstacle(because: String) -> Unpacked {
    Unpacked { obstacle: Some(because), ..Unpacked::default() }
}

fn of_archive(archive: &[u8], because: Option<&str>) -> Unpacked {
    let because = because.map(str::to_owned);
    match find(archive) {
        Ok(module) => Unpacked { module: Some(module), obstacle: because, is_bare: false },
        Err(error) => obstacle(because.unwrap_or(error)),
    }
}

/// The first file with the name counts.
fn find(archive: &[u8]) -> Result<Vec<u8>, String> {
    let damaged = |error: io::Error| format!("its last layer is no tar archive, or damaged: {error}");
    let mut archive = tar::Archive::new(archive);
    let mut others = Vec::new();
    for entry in archive.entries().map_err(damaged)? {
        let entry = entry.map_err(damaged)?;
        let path = entry.path().map_err(damaged)?.into_owned();
        if path.file_name() == Some(FILE.as_ref()) {
            if entry.size() > MOST {
                return Err(format!("`{FILE}` in it has {} bytes, and no more than {MOST} are read", entry.size()));
            }
            return bounded(entry).map_err(damaged);
        }
        others.push(path);
    }
    Err(missing(&others))
}

fn missing(others: &[impl AsRef<Path>]) -> String {
    let some = 5;
    let mut names: Vec<_> = others.iter().take(some).map(|path| format!("`{}`", path.as_ref().display())).collect();
    if others.len() > some {
        names.push(format!("{} more", others.len() - some));
    }
    let holds = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    format!("its last layer holds no `{FILE}`, and the layers before it are not looked into; it holds {holds}")
}

/// A small layer can unpack to anything, so there is an end to it.
fn bounded(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = MOST + (1 << 20); // what the archive adds
    reader.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it unpacks to more than {MOST} bytes")));
    }
    Ok(bytes)
}

fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}
