//! A registry with one image, good or bad.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use kit::Outcome;
use kit::fake_server::{Answer, FakeServer, Replies};
use laststream_base::digest::Digest;
use serde_json::{Value, json};

pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

pub(crate) struct Registry {
    replies: Replies,
    server: FakeServer,
}

impl Registry {
    pub(crate) fn start() -> Outcome<Self> {
        let replies = Replies::default();
        Ok(Self { server: replies.serve()?, replies })
    }

    /// A registry whose image has these layers.
    pub(crate) fn with_image(media_type: &str, layers: &[(&str, Vec<u8>)]) -> Outcome<Self> {
        let registry = Self::start()?;
        registry.tag(&registry.manifest(media_type, layers));
        Ok(registry)
    }

    /// The name of the image.
    pub(crate) fn image(&self) -> String {
        format!("{}/a:1", self.server.address)
    }

    /// Stores a blob, and returns its descriptor.
    pub(crate) fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = Digest::of(bytes);
        self.serve(&format!("blobs/{digest}"), bytes);
        json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    }

    /// Stores layers, and returns the manifest with them.
    pub(crate) fn manifest(&self, media_type: &str, layers: &[(&str, Vec<u8>)]) -> Value {
        let layers = layers.iter().map(|(media_type, bytes)| self.blob(media_type, bytes));
        let layers: Vec<_> = layers.collect();
        let config = self.blob("application/vnd.oci.image.config.v1+json", b"{}");
        json!({ "schemaVersion": 2, "mediaType": media_type, "config": config, "layers": layers })
    }

    /// Stores a manifest, and returns its descriptor.
    pub(crate) fn add(&self, manifest: &Value) -> Value {
        let text = manifest.to_string();
        self.serve(&format!("manifests/{}", Digest::of(text.as_bytes())), text.as_bytes());
        self.blob(OCI_MANIFEST, text.as_bytes())
    }

    /// Makes a manifest or an index the image.
    pub(crate) fn tag(&self, document: &Value) {
        self.serve("manifests/1", document.to_string().as_bytes());
    }

    pub(crate) fn serve(&self, path: &str, bytes: &[u8]) {
        self.replies.set(&format!("GET /v2/a/{path}"), Ok(Answer::new(200).body(bytes)));
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
