//! Manifests and indexes of images, as far as they are read here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use laststream_oci::image::MANIFEST;

/// The media type of layers in Docker's own manifests.
pub(super) const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
/// The layout of Solo's wasme: the bare module, beside its configuration.
pub(super) const SOLO_MODULE: &str = "application/vnd.module.wasm.content.layer.v1+wasm";

/// A manifest or an index.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    pub(super) media_type: Option<String>,
    pub(super) config: Option<Descriptor>,
    pub(super) layers: Option<Vec<Descriptor>>,
    /// Only an index has manifests.
    pub(super) manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
}

/// The description of a part of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Its media type.
    #[serde(default)]
    pub media_type: String,
    /// `sha256:` and hexadecimal.
    pub digest: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its platform, in an index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Its annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// The operating system.
    #[serde(default)]
    pub os: String,
    /// The processor architecture.
    #[serde(default)]
    pub architecture: String,
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
