//! Manifests and indexes of images, as far as they are read here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::oci::image::MANIFEST;

/// A layer beside Docker's own manifest.
pub(super) const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
/// The layout of Solo's wasme: the module as it is, beside its configuration.
pub(super) const SOLO_MODULE: &str = "application/vnd.module.wasm.content.layer.v1+wasm";

/// A manifest or an index.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    pub(super) media_type: Option<String>,
    pub(super) config: Option<Descriptor>,
    pub(super) layers: Option<Vec<Descriptor>>,
    /// Only an index has it.
    pub(super) manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
}

/// What is said of a part of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is.
    #[serde(default)]
    pub media_type: String,
    /// `sha256:` and hexadecimal.
    pub digest: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its platform, in an index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Words with values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A kind of machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// Its system.
    #[serde(default)]
    pub os: String,
    /// Its processor.
    #[serde(default)]
    pub architecture: String,
}

impl Document {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes)
            .map_err(|error| format!("the manifest cannot be read: {error}"))
    }

    /// What it says itself, as Istio's agent asks, whatever is said where it lies.
    pub(super) fn media_type(&self) -> &str {
        self.media_type.as_deref().unwrap_or(MANIFEST)
    }
}
