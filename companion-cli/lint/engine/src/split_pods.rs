//! Pods that files describe in parts: patches of one Deployment, and the two overlays that Istio
//! merges for one Gateway, that of its class and its own.

use std::collections::HashMap;

use crate::{DEFAULT_GRACE, Node, Object, Overlaid, Pod, Texts, metadata_patches, near, pods};

/// The parts of one pod that are looked at. Copies of one folder have parts of one name.
const MOST_PARTS: usize = 16;

/// The pods of all files, grouped by the object or Gateway that they are parts of.
pub struct SplitPods<'g> {
    /// By kind and name.
    named: HashMap<(&'g str, &'g str), Vec<Part<'g>>>,
    overlays: Vec<(Pod<'g>, Overlaid<'g>)>,
}

/// A pod with the facts by which it is compared with others of the same kind and name.
struct Part<'g> {
    pod: Pod<'g>,
    is_whole: bool,
    namespace: Option<&'g str>,
}

impl<'g> SplitPods<'g> {
    pub fn of(texts: &'g Texts) -> Self {
        let mut parts = Self { named: HashMap::new(), overlays: Vec::new() };
        for pod in pods(texts).chain(metadata_patches(texts)) {
            if pod.is_overlay() {
                parts.overlays.push((pod, Overlaid::by(pod)));
            } else {
                let name = (pod.object.kind, pod.object.name());
                let part = Part { pod, is_whole: pod.is_whole(), namespace: pod.namespace() };
                parts.named.entry(name).or_default().push(part);
            }
        }
        parts
    }

    /// The node with the grace period of a pod. A patch takes precedence over the object that it is
    /// merged over.
    pub fn grace(&self, pod: Pod<'g>) -> Option<Node<'g>> {
        let mut parts = self.with_others(pod);
        parts.sort_by_key(|part| part.is_whole() || part.class().is_some());
        parts.into_iter().find_map(Pod::grace)
    }

    pub fn grace_seconds(&self, pod: Pod<'g>) -> u64 {
        // A value that is filled in later is long enough.
        self.grace(pod).map_or(DEFAULT_GRACE, |node| node.number().unwrap_or(u64::MAX))
    }

    pub fn of_object(&self, object: Object<'g>) -> impl Iterator<Item = Pod<'g>> {
        self.parts_of(object, object.namespace()).map(|part| part.pod)
    }

    /// The parts of the object that has the kind and name of this one.
    fn parts_of(
        &self,
        object: Object<'g>,
        space: Option<&'g str>,
    ) -> impl Iterator<Item = &Part<'g>> {
        let name = (object.kind, object.name());
        let same = self.named.get(&name).filter(|_| !name.1.is_empty());
        same.into_iter().flatten().filter(move |part| near(part.namespace, space)).take(MOST_PARTS)
    }

    /// The part itself, then the other parts of the same pod.
    pub fn with_others(&self, pod: Pod<'g>) -> Vec<Pod<'g>> {
        let parts: Vec<Pod<'g>> =
            if pod.is_overlay() { self.overlays_beside(pod) } else { self.patches_beside(pod) };
        [pod].into_iter().chain(parts).collect()
    }

    fn overlays_beside(&self, pod: Pod<'g>) -> Vec<Pod<'g>> {
        let entry = self.overlays.iter().find(|(overlay, _)| overlay.template == pod.template);
        let Some((_, entry)) = entry else { return Vec::new() };
        let overlays = self.overlays.iter().filter(|(other, overlaid)| {
            other.template != pod.template && entry.may_share_gateway(overlaid)
        });
        overlays.map(|(other, _)| *other).collect()
    }

    fn patches_beside(&self, pod: Pod<'g>) -> Vec<Pod<'g>> {
        let is_whole = pod.is_whole();
        let parts = self
            .parts_of(pod.object, pod.namespace())
            .filter(|other| !(other.is_whole && is_whole) && other.pod.template != pod.template);
        parts.map(|other| other.pod).collect()
    }
}
