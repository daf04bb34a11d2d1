//! Reads an image as Istio's agent does (Envoy Gateway has the same code), and notes where the
//! agent would fail. It continues after such a place, so that a misplaced module is inspected, too.

use std::collections::BTreeMap;

use serde::Serialize;

use super::layer::{self, Unpacked};
pub use super::manifest::Descriptor;
use super::manifest::Platform;
use super::manifest::{DOCKER_LAYER, Document, SOLO_MODULE};
use super::{ImageSource, MOST};
use laststream_base::digest::Digest;
use laststream_oci::image::{DOCKER_MANIFEST, FILE, INDEX, LAYER};

/// An image.
#[derive(Debug, Clone, Serialize)]
pub struct Image {
    /// The digest of the manifest or of the index: `sha256:` and hexadecimal.
    pub digest: String,
    /// The media type of the manifest or of the index.
    pub media_type: String,
    /// The media type of the configuration.
    pub config_media_type: Option<String>,
    /// The layers; for an index, those of its manifest for linux/amd64.
    pub layers: Vec<Descriptor>,
    /// The manifests, if it is an index.
    pub manifests: Vec<Descriptor>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
    /// The digest that the image can be pinned by, if it can be used at all.
    #[serde(skip)]
    pub pin: Option<String>,
    /// Reasons why Istio and Envoy Gateway do not find the module in it, each as the end of
    /// “because …”.
    #[serde(skip)]
    pub obstacles: Vec<String>,
}

/// An image, and the module in it.
pub(super) struct InspectedImage {
    pub(super) image: Image,
    pub(super) module: Option<Vec<u8>>,
}

pub(super) fn inspect(source: &dyn ImageSource) -> Result<InspectedImage, String> {
    let bytes = source.manifest(None)?;
    let digest = digest_of(&bytes);
    let document = Document::read(&bytes)?;
    let Some(manifests) = document.manifests.clone() else {
        return manifest(source, digest, &document, Vec::new());
    };
    let media_type = document.media_type.clone().unwrap_or_else(|| INDEX.to_owned());
    let because = format!(
        "it is an index, not a manifest: pinned by `@{digest}` it is refused, because what is \
            compared is the digest of its manifest for linux/amd64; {}",
        way_out(&manifests)
    );
    let found = match for_linux(&manifests) {
        Some(child) => {
            let document =
                Document::read(&checked(source.manifest(Some(&child.digest))?, &child.digest)?)?;
            manifest(source, child.digest.clone(), &document, vec![because])?
        }
        None => manifest(
            source,
            digest.clone(),
            &document,
            vec![because, "it has no manifest for linux/amd64".to_owned()],
        )?,
    };
    let pin = found.image.pin.filter(|pin| *pin != digest);
    Ok(InspectedImage {
        image: Image { digest, media_type, manifests, pin, ..found.image },
        ..found
    })
}

fn way_out(manifests: &[Descriptor]) -> String {
    let single = "push a single manifest (docker buildx: `--provenance=false --sbom=false`)";
    for_linux(manifests).map_or_else(
        || single.to_owned(),
        |child| format!("{single}, or pin that one: `@{}`", child.digest),
    )
}

/// The manifest that Istio's agent takes, whatever platform it runs on. By its rules, a manifest
/// without a platform is for linux/amd64.
fn for_linux(manifests: &[Descriptor]) -> Option<&Descriptor> {
    let is_for_linux =
        |platform: &Platform| platform.os == "linux" && platform.architecture == "amd64";
    manifests.iter().find(|manifest| manifest.platform.as_ref().is_none_or(is_for_linux))
}

fn manifest(
    source: &dyn ImageSource,
    digest: String,
    document: &Document,
    mut obstacles: Vec<String>,
) -> Result<InspectedImage, String> {
    let layers = document.layers.clone().unwrap_or_default();
    let mut module = None;
    if let Some(last) = layers.last() {
        let of_layout = of_layout(document.media_type(), &layers);
        // In Solo's layout the module may be in either layer; else it is in the last one.
        let layer = layers.iter().find(|layer| layer.media_type == SOLO_MODULE).unwrap_or(last);
        if layer.size > MOST {
            obstacles.push(format!(
                "its layer has {} bytes, and no more than {MOST} are read",
                layer.size
            ));
        } else {
            let unpacked = layer::unpack(&checked(source.layer(layer)?, &layer.digest)?);
            obstacles.extend(of_layout.or_else(|| of_contents(&unpacked, layer)));
            module = unpacked.module;
        }
    } else if document.manifests.is_none() {
        obstacles.push("it has no layers".to_owned());
    }
    let image = Image {
        pin: Some(digest.clone()),
        digest,
        media_type: document.media_type().to_owned(),
        config_media_type: document.config.as_ref().map(|config| config.media_type.clone()),
        layers,
        manifests: Vec::new(),
        annotations: document.annotations.clone(),
        obstacles,
    };
    Ok(InspectedImage { image, module })
}

/// The obstacle, if the layers do not have the expected media types.
fn of_layout(media_type: &str, layers: &[Descriptor]) -> Option<String> {
    let last = layers.last().map(|layer| layer.media_type.as_str()).unwrap_or_default();
    let wanted = if media_type == DOCKER_MANIFEST { DOCKER_LAYER } else { LAYER };
    let is_solo = layers.len() == 2 && layers.iter().any(|layer| layer.media_type == SOLO_MODULE);
    if last == wanted || (is_solo && media_type != DOCKER_MANIFEST) {
        return None;
    }
    let what = match last {
        "application/wasm" => "the layout of wkg and oci-wasm",
        "application/vnd.wasm.content.layer.v1+wasm" => "the layout of wasm-to-oci",
        SOLO_MODULE => "Solo's layout, which has exactly two layers",
        LAYER | DOCKER_LAYER => "a layer of the other kind of manifest",
        other if other.ends_with("zstd") => "compressed with zstd, which is not read",
        other if other.ends_with("tar") => "not compressed, which is not read",
        _ => "a media type that no consumer of modules knows",
    };
    Some(format!(
        "its last layer is `{last}` ({what}); it must be `{wanted}` with `{}` in it",
        FILE
    ))
}

/// The obstacle, if the module is not in the layer as its media type demands.
fn of_contents(unpacked: &Unpacked, layer: &Descriptor) -> Option<String> {
    match layer.media_type.as_str() {
        SOLO_MODULE if unpacked.is_bare => None,
        SOLO_MODULE => Some(format!("its layer `{SOLO_MODULE}` is not the module itself")),
        _ => unpacked.obstacle.clone(),
    }
}

/// Rejects content that does not match its digest.
pub(super) fn checked(bytes: Vec<u8>, digest: &str) -> Result<Vec<u8>, String> {
    let actual = digest_of(&bytes);
    if actual == digest {
        Ok(bytes)
    } else {
        Err(format!("`{digest}` is damaged: what is there has the digest `{actual}`"))
    }
}

fn digest_of(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}
