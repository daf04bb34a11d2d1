//! Finds the module in a layer.

use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::MOST;
use laststream_base::foreign;
use laststream_oci::image::FILE;

/// The content of a layer.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    /// The module, even in a place where Istio and Envoy Gateway do not look.
    pub(super) module: Option<Vec<u8>>,
    /// The reason why they would not find it, as the end of “because …”.
    pub(super) obstacle: Option<String>,
    /// Whether the layer is the module itself, without archive and compression.
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

/// Finds the module: the first file with the name.
fn find(archive: &[u8]) -> Result<Vec<u8>, String> {
    let damaged =
        |error: io::Error| format!("its last layer is no tar archive, or damaged: {error}");
    let mut archive = tar::Archive::new(archive);
    let mut others = Others::default();
    for entry in archive.entries().map_err(damaged)? {
        let entry = entry.map_err(damaged)?;
        let path = entry.path().map_err(damaged)?.into_owned();
        if path.file_name() == Some(FILE.as_ref()) {
            if entry.size() > MOST {
                return Err(format!(
                    "`{FILE}` in it has {} bytes, and no more than {MOST} are read",
                    entry.size()
                ));
            }
            return bounded(entry).map_err(damaged);
        }
        others.add(&path);
    }
    Err(others.without_module())
}

/// Files with other names: the first few, and how many there are.
#[derive(Default)]
struct Others {
    names: Vec<String>,
    count: usize,
}

impl Others {
    const SHOWN: usize = 5;
    const LONGEST: usize = 100;

    fn add(&mut self, path: &Path) {
        self.count += 1;
        if self.names.len() < Self::SHOWN {
            let name = path.to_string_lossy();
            let end = if name.chars().nth(Self::LONGEST).is_some() { "…" } else { "" };
            self.names
                .push(format!("`{}{end}`", name.chars().take(Self::LONGEST).collect::<String>()));
        }
    }

    fn without_module(&self) -> String {
        let mut names = self.names.clone();
        if self.count > names.len() {
            names.push(format!("{} more", self.count - names.len()));
        }
        let holds = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        format!(
            "its last layer holds no `{FILE}`, and the layers before it are not looked into; it \
                holds {holds}"
        )
    }
}

/// Reads up to a limit, because a small layer can unpack to any size.
fn bounded(reader: impl Read) -> io::Result<Vec<u8>> {
    let what_the_archive_adds = 1 << 20;
    foreign::read_to(reader, MOST + what_the_archive_adds)
}

fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}
