//! An image on this machine: the OCI layout, as a folder (`skopeo copy … oci:DIR`) or as an archive
//! of it (`docker save`, `oci-archive:`).

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use tar::EntryType;

use super::image::{Descriptor, checked};
use super::manifest::Document;
use super::{ImageSource, MOST};
use crate::foreign;

const INDEX: &str = "index.json";

/// Manifests and indexes: registries may refuse larger ones.
const LARGEST_DOCUMENT: u64 = 4 << 20;

/// At most so many bytes of an unpacked archive are read.
const LARGEST_ARCHIVE: u64 = 4 * MOST;

const WAY_OUT: &str =
    "`skopeo copy docker-archive:FILE oci:DIR` makes one of what older versions of docker save";

/// Under this annotation an image's name or tag stands in the index of a layout.
const NAME: &str = "org.opencontainers.image.ref.name";

/// The layout in a folder.
///
/// # Errors
/// It is none, or the tag does not name one of its images.
pub fn folder(folder: &Path, tag: Option<&str>) -> Result<Box<dyn ImageSource>, String> {
    Layout::open(Folder(folder.to_owned()), tag)
}

/// The layout in an archive, which may be compressed with gzip.
///
/// # Errors
/// It is none, or the tag does not name one of its images.
pub fn archive(file: &Path, tag: Option<&str>) -> Result<Box<dyn ImageSource>, String> {
    Layout::open(Archive(file.to_owned()), tag)
}

/// Files by their path in the layout.
trait Files {
    fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>>;
}

struct Layout<F> {
    files: F,
    /// The image that is meant.
    digest: String,
}

impl<F: Files + 'static> Layout<F> {
    fn open(files: F, tag: Option<&str>) -> Result<Box<dyn ImageSource>, String> {
        let index = files
            .read(INDEX, LARGEST_DOCUMENT)
            .map_err(|error| format!("this is no OCI layout: `{INDEX}`: {error}; {WAY_OUT}"))?;
        let images = Document::read(&index)?.manifests.unwrap_or_default();
        let digest = chosen(&images, tag)?.digest.clone();
        Ok(Box::new(Self { files, digest }))
    }
}

fn chosen<'a>(images: &'a [Descriptor], tag: Option<&str>) -> Result<&'a Descriptor, String> {
    let name = |image: &'a Descriptor| image.annotations.get(NAME).map_or("?", String::as_str);
    let names =
        || images.iter().map(|image| format!("`{}`", name(image))).collect::<Vec<_>>().join(", ");
    match (images, tag) {
        (_, Some(tag)) => images
            .iter()
            .find(|image| name(image) == tag)
            .ok_or_else(|| format!("it has no image `{tag}`, but {}", names())),
        ([], None) => Err("it has no image".to_owned()),
        ([image], None) => Ok(image),
        (_, None) => Err(format!("it has several images ({}): choose one with `--tag`", names())),
    }
}

impl<F: Files> Layout<F> {
    fn blob(&self, digest: &str, most: u64) -> Result<Vec<u8>, String> {
        let hex = digest
            .strip_prefix("sha256:")
            .filter(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let hex = hex.ok_or_else(|| format!("`{digest}` is no sha256 digest"))?;
        self.files.read(&format!("blobs/sha256/{hex}"), most).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("`{digest}` is missing"),
            _ => format!("`{digest}` cannot be read: {error}"),
        })
    }
}

impl<F: Files> ImageSource for Layout<F> {
    fn manifest(&self, digest: Option<&str>) -> Result<Vec<u8>, String> {
        match digest {
            Some(digest) => self.blob(digest, LARGEST_DOCUMENT),
            None => checked(self.blob(&self.digest, LARGEST_DOCUMENT)?, &self.digest),
        }
    }

    fn layer(&self, layer: &Descriptor) -> Result<Vec<u8>, String> {
        self.blob(&layer.digest, MOST)
    }
}

struct Folder(PathBuf);

impl Files for Folder {
    fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        foreign::read_below(&self.0, Path::new(path), most)
    }
}

/// Searched from its beginning for each file: what is kept of it is only what was asked for.
struct Archive(PathBuf);

impl Archive {
    fn unpacked(&self) -> io::Result<Box<dyn Read>> {
        let mut file = foreign::open_named(&self.0)?;
        let mut start = Vec::new();
        file.by_ref().take(2).read_to_end(&mut start)?;
        let is_compressed = start == [0x1f, 0x8b];
        let file = io::Cursor::new(start).chain(file);
        let reader: Box<dyn Read> =
            if is_compressed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        Ok(Box::new(reader.take(LARGEST_ARCHIVE)))
    }
}

impl Files for Archive {
    fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        let damaged =
            |error| io::Error::other(format!("this cannot be read as an archive: {error}"));
        let mut archive = tar::Archive::new(self.unpacked()?);
        let mut found = None;
        // Raw: extended headers, whose size has no bound, are passed over. No path in a layout is
        // long enough to need one.
        for entry in archive.entries().map_err(damaged)?.raw(true) {
            let mut entry = entry.map_err(damaged)?;
            if !is_at(&entry.path()?, path) {
                continue;
            }
            if !matches!(entry.header().entry_type(), EntryType::Regular | EntryType::Continuous) {
                return Err(io::Error::other("it is not a regular file in the archive"));
            }
            if found.is_some() {
                return Err(io::Error::other("it is in the archive twice"));
            }
            found = Some(foreign::read_to(&mut entry, most)?);
        }
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Whether an entry has this path, be it written as `./path`.
fn is_at(entry: &Path, path: &str) -> bool {
    entry.components().filter(|part| *part != Component::CurDir).eq(Path::new(path).components())
}
