//! Makes OCI layouts, good and bad ones.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use laststream_base::digest::Digest;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

/// A layout in a separate folder.
pub(crate) struct Layout {
    folder: TempDir,
}

impl Layout {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("blobs/sha256")).unwrap();
        fs::write(folder.path().join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Stores a blob, and returns its descriptor.
    pub(crate) fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = Digest::of(bytes);
        fs::write(self.path().join("blobs/sha256").join(digest.hex()), bytes).unwrap();
        json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    }

    pub(crate) fn manifest(&self, media_type: &str, layers: &[(&str, Vec<u8>)]) -> Value {
        let layers: Vec<_> =
            layers.iter().map(|(media_type, bytes)| self.blob(media_type, bytes)).collect();
        let config = self.blob("application/vnd.oci.image.config.v1+json", b"{}");
        self.document(
            media_type,
            &json!({
                "schemaVersion": 2, "mediaType": media_type, "config": config, "layers": layers,
            }),
        )
    }

    pub(crate) fn document(&self, media_type: &str, document: &Value) -> Value {
        self.blob(media_type, document.to_string().as_bytes())
    }

    pub(crate) fn index(&self, manifests: &[Value]) {
        let index = json!({ "schemaVersion": 2, "manifests": manifests });
        fs::write(self.path().join("index.json"), index.to_string()).unwrap();
    }

    /// A layout with one image.
    pub(crate) fn of(media_type: &str, layers: &[(&str, Vec<u8>)]) -> Self {
        let layout = Self::new();
        let manifest = layout.manifest(media_type, layers);
        layout.index(&[manifest]);
        layout
    }

    pub(crate) fn archive(&self, file: &Path, compressed: bool) {
        let mut builder = tar::Builder::new(Vec::new());
        builder.append_dir_all(".", self.path()).unwrap();
        let archive = builder.into_inner().unwrap();
        File::create(file)
            .unwrap()
            .write_all(&if compressed { gzip(&archive) } else { archive })
            .unwrap();
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}
