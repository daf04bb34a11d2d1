//! An OCI image layout in a tar archive, which `skopeo`, `podman load` and `ctr image import` read.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{Descriptor, INDEX, Packed, archive};
use laststream_base::causes::Context as _;

/// Blobs by their digest.
#[derive(Debug, Default)]
pub(crate) struct Layout(BTreeMap<String, Vec<u8>>);

impl Layout {
    /// Stores bytes under their digest.
    pub(crate) fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Descriptor {
        let descriptor = Descriptor::of(media_type, &bytes);
        self.0.insert(format!("blobs/sha256/{}", descriptor.digest.hex()), bytes);
        descriptor
    }

    /// The archive, in which `root` has the name `tag`.
    pub(crate) fn pack(self, root: &Descriptor, tag: &str) -> Result<Vec<u8>, String> {
        let mut root = json!(root);
        root["annotations"] = json!({ "org.opencontainers.image.ref.name": tag });
        let index = index(&[root]).to_string();
        let version = json!({ "imageLayoutVersion": "1.0.0" }).to_string();
        let mut files: Vec<_> = self.0.iter().map(|(path, bytes)| packed(path, bytes)).collect();
        files.push(packed("index.json", index.as_bytes()));
        files.push(packed("oci-layout", version.as_bytes()));
        archive(&files).context("an OCI layout")
    }
}

/// A list of manifests.
pub(crate) fn index(manifests: &[Value]) -> Value {
    json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests })
}

fn packed<'a>(path: &'a str, bytes: &'a [u8]) -> Packed<'a> {
    Packed { path, mode: 0o644, bytes }
}
