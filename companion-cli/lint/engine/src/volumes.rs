//! Image volumes in pods, overlays of Gateways, Helm values of a gateway, and annotations for
//! Istio's webhook.

use std::collections::HashMap;

use crate::{CONTAINERS, Node, Texts};

/// Istio's annotation for the mounts of a sidecar's volumes.
const USER_MOUNTS: &str = "sidecar.istio.io/userVolumeMount";

/// A volume whose content is an image.
#[derive(Clone, Copy)]
pub struct ImageVolume<'g> {
    /// The value of `image`.
    pub image: Node<'g>,
    /// The `mountPath` of the volume's first mount.
    pub path: Option<Node<'g>>,
}

impl<'g> ImageVolume<'g> {
    fn of(image: Node<'g>) -> Option<Self> {
        let volume = image.parent().filter(|_| image.get("reference").is_some())?;
        let path = match volume.text_of("name") {
            Some(name) => mounted(volume.parent()?.parent()?, name),
            None => annotated(volume),
        };
        Some(Self { image, path })
    }

    pub fn reference(self) -> &'g str {
        self.image.text_of("reference").unwrap_or_default()
    }

    /// Whether a file of the proxy would come from this volume.
    pub fn holds(self, file: &str) -> bool {
        let path = self.path.and_then(Node::text).unwrap_or_default().trim_end_matches('/');
        !path.is_empty() && file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
    }

    pub fn reference_place(self) -> Node<'g> {
        self.image.get("reference").unwrap_or(self.image)
    }

    pub fn name(self) -> &'g str {
        let name = |volume: Node<'g>| volume.text_of("name").or_else(|| volume.key_text());
        self.image.parent().and_then(name).unwrap_or_default()
    }

    /// Whether its reference or its name has this word in it.
    pub fn mentions(self, word: &str) -> bool {
        [self.reference(), self.name()].iter().any(|text| text.contains(word))
    }
}

/// The volumes by the nodes around them, also by those around an embedded text that contains them.
pub struct Holders<'g>(HashMap<Node<'g>, Vec<ImageVolume<'g>>>);

impl<'g> Holders<'g> {
    pub fn of(texts: &'g Texts) -> Self {
        let mut holders: HashMap<_, Vec<_>> = HashMap::new();
        for volume in image_volumes(texts) {
            for place in volume.image.outwards() {
                holders.entry(place).or_default().push(volume);
            }
        }
        Self(holders)
    }

    pub fn within(&self, node: Node<'g>) -> &[ImageVolume<'g>] {
        self.0.get(&node).map_or(&[], Vec::as_slice)
    }
}

pub fn image_volumes(texts: &Texts) -> impl Iterator<Item = ImageVolume<'_>> {
    texts.keyed("image").filter_map(ImageVolume::of)
}

/// The `mountPath` of a volume in the spec of a pod, or in values of the gateway chart, which have
/// the mounts beside the volumes.
fn mounted<'g>(spec: Node<'g>, volume: &str) -> Option<Node<'g>> {
    let mut holders = spec.all(CONTAINERS).chain([spec]);
    holders.find_map(|holder| holder.item("volumeMounts", "name", volume))?.get("mountPath")
}

/// The `mountPath` of a volume in an annotation, from the annotation beside that one.
fn annotated(volume: Node<'_>) -> Option<Node<'_>> {
    let annotations = volume.carrier()?.parent()?;
    annotations.get(USER_MOUNTS)?.embedded()?.get(volume.key_text()?)?.get("mountPath")
}
