//! An image on this machine: the OCI layout, as a folder (`skopeo copy … oci:DIR`) or as an archive
//! of it (`docker save`, `oci-archive:`).

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use tar::EntryType;

use super::image::checked;
use super::layer::is_gzip;
use super::manifest::Document;
use super::{ImageSource, MOST};
use laststream_base::digest::Digest;
use laststream_base::foreign;
use laststream_oci::image::Descriptor;

const INDEX: &str = "index.json";

/// The limit for a manifest or an index in bytes; registries may refuse larger ones.
const LARGEST_DOCUMENT: u64 = 4 << 20;

/// The most bytes of an unpacked archive that are read.
const LARGEST_ARCHIVE: u64 = 4 * MOST;

const WAY_OUT: &str =
    "`skopeo copy docker-archive:FILE oci:DIR` makes one of what older versions of docker save";

/// The annotation with an image's name or tag in the index of a layout.
const NAME: &str = "org.opencontainers.image.ref.name";

pub fn folder(folder: &Path, tag: Option<&str>) -> Result<Box<dyn ImageSource>, String> {
    Layout::open(Folder(folder.to_owned()), tag)
}

/// Opens the layout in an archive, which may be compressed with gzip.
pub fn archive(file: &Path, tag: Option<&str>) -> Result<Box<dyn ImageSource>, String> {
    Layout::open(Archive(file.to_owned()), tag)
}

/// Reads files by their path in the layout.
trait Files {
    fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>>;
}

struct Layout<F> {
    files: F,
    digest: Digest,
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
    fn blob(&self, digest: &Digest, most: u64) -> Result<Vec<u8>, String> {
        self.files.read(&format!("blobs/sha256/{}", digest.hex()), most).map_err(
            |error| match error.kind() {
                io::ErrorKind::NotFound => format!("`{digest}` is missing"),
                _ => format!("`{digest}` cannot be read: {error}"),
            },
        )
    }
}

impl<F: Files> ImageSource for Layout<F> {
    fn manifest(&self, digest: Option<&Digest>) -> Result<Vec<u8>, String> {
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

/// An archive is searched from its beginning for each file, so only the requested file is kept.
struct Archive(PathBuf);

impl Archive {
    fn unpacked(&self) -> io::Result<Box<dyn Read>> {
        let mut file = foreign::open_named(&self.0)?;
        let mut start = Vec::new();
        file.by_ref().take(2).read_to_end(&mut start)?;
        let is_compressed = is_gzip(&start);
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
        // Raw: extended headers, whose size has no bound, are skipped. No path in a layout is long
        // enough to need one.
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

/// Whether an entry has this path, even if it is written as `./path`.
fn is_at(entry: &Path, path: &str) -> bool {
    entry.components().filter(|part| *part != Component::CurDir).eq(Path::new(path).components())
}
