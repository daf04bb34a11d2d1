//! LS57x: the module in an image volume.

use std::collections::{BTreeSet, HashSet};

use super::module::frame_filters;
use crate::modules::{Module, modules};
use laststream_render::IMAGE_ANNOTATION;
use manifest_lint::rules::overlay;
use manifest_lint::{Checks, Findings, Holders, ImageVolume, Inputs, Reach, image_volumes, pods};

pub(super) const CHECKS: Checks =
    &[("LS571", no_image_volumes), ("LS572", no_file), ("LS573", other_image), ("LS573", by_tag)];

/// The volume with the program, whose version matters less than the module's.
const PROGRAM: &str = "laststream-program";
/// The first version that has image volumes without a feature gate.
const ON_BY_DEFAULT: (u32, u32) = (1, 35);

/// Volumes with laststream's module in them.
fn ours(inputs: &Inputs) -> impl Iterator<Item = ImageVolume<'_>> {
    let files: BTreeSet<&str> = wanted(inputs).into_iter().map(|wanted| wanted.path).collect();
    image_volumes(inputs).filter(move |volume| {
        volume.mentions("laststream") || files.iter().any(|file| volume.holds(file))
    })
}

/// The file and image that an EnvoyFilter expects in a proxy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted<'g> {
    /// The module's file.
    path: &'g str,
    /// The image that it was rendered for.
    image: &'g str,
}

/// laststream's modules that are files of an image volume; others may be in the proxy's own image.
fn from_volumes(inputs: &Inputs) -> impl Iterator<Item = (Module<'_>, Wanted<'_>)> {
    modules(inputs).filter(|module| module.is_ours()).filter_map(|module| {
        let annotations = module.patch()?.filter.node.fields("metadata.annotations")?;
        let image = annotations.get(IMAGE_ANNOTATION)?.text()?;
        Some((module, Wanted { path: module.filename()?.text()?, image }))
    })
}

/// Those of the annotation's image, which is not the frame filter's.
fn wanted(inputs: &Inputs) -> BTreeSet<Wanted<'_>> {
    let frames: HashSet<_> = frame_filters(inputs).map(|module| module.typed).collect();
    let modules = from_volumes(inputs).filter(|(module, _)| !frames.contains(&module.typed));
    modules.map(|(_, wanted)| wanted).collect()
}

fn no_image_volumes<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let Some(version @ (major, minor)) = inputs.assume.kubernetes else { return };
    if version >= ON_BY_DEFAULT {
        return;
    }
    for volume in ours(inputs) {
        let message = format!("Kubernetes {major}.{minor} drops it without the feature gate");
        findings.at(volume.image, message);
    }
}

fn no_file<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let volumes = Holders::of(inputs);
    let overlays: Vec<_> = overlay::pod_specs(inputs).collect();
    let pods: Vec<_> = pods(inputs).filter(|pod| pod.is_whole() && pod.has_proxy()).collect();
    let mut paths = HashSet::new();
    for (module, Wanted { path, .. }) in from_volumes(inputs) {
        let Some(filter) = module.patch().map(|patch| patch.filter) else { continue };
        let Reach::Selector(mesh) = module.reach() else { continue };
        if !paths.insert((filter.node, path)) {
            continue;
        }
        let holds = |node| volumes.within(node).iter().any(|volume| volume.holds(path));
        if filter.policy_targets().next().is_some() && !overlays.iter().any(|spec| holds(*spec)) {
            overlays.first().into_iter().for_each(|spec| findings.at(*spec, lacking(path)));
        }
        for pod in pods.iter().filter(|pod| mesh.selects(pod.namespace(), &pod.labels())) {
            if !holds(pod.template) {
                let other = volumes.within(pod.template).iter().find_map(|volume| volume.path);
                findings.at(other.unwrap_or(pod.spec), lacking(path));
            }
        }
    }
}

fn lacking(path: &str) -> String {
    format!("no volume is mounted where `{path}` is")
}

fn other_image<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let files = wanted(inputs);
    for volume in image_volumes(inputs) {
        let mut here = files.iter().filter(|wanted| volume.holds(wanted.path)).peekable();
        let Some(first) = here.peek().map(|wanted| wanted.image) else { continue };
        if here.all(|wanted| wanted.image != volume.reference()) {
            let message = format!("the EnvoyFilter was rendered for `{first}`");
            findings.at(volume.reference_place(), message);
        }
    }
}

fn by_tag<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let by_tag = |volume: &ImageVolume<'_>| !volume.reference().contains("@sha256:");
    for volume in ours(inputs).filter(|volume| by_tag(volume) && volume.name() != PROGRAM) {
        let message = format!("`{}` names no digest", volume.reference());
        findings.at(volume.reference_place(), message);
    }
}
