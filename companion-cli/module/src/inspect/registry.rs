//! An image in a registry.

use super::{ImageSource, MOST};
use laststream_base::digest::Digest;
use laststream_oci::image::{Descriptor, Reference};
use laststream_oci::registry::{Registry, RegistryError};

/// An image in a registry, named by a reference.
pub struct Remote<'a> {
    pub registry: &'a Registry<'a>,
    pub reference: &'a Reference,
    pub explain: fn(&RegistryError) -> String,
}

impl ImageSource for Remote<'_> {
    fn manifest(&self, digest: Option<&Digest>) -> Result<Vec<u8>, String> {
        let mut reference = self.reference.clone();
        reference.digest = digest.cloned().or(reference.digest);
        Ok(self.registry.manifest(&reference).map_err(|error| (self.explain)(&error))?.bytes)
    }

    fn layer(&self, layer: &Descriptor) -> Result<Vec<u8>, String> {
        self.registry.blob(self.reference, layer, MOST).map_err(|error| (self.explain)(&error))
    }
}
