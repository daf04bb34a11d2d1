//! LS651 to LS656: what Istio does not read, as it is written or where it stands, and what it
//! refuses.

mod annotations;
mod selected;

use crate::words::nearest_of;
use crate::{Checks, Findings, Inputs, Node, Pod, object_of};

pub(super) const CHECKS: Checks = &[
    ("LS651", unread),
    ("LS652", annotations::refused),
    ("LS653", annotations::deprecated),
    ("LS654", selected::without_injection),
    ("LS655", selected::selects_nothing),
    ("LS656", selected::host_taken),
];

/// The annotations of pods, by Istio's list of 1.31 (istio.io/api/annotation).
const OF_PODS: &str = include_str!("annotations.txt");

/// Istio's annotations, with their values.
fn annotations(inputs: &Inputs) -> impl Iterator<Item = (&str, Node<'_>)> {
    let maps = ["annotations", "podAnnotations"].into_iter().flat_map(|key| inputs.keyed(key));
    maps.flat_map(Node::entries).filter(|(name, _)| name.contains(".istio.io/"))
}

fn unread<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (name, value) in annotations(inputs) {
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
