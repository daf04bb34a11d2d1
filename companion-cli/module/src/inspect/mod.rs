//! Inspects a module or an image: whether Istio and Envoy Gateway can load it, or why not, and
//! which module it is.

mod image;
mod layer;
mod manifest;

use serde::Serialize;

use crate::analysis::{Module, ModuleKind, analyse};
pub use image::Image;
use laststream_base::digest::Digest;
use laststream_oci::image::Reference;
use laststream_oci::registry::Registry;

/// The largest module that Istio's agent and Envoy Gateway accept, in bytes. Reading more is
/// useless.
pub const MOST: u64 = 256 << 20;

#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    pub image: Option<Image>,
    pub module: Option<Module>,
    /// Why Istio and Envoy Gateway cannot load it, each as the end of “because …”. If the list is
    /// empty, they can.
    pub because: Vec<String>,
    pub checksums: Vec<Checksum>,
}

/// The digest to pin an image by.
#[derive(Debug)]
pub struct Pin {
    pub digest: Digest,
    /// Whether it is the digest of a manifest in the index that the reference names.
    pub is_of_index: bool,
    /// Why the image does not give the expected module, as the end of a sentence about it.
    pub difference: Option<String>,
}

impl Inspection {
    /// The pin of an image that must hold a module of this kind. `is_mounted`: kubelet mounts the
    /// image. It takes any layout, and a proxy does not.
    ///
    /// # Errors
    /// It cannot be pinned. The reason is the end of a sentence about the image.
    pub fn pin(self, kind: ModuleKind, is_mounted: bool) -> Result<Pin, String> {
        let because = self.because.join("; ");
        let difference = match &self.module {
            Some(module) if module.kind == kind => None,
            Some(module) => Some(format!("holds {}, but this must be {kind}", module.kind)),
            None => Some(format!("holds no module: {because}")),
        };
        let Some((digest, pin)) = self.image.map(|image| (image.digest, image.pin)) else {
            return Err(difference.unwrap_or_else(|| NO_PIN.to_owned()));
        };
        let is_of_index = pin.as_ref() != Some(&digest);
        let is_loadable = is_mounted || is_of_index || because.is_empty();
        let unloadable = || (!is_loadable).then(|| format!("cannot be loaded: {because}"));
        let difference = difference.or_else(unloadable);
        match pin {
            Some(digest) => Ok(Pin { digest, is_of_index, difference }),
            None => Err(difference.unwrap_or_else(|| NO_PIN.to_owned())),
        }
    }
}

const NO_PIN: &str = "has no digest to pin";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checksum {
    /// The object of the checksum: `manifest` or `module`.
    pub of: &'static str,
    pub sha256: String,
    /// The place to write it to.
    pub belongs: &'static str,
}

pub fn module(bytes: &[u8]) -> Inspection {
    inspection(None, Some(bytes))
}

/// Inspects the image that the reference names.
pub fn image(registry: &Registry<'_>, reference: &Reference) -> Result<Inspection, String> {
    let remote = image::inspect(registry, reference)?;
    Ok(inspection(Some(remote.image), remote.module.as_deref()))
}

fn inspection(image: Option<Image>, bytes: Option<&[u8]>) -> Inspection {
    let mut because: Vec<String> = image.iter().flat_map(|image| image.obstacles.clone()).collect();
    let module = bytes.map(analyse).transpose().unwrap_or_else(|what| {
        because.push(format!("the module {what}"));
        None
    });
    Inspection { checksums: checksums(image.as_ref(), module.as_ref()), image, module, because }
}

fn checksums(image: Option<&Image>, module: Option<&Module>) -> Vec<Checksum> {
    let of_manifest = image.and_then(|image| image.pin.as_ref()).map(|digest| Checksum {
        of: "manifest",
        sha256: digest.hex().to_owned(),
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
