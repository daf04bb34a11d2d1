//! Manifests and indexes of images, as far as they are read here.

use serde::Deserialize;

use laststream_oci::image::{Descriptor, MANIFEST};

/// The media type of layers in Docker's own manifests.
pub(super) const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
/// The layout of Solo's wasme: the bare module, beside its configuration.
pub(super) const SOLO_MODULE: &str = "application/vnd.module.wasm.content.layer.v1+wasm";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    pub(super) media_type: Option<String>,
    pub(super) layers: Option<Vec<Descriptor>>,
    /// Only an index has manifests.
    pub(super) manifests: Option<Vec<Descriptor>>,
}

impl Document {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes)
            .map_err(|error| format!("the manifest cannot be read: {error}"))
    }

    /// The media type in the document itself, as Istio's agent reads it, whatever the registry or
    /// the index says.
    pub(super) fn media_type(&self) -> &str {
        self.media_type.as_deref().unwrap_or(MANIFEST)
    }
}
