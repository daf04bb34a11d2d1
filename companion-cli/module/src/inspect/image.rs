//! Reads an image as Istio's agent does (Envoy Gateway has the same code), and notes where the
//! agent would fail. It continues after such a place, so that a misplaced module is inspected, too.

use serde::Serialize;

use super::MOST;
use super::layer;
use super::manifest::{DOCKER_LAYER, Document, SOLO_MODULE};
use laststream_base::digest::Digest;
use laststream_oci::image::{DOCKER_MANIFEST, Descriptor, FILE, INDEX, LAYER, Platform, Reference};
use laststream_oci::registry::{FetchedManifest, Registry};

#[derive(Debug, Clone, Serialize)]
pub struct Image {
    /// The digest of the manifest or of the index.
    pub digest: Digest,
    pub media_type: String,
    /// The digest that the image can be pinned by, if it can be used at all.
    #[serde(skip)]
    pub pin: Option<Digest>,
    /// Reasons why Istio and Envoy Gateway do not find the module in it, each as the end of
    /// “because …”.
    #[serde(skip)]
    pub obstacles: Vec<String>,
}

pub(super) struct InspectedImage {
    pub(super) image: Image,
    pub(super) module: Option<Vec<u8>>,
}

/// The registry's client checks all digests.
pub(super) fn inspect(
    registry: &Registry<'_>,
    reference: &Reference,
) -> Result<InspectedImage, String> {
    let fetch =
        |reference: &Reference| registry.manifest(reference).map_err(|error| error.with_option());
    let fetch_layer = |layer: &Descriptor| {
        registry.blob(reference, layer, MOST).map_err(|error| error.with_option())
    };
    let FetchedManifest { bytes, digest } = fetch(reference)?;
    let document = Document::read(&bytes)?;
    let Some(manifests) = &document.manifests else {
        return manifest(&fetch_layer, digest, &document, Vec::new());
    };
    let media_type = document.media_type.clone().unwrap_or_else(|| INDEX.to_owned());
    let because = format!(
        "it is an index, not a manifest: pinned by `@{digest}` it is refused, because what is \
            compared is the digest of its manifest for linux/amd64; {}",
        way_out(manifests)
    );
    let manifest = match for_linux(manifests) {
        Some(child) => {
            let pinned = Reference { digest: Some(child.digest.clone()), ..reference.clone() };
            let FetchedManifest { bytes, digest } = fetch(&pinned)?;
            manifest(&fetch_layer, digest, &Document::read(&bytes)?, vec![because])?
        }
        None => manifest(
            &fetch_layer,
            digest.clone(),
            &document,
            vec![because, "it has no manifest for linux/amd64".to_owned()],
        )?,
    };
    let pin = manifest.image.pin.filter(|pin| *pin != digest);
    Ok(InspectedImage { image: Image { digest, media_type, pin, ..manifest.image }, ..manifest })
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
    fetch_layer: &dyn Fn(&Descriptor) -> Result<Vec<u8>, String>,
    digest: Digest,
    document: &Document,
    mut obstacles: Vec<String>,
) -> Result<InspectedImage, String> {
    let layers = document.layers.as_deref().unwrap_or_default();
    let mut module = None;
    if let Some(last) = layers.last() {
        // In Solo's layout the module may be in either layer; else it is in the last one.
        let layer = layers.iter().find(|layer| layer.media_type == SOLO_MODULE).unwrap_or(last);
        if layer.size > MOST {
            obstacles.push(format!(
                "its layer has {} bytes, and no more than {MOST} are read",
                layer.size
            ));
        } else {
            let bytes = fetch_layer(layer)?;
            let mut obstacle = of_layout(document.media_type(), layers);
            if layer.media_type == SOLO_MODULE {
                module = Some(bytes);
            } else {
                let is_plain = !layer::is_gzip(&bytes);
                obstacle = obstacle.or_else(|| {
                    is_plain.then(|| "its last layer is not compressed with gzip".to_owned())
                });
                match layer::module_in(&bytes) {
                    Ok(found) => module = Some(found),
                    Err(because) => obstacle = obstacle.or(Some(because)),
                }
            }
            obstacles.extend(obstacle);
        }
    } else if document.manifests.is_none() {
        obstacles.push("it has no layers".to_owned());
    }
    let image = Image {
        pin: Some(digest.clone()),
        digest,
        media_type: document.media_type().to_owned(),
        obstacles,
    };
    Ok(InspectedImage { image, module })
}

/// The obstacle, if the layers do not have the expected media types.
fn of_layout(media_type: &str, layers: &[Descriptor]) -> Option<String> {
    let last = layers.last().map(|layer| layer.media_type.as_str()).unwrap_or_default();
    let layer_type = if media_type == DOCKER_MANIFEST { DOCKER_LAYER } else { LAYER };
    let is_solo = layers.len() == 2 && layers.iter().any(|layer| layer.media_type == SOLO_MODULE);
    if last == layer_type || (is_solo && media_type != DOCKER_MANIFEST) {
        return None;
    }
    Some(format!(
        "the last of its layers ({}) is `{last}`; it must be `{layer_type}` with `{FILE}` in it",
        layers.len()
    ))
}
