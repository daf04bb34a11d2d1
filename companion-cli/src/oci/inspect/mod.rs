//! Inspects a module or an image: which consumers can use it, and why the others cannot. An
//! [`ImageSource`] gives the parts of an image.

mod files;
pub mod image;
mod layer;
mod manifest;
mod registry;
pub mod verdicts;

use serde::Serialize;

use crate::module::analysis::{Module, analyse};
pub use files::{archive, folder};
pub use image::{Descriptor, Image};
pub use registry::Remote;
pub use verdicts::{Consumer, Usability, Verdict};

/// The largest module that Istio's agent and Envoy Gateway accept, in bytes. Reading more is
/// useless.
pub const MOST: u64 = 256 << 20;

/// Gives the parts of one image: a folder, an archive, a registry. It need not check digests,
/// because the caller does.
pub trait ImageSource {
    /// A manifest or an index: the one with this digest, or the one that the image's name points
    /// to.
    ///
    /// # Errors
    /// Says what failed, and what to do.
    fn manifest(&self, digest: Option<&str>) -> Result<Vec<u8>, String>;

    /// A layer. Layers larger than [`MOST`] by their descriptor are not requested.
    ///
    /// # Errors
    /// Says what failed, and what to do.
    fn layer(&self, layer: &Descriptor) -> Result<Vec<u8>, String>;
}

/// The result of an inspection.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// The image, if it is one.
    pub image: Option<Image>,
    /// The module, if there is one.
    pub module: Option<Module>,
    /// The verdict for each consumer.
    pub verdicts: Vec<Verdict>,
    /// The checksums, and where each of them belongs.
    pub checksums: Vec<Checksum>,
}

/// A checksum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checksum {
    /// The object of the checksum: `manifest` or `module`.
    pub of: &'static str,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// The place to write it to.
    pub belongs: &'static str,
}

/// Inspects the bytes of a module.
#[must_use]
pub fn module(bytes: &[u8]) -> Inspection {
    let module = analyse(bytes);
    let verdicts = verdicts::of_module(&module);
    let module = module.ok();
    Inspection { checksums: checksums(None, module.as_ref()), image: None, module, verdicts }
}

/// Inspects an image.
///
/// # Errors
/// Parts of it cannot be fetched or read.
pub fn image(source: &dyn ImageSource) -> Result<Inspection, String> {
    let found = image::inspect(source)?;
    let module = found.module.as_deref().map(analyse);
    let verdicts = verdicts::of_image(&found.image.obstacles, module.as_ref());
    let module = module.and_then(Result::ok);
    Ok(Inspection {
        checksums: checksums(Some(&found.image), module.as_ref()),
        image: Some(found.image),
        module,
        verdicts,
    })
}

fn checksums(image: Option<&Image>, module: Option<&Module>) -> Vec<Checksum> {
    let of_manifest = image.and_then(|image| image.pin.as_deref()).map(|digest| Checksum {
        of: "manifest",
        sha256: digest.trim_start_matches("sha256:").to_owned(),
        belongs: "`sha256` beside an `oci://` URI (Istio, Envoy Gateway), and behind `@sha256:` in \
            the URI",
    });
    let of_module = module.map(|module| Checksum {
        of: "module",
        sha256: module.sha256.clone(),
        belongs: "`sha256` beside an `http://` or `https://` URI (Istio, Envoy Gateway, \
            `code.remote` of a plain Envoy)",
    });
    of_manifest.into_iter().chain(of_module).collect()
}
