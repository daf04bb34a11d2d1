//! An image in a registry.

use super::MOST;
use laststream_base::digest::Digest;
use laststream_oci::image::{Descriptor, Reference};
use laststream_oci::registry::Registry;

/// An image in a registry, named by a reference. The registry's client checks all digests.
pub struct Remote<'a> {
    pub registry: &'a Registry<'a>,
    pub reference: &'a Reference,
}

impl Remote<'_> {
    /// A manifest or an index: the one with this digest, or the one that the name points to.
    pub(super) fn manifest(&self, digest: Option<&Digest>) -> Result<Vec<u8>, String> {
        let mut reference = self.reference.clone();
        reference.digest = digest.cloned().or(reference.digest);
        let found = self.registry.manifest(&reference);
        found.map(|found| found.bytes).map_err(|error| error.with_option())
    }

    /// A layer of at most [`MOST`] bytes.
    pub(super) fn layer(&self, layer: &Descriptor) -> Result<Vec<u8>, String> {
        self.registry.blob(self.reference, layer, MOST).map_err(|error| error.with_option())
    }
}
