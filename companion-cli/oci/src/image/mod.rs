//! A module as an image, in the layout that Istio's and Envoy Gateway's fetchers both accept
//! ("compat"): one manifest, one layer, and in it `plugin.wasm`. [`crate::registry`] sends it
//! to a registry.

mod layer;
mod manifest;

use std::collections::BTreeMap;
use std::io;

use laststream_base::digest::Digest;
pub use laststream_base::image_reference::{
    DOCKER_HUB, FILE, NotAReference, Reference, is_docker_hub,
};
pub use layer::{Packed, archive, compress};
pub use manifest::{
    CONFIG, DOCKER_LIST, DOCKER_MANIFEST, Descriptor, INDEX, LAYER, MANIFEST, Manifest, Platform,
    VARIANT,
};

/// All parts of an image, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The manifest, as it is sent.
    pub manifest: Vec<u8>,
    /// The configuration, as it is sent.
    pub config: Vec<u8>,
    /// The only layer, compressed.
    pub layer: Vec<u8>,
    /// The digest of the manifest, which is the image's.
    pub digest: Digest,
}

/// The annotation with the title of an image, or with the file name of a layer.
pub const TITLE: &str = "org.opencontainers.image.title";
/// The name under which tools that fetch layers as files, such as `oras pull`, write the layer.
/// Without a name they skip it.
const LAYER_FILE: &str = "plugin.tar.gz";

impl Image {
    /// Packs a module. The bytes depend on the module and the annotations only, not on clock, user
    /// or machine.
    pub fn of(module: &[u8], mut annotations: BTreeMap<String, String>) -> io::Result<Self> {
        let archive = archive(&[Packed { path: FILE, mode: 0o644, bytes: module }])?;
        let layer = compress(&archive)?;
        let config = serde_json::to_vec(&manifest::Config::of(&archive))?;
        annotations.insert(VARIANT.to_owned(), "compat".to_owned());
        let manifest = Manifest {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            config: Descriptor::of(CONFIG, &config),
            layers: vec![Descriptor::of(LAYER, &layer).titled(LAYER_FILE)],
            annotations,
        };
        let manifest = serde_json::to_vec(&manifest)?;
        let digest = Digest::of(&manifest);
        Ok(Self { manifest, config, layer, digest })
    }

    /// The blobs of the manifest, in the order in which they are sent.
    pub fn blobs(&self) -> [(Descriptor, &[u8]); 2] {
        [
            (Descriptor::of(LAYER, &self.layer), &self.layer),
            (Descriptor::of(CONFIG, &self.config), &self.config),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    /// A test module: one half of it compresses well, the other does not, as in a real module.
    fn module() -> Vec<u8> {
        let mut state: u32 = 1;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        let mut bytes = b"\0asm\x01\0\0\0".to_vec();
        let byte = |place: u32| if place % 512 < 256 { noise() } else { place.to_le_bytes()[1] };
        bytes.extend((0..60_000).map(byte));
        bytes
    }

    fn annotations() -> BTreeMap<String, String> {
        BTreeMap::from([(TITLE.to_owned(), "a module".to_owned())])
    }

    /// Users have pinned the digests of these bytes. If this test fails after an update of a crate,
    /// the same module will get another digest, and the changelog must say so.
    #[test]
    fn the_same_module_always_has_the_same_digest() {
        let image = Image::of(&module(), annotations()).unwrap();
        assert_eq!(
            image.digest.as_str(),
            "sha256:ccc23a76c96659070bbb431babb840f8dfa544aa31afa6eddd33709f0895a249"
        );
        assert_eq!(image, Image::of(&module(), annotations()).unwrap());
    }

    #[test]
    fn the_layer_holds_the_module_and_nothing_of_the_machine() {
        let image = Image::of(&module(), BTreeMap::new()).unwrap();
        assert_eq!(
            &image.layer[..10],
            [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255],
            "the gzip header: no time, no system"
        );
        let mut archive = Vec::new();
        flate2::read::GzDecoder::new(&image.layer[..]).read_to_end(&mut archive).unwrap();
        let mut tar = tar::Archive::new(&archive[..]);
        let mut entries = tar.entries().unwrap();
        let mut entry = entries.next().unwrap().unwrap();
        let header = entry.header();
        assert_eq!(entry.path().unwrap().to_str(), Some(FILE));
        let of_machine = [header.mtime(), header.uid(), header.gid()].map(Result::unwrap);
        assert_eq!((of_machine, header.mode().unwrap()), ([0; 3], 0o644));
        let manifest: Manifest = serde_json::from_slice(&image.manifest).unwrap();
        assert_eq!(manifest.layers, [Descriptor::of(LAYER, &image.layer).titled(LAYER_FILE)]);
        assert_eq!(manifest.config, Descriptor::of(CONFIG, &image.config));
        let mut found = Vec::new();
        entry.read_to_end(&mut found).unwrap();
        assert!(found == module());
        assert!(entries.next().is_none());
        let config: serde_json::Value = serde_json::from_slice(&image.config).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], Digest::of(&archive).as_str());
    }
}
