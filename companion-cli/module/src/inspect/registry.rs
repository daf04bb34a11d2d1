//! An image in a registry.

use super::image::Descriptor;
use super::{ImageSource, MOST};
use laststream_base::digest::{Digest, NotADigest};
use laststream_oci::image::{self, Reference};
use laststream_oci::registry::{Registry, RegistryError};

/// An image in a registry, named by a reference.
pub struct Remote<'a> {
    /// The registry.
    pub registry: &'a Registry<'a>,
    /// The reference of the image.
    pub reference: &'a Reference,
    /// The words for an error.
    pub explain: fn(&RegistryError) -> String,
}

impl ImageSource for Remote<'_> {
    fn manifest(&self, digest: Option<&str>) -> Result<Vec<u8>, String> {
        let mut reference = self.reference.clone();
        if let Some(digest) = digest {
            reference.digest = Some(parse(digest)?);
        }
        Ok(self.registry.manifest(&reference).map_err(|error| (self.explain)(&error))?.bytes)
    }

    fn layer(&self, layer: &Descriptor) -> Result<Vec<u8>, String> {
        let blob = image::Descriptor {
            media_type: layer.media_type.clone(),
            digest: parse(&layer.digest)?,
            size: layer.size,
            annotations: layer.annotations.clone(),
        };
        self.registry.blob(self.reference, &blob, MOST).map_err(|error| (self.explain)(&error))
    }
}

fn parse(digest: &str) -> Result<Digest, String> {
    digest.parse().map_err(|error: NotADigest| error.to_string())
}
