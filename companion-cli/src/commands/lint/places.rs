//! The objects at which findings are reported: those that a user can change. Of what a controller
//! has made, that is what it was made of.

use laststream_lint::live::ClusterObject;
use serde_json::Value;

/// The object that makes pods: its kind, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The labels with a hash of the template, and the kind that makes ReplicaSets with it.
const MAKERS: [(&str, &str); 2] =
    [("pod-template-hash", "Deployment"), ("rollouts-pod-template-hash", "Rollout")];

impl Owner {
    /// The owner of a pod. A ReplicaSet's own owner has the ReplicaSet's name without the hash of
    /// the template, so ReplicaSets need not be read. A pod without an owner, or one that the
    /// kubelet made from a file, is its own.
    pub(super) fn of_pod(pod: &Value) -> Self {
        let metadata = &pod["metadata"];
        let namespace = text(&metadata["namespace"]);
        let owner = controller(pod).map(|owner| (text(&owner["kind"]), text(&owner["name"])));
        let (kind, name) = owner
            .filter(|(kind, _)| kind != "Node")
            .unwrap_or_else(|| ("Pod".to_owned(), text(&metadata["name"])));
        if kind == "ReplicaSet" {
            for (label, maker) in MAKERS {
                let hash = metadata["labels"][label].as_str();
                let made = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
                if let Some(made) = made {
                    return Self { kind: maker.to_owned(), namespace, name: made.to_owned() };
                }
            }
        }
        Self { kind, namespace, name }
    }

    /// The owner that an object is.
    pub(super) fn of_object(object: &Value) -> Self {
        let metadata = &object["metadata"];
        Self {
            kind: text(&object["kind"]),
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
        }
    }

    /// The place of findings in pods whose owner was not listed.
    pub(super) fn place(&self) -> ClusterObject {
        ClusterObject {
            kind: self.kind.clone(),
            namespace: Some(self.namespace.clone()).filter(|name| !name.is_empty()),
            name: self.name.clone(),
            made: None,
        }
    }
}

/// The labels of what Envoy Gateway makes for a Gateway in another namespace.
pub(super) const ENVOY_GATEWAY: [&str; 2] =
    ["gateway.envoyproxy.io/owning-gateway-namespace", "gateway.envoyproxy.io/owning-gateway-name"];

/// The place of findings in an object.
pub(super) fn place(object: &Value) -> ClusterObject {
    let own = Owner::of_object(object);
    let made = Some(format!("{} {}", own.kind, own.name));
    let label = |name: &str| object["metadata"]["labels"][name].as_str();
    if let [Some(namespace), Some(name)] = ENVOY_GATEWAY.map(label) {
        let (namespace, name) = (Some(namespace.to_owned()), name.to_owned());
        return ClusterObject { kind: "Gateway".to_owned(), namespace, name, made };
    }
    match controller(object) {
        Some(owner) => {
            let (kind, name) = (text(&owner["kind"]), text(&owner["name"]));
            ClusterObject { kind, name, made, ..own.place() }
        }
        None => own.place(),
    }
}

fn controller(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true).or_else(|| owners.first())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
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
        let of = |kind, name, labels| {
            let owner = Owner::of_pod(&owned(kind, name, &labels));
            format!("{} {}/{}", owner.kind, owner.namespace, owner.name)
        };
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
