//! LS651: annotations that Istio does not read, as they are written or where they stand.

use crate::finding::{Checks, Findings};
use crate::inputs::Inputs;
use crate::node::Node;
use crate::objects::object_of;
use crate::pods::Pod;
use crate::words::nearest_of;

pub(super) const CHECKS: Checks = &[("LS651", unread)];

/// The annotations of pods, by Istio's list of 1.31 (istio.io/api/annotation).
const OF_PODS: &str = include_str!("annotations.txt");

fn unread<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let annotations = ["annotations", "podAnnotations"].into_iter();
    let annotations = annotations.flat_map(|key| inputs.keyed(key)).flat_map(Node::entries);
    for (name, value) in annotations.filter(|(name, _)| name.contains(".istio.io/")) {
        let place = value.key().unwrap_or(value);
        match nearest_of(name, OF_PODS.trim_end()) {
            Some(meant) if meant != name => {
                findings.at(place, format!("Istio does not know `{name}`: it is `{meant}`"));
            }
            Some(_) if is_beside_template(value) => {
                findings.at(place, "Istio reads it in the template of the pods only");
            }
            _ => {}
        }
    }
}

/// Whether an annotation is one of the object that makes the pods, not of these.
fn is_beside_template(annotation: Node<'_>) -> bool {
    let metadata = annotation.parent().and_then(Node::parent);
    let object = metadata.and_then(Node::parent).and_then(object_of);
    let template = object.and_then(Pod::of).map(|pod| pod.template);
    template.is_some_and(|template| template.get("metadata") != metadata)
}
