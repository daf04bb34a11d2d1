//! The manifest and the configuration of an image, as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::TITLE;
use laststream_base::digest::Digest;

/// The media type of a manifest.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of a list of manifests, one for each platform.
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The media type of a manifest in docker's own format.
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// The media type of a list of manifests in docker's own format.
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// The media type of a configuration.
pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// The only media type of a layer that Istio and Envoy Gateway open.
pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The annotation that names the layout.
pub const VARIANT: &str = "module.wasm.image/variant";

/// A reference to content in a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The media type of the content.
    #[serde(default)]
    pub media_type: String,
    /// The digest of the content.
    pub digest: Digest,
    /// The size of the content in bytes.
    pub size: u64,
    /// The platform, in a list of manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Annotations by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A platform, by the names that Go gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// The operating system, such as `linux`.
    #[serde(default)]
    pub os: String,
    /// The architecture, such as `amd64`.
    #[serde(default)]
    pub architecture: String,
}

impl Descriptor {
    /// The descriptor of this content.
    pub fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
            platform: None,
            annotations: BTreeMap::new(),
        }
    }

    /// The same, with the name of a file.
    pub(super) fn titled(mut self, file: &str) -> Self {
        self.annotations.insert(TITLE.to_owned(), file.to_owned());
        self
    }
}

/// A manifest: the list of an image's parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Always 2.
    pub schema_version: u32,
    /// [`MANIFEST`] in images of this program; other tools may write others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The configuration.
    pub config: Descriptor,
    /// The layers, the lowest first.
    pub layers: Vec<Descriptor>,
    /// Annotations by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The configuration. Fetchers of modules do not read the platform, but container tools do:
/// `linux/amd64` is what all of them take. containerd compares it with the node's only below an
/// index, so nodes of other architectures mount the image as a volume, too.
#[derive(Debug, Serialize)]
pub(super) struct Config {
    architecture: &'static str,
    os: &'static str,
    config: Settings,
    rootfs: RootFs,
}

/// The settings of a container. There are none, because the image is never run.
#[derive(Debug, Serialize)]
struct Settings {}

#[derive(Debug, Serialize)]
struct RootFs {
    #[serde(rename = "type")]
    kind: &'static str,
    diff_ids: [Digest; 1],
}

impl Config {
    pub(super) fn of(archive: &[u8]) -> Self {
        let rootfs = RootFs { kind: "layers", diff_ids: [Digest::of(archive)] };
        Self { architecture: "amd64", os: "linux", config: Settings {}, rootfs }
    }
}
