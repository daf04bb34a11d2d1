//! A base for kustomize: the objects. Patches and values are used elsewhere.

use super::files::{File, other};
use laststream_base::yaml::{List, Map};

pub(super) fn render(files: &[File]) -> Option<File> {
    let resources: Vec<&str> =
        files.iter().filter(|file| file.applies).map(|file| file.name.as_str()).collect();
    if resources.is_empty() {
        return None;
    }
    let about =
        ["In overlays change an EnvoyFilter by JSON patches (op, path, value): a strategic merge \
            would replace all of configPatches, `images` does not know oci:// addresses, and \
            `labels` no workloadSelector."
            .to_owned()];
    let kustomization = Map::of("apiVersion", "kustomize.config.k8s.io/v1beta1")
        .with("kind", "Kustomization")
        .with("resources", resources.into_iter().collect::<List>());
    Some(other("kustomization.yaml", &about, kustomization))
}
