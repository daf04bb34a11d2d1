//! An image on this machine: the OCI layout, as a folder (`skopeo copy … oci:DIR`) or as an archive of it (`docker save`, `oci-archive:`).

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::image::Descriptor;
use super::manifest::Document;
use super::{MOST, Source};

const INDEX: &str = "index.json";

const WAY_OUT: &str = "`skopeo copy docker-archive:FILE oci:DIR` makes one of what older versions of docker save";

/// Under this annotation an image's name or tag stands in the index of a layout.
const NAME: &str = "org.opencontainers.image.ref.name";

/// The layout in a folder.
///
/// # Errors
/// It is none, or the tag does not name one of its images.
pub fn folder(folder: &Path, tag: Option<&str>) -> Result<Box<dyn Source>, String> {
    Layout::open(Folder(folder.to_owned()), tag)
}

/// The layout in an archive, which may be compressed with gzip.
///
/// # Errors
/// It is none, or the tag does not name one of its images.
pub fn archive(file: &Path, tag: Option<&str>) -> Result<Box<dyn Source>, String> {
    let read = |error: io::Error| format!("`{}` cannot be read as an archive: {error}", file.display());
    Layout::open(Archive::read(file).map_err(read)?, tag)
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
    fn open(files: F, tag: Option<&str>) -> Result<Box<dyn Source>, String> {
        let index = files.read(INDEX, MOST).map_err(|error| format!("this is no OCI layout: `{INDEX}`: {error}; {WAY_OUT}"))?;
        let images = Document::read(&index)?.manifests.unwrap_or_default();
        let digest = chosen(&images, tag)?.digest.clone();
        Ok(Box::new(Self { files, digest }))
    }
}

fn chosen<'a>(images: &'a [Descriptor], tag: Option<&str>) -> Result<&'a Descriptor, String> {
    let name = |image: &'a Descriptor| image.annotations.get(NAME).map_or("?", String::as_str);
    let names = || images.iter().map(|image| format!("`{}`", name(image))).collect::<Vec<_>>().join(", ");
    match (images, tag) {
        (_, Some(tag)) => images.iter().find(|image| name(image) == tag).ok_or_else(|| format!("it has no image `{tag}`, but {}", names())),
        ([], None) => Err("it has no image".to_owned()),
        ([image], None) => Ok(image),
        (_, None) => Err(format!("it has several images ({}): choose one with `--tag`", names())),
    }
}

impl<F: Files> Layout<F> {
    fn blob(&self, digest: &str) -> Result<Vec<u8>, String> {
        let hex = digest.strip_prefix("sha256:").filter(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let hex = hex.ok_or_else(|| format!("`{digest}` is no sha256 digest"))?;
        self.files.read(&format!("blobs/sha256/{hex}"), MOST).map_err(|error| format!("`{digest}` is missing: {error}"))
    }
}

impl<F: Files> Source for Layout<F> {
    fn manifest(&self, digest: Option<&str>) -> Result<Vec<u8>, String> {
        self.blob(digest.unwrap_or(&self.digest))
    }

    fn layer(&self, layer: &Descriptor) -> Result<Vec<u8>, String> {
        self.blob(&layer.digest)
    }
}

struct Folder(PathBuf);

impl Files for Folder {
    fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.0.join(path))?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

struct Archive(HashMap<PathBuf, Vec<u8>>);

impl Archive {
    fn read(file: &Path) -> io::Result<Self> {
        let mut start = Vec::new();
        File::open(file)?.take(2).read_to_end(&mut start)?;
        let file = File::open(file)?;
        let reader: Box<dyn Read> = if start == [0x1f, 0x8b] { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        // Whatever it unpacks to, there is an end to it.
        let mut archive = tar::Archive::new(reader.take(2 * MOST));
        let mut files = HashMap::new();
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            files.insert(path, bytes);
        }
        Ok(Self(files))
    }
}

impl Files for Archive {
    fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        let bytes = self.0.get(Path::new(path)).ok_or(io::ErrorKind::NotFound)?;
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(bytes.len());
        Ok(bytes.get(..most).unwrap_or_default().to_owned())
    }
}
