//! The objects at which findings are reported: those that a user can change. Of what a controller
//! has made, that is what it was made of.

use serde_json::Value;

use crate::{ClusterObject, Pod, SourceFile, pods, read_all};
pub use manifest_text::pods::ENVOY_GATEWAY;
use manifest_text::yaml::tree::Tree;

/// The labels with a hash of the template, and the kind that makes ReplicaSets with it.
const MAKERS: [(&str, &str); 2] =
    [("pod-template-hash", "Deployment"), ("rollouts-pod-template-hash", "Rollout")];

/// The owner of a pod. A ReplicaSet's own owner has the ReplicaSet's name without the hash of the
/// template, so ReplicaSets need not be read. A pod without an owner, or one that the kubelet made
/// from a file, is its own.
pub fn owner(pod: &Value) -> ClusterObject {
    let metadata = &pod["metadata"];
    let owner = controller(pod).filter(|(kind, _)| *kind != "Node");
    let (kind, name) = owner.unwrap_or_else(|| ("Pod", text(&metadata["name"])));
    let made_by = |(label, maker): (&str, &'static str)| {
        let hash = metadata["labels"][label].as_str()?;
        Some((maker, name.strip_suffix(hash)?.strip_suffix('-')?))
    };
    let maker = MAKERS.into_iter().filter(|_| kind == "ReplicaSet").find_map(made_by);
    let (kind, name) = maker.unwrap_or((kind, name));
    named(kind, text(&metadata["namespace"]), name)
}

/// The object itself.
pub fn own(object: &Value) -> ClusterObject {
    let metadata = &object["metadata"];
    named(text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
}

fn named(kind: &str, namespace: &str, name: &str) -> ClusterObject {
    ClusterObject {
        kind: kind.to_owned(),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        name: name.to_owned(),
        made: None,
    }
}

/// The place of findings in an object.
pub fn place(object: &Value) -> ClusterObject {
    let label = |name: &str| object["metadata"]["labels"][name].as_str();
    let place = own(object);
    let made_of = match (ENVOY_GATEWAY.map(label), controller(object)) {
        ([Some(namespace), Some(name)], _) => named("Gateway", namespace, name),
        (_, Some((kind, name))) => named(kind, text(&object["metadata"]["namespace"]), name),
        (_, None) => return place,
    };
    ClusterObject { made: Some(format!("{} {}", place.kind, place.name)), ..made_of }
}

/// Reads the pod, or the template for pods, in an object of a cluster.
pub fn read_pod<T>(object: &Value, read: impl FnOnce(Pod<'_>) -> T) -> Option<T> {
    let source = SourceFile::of_object(own(object), Tree::of_value(object));
    let texts = read_all(vec![source], &[]).ok()?;
    pods(&texts).next().map(read)
}

/// The kind and name of the object's controller.
fn controller(object: &Value) -> Option<(&str, &str)> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let controller = owners.iter().find(|owner| owner["controller"] == true);
    let owner = controller.or_else(|| owners.first())?;
    Some((text(&owner["kind"]), text(&owner["name"])))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owned(kind: &str, name: &str, labels: &Value) -> Value {
        let owner = json!({ "kind": kind, "name": name, "controller": true });
        json!({ "kind": "Deployment", "metadata": {
            "name": "own", "namespace": "shop", "labels": labels, "ownerReferences": [owner],
        } })
    }

    #[test]
    fn pods_belong_to_what_a_user_has_written() {
        let of = |kind, name, labels| owner(&owned(kind, name, &labels)).to_string();
        let hash = json!({ "pod-template-hash": "5d" });
        assert_eq!(of("ReplicaSet", "web-a-5d", hash.clone()), "Deployment shop/web-a");
        assert_eq!(of("ReplicaSet", "web-7f", hash), "ReplicaSet shop/web-7f");
        let argo = json!({ "rollouts-pod-template-hash": "5d" });
        assert_eq!(of("ReplicaSet", "web-5d", argo), "Rollout shop/web");
        assert_eq!(of("StatefulSet", "db", json!({})), "StatefulSet shop/db");
        assert_eq!(of("Node", "n1", json!({})), "Pod shop/own");
    }

    #[test]
    fn what_a_gateway_was_made_into_is_reported_at_the_gateway() {
        let of_istio = place(&owned("Gateway", "edge", &json!({})));
        assert_eq!(of_istio.to_string(), "Gateway shop/edge (its Deployment own)");
        let labels = json!({ ENVOY_GATEWAY[0]: "web", ENVOY_GATEWAY[1]: "eg" });
        let of_envoy_gateway = place(&json!({
            "kind": "Deployment", "metadata": { "name": "own", "labels": labels },
        }));
        assert_eq!(of_envoy_gateway.to_string(), "Gateway web/eg (its Deployment own)");
    }
}
