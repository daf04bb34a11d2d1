//! The versions of a cluster's parts. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use laststream_base::image_reference::Reference;
use laststream_base::versions::{self, Release};
use serde::Serialize;

/// The first containerd with image volumes.
const IMAGE_VOLUMES: Release = (2, 1);

/// The versions; what is not known is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Software {
    pub kubernetes: Option<String>,
    /// The tags of istiod's images.
    pub istio: BTreeSet<String>,
    pub nodes: usize,
    pub kubelets: BTreeSet<String>,
    /// Such as `containerd://2.1.5`.
    pub runtimes: BTreeSet<String>,
}

impl Software {
    pub(super) fn of(kubernetes: Option<Release>, nodes: Vec<Node>, istiods: Vec<Pod>) -> Self {
        let infos: Vec<_> =
            nodes.iter().filter_map(|node| node.status.as_ref()?.node_info.as_ref()).collect();
        let containers = istiods.iter().filter_map(|pod| pod.spec.as_ref());
        let images = containers.flat_map(|spec| &spec.containers).filter_map(|c| c.image.as_ref());
        let tags = images.filter_map(|image| image.parse::<Reference>().ok()?.tag);
        Self {
            kubernetes: kubernetes.map(versions::text),
            istio: tags.collect(),
            nodes: nodes.len(),
            kubelets: infos.iter().map(|info| info.kubelet_version.clone()).collect(),
            runtimes: infos.iter().map(|info| info.container_runtime_version.clone()).collect(),
        }
    }

    /// The versions of containerd that have no image volumes.
    pub fn without_image_volumes(&self) -> Vec<&str> {
        let is_old = |runtime: &&String| {
            let version = runtime.strip_prefix("containerd://").map(versions::release);
            version.is_some_and(|version| version.is_ok_and(|version| version < IMAGE_VOLUMES))
        };
        self.runtimes.iter().filter(is_old).map(String::as_str).collect()
    }

    /// One line.
    pub fn words(&self) -> String {
        let list = |versions: &BTreeSet<String>| {
            versions.iter().map(String::as_str).collect::<Vec<_>>().join(" and ")
        };
        let mut parts = Vec::new();
        parts.extend(self.kubernetes.iter().map(|version| format!("Kubernetes {version}")));
        if self.nodes > 0 {
            let (kubelets, runtimes) = (list(&self.kubelets), list(&self.runtimes));
            parts.push(format!("{} nodes with kubelet {kubelets}, {runtimes}", self.nodes));
        }
        parts.extend((!self.istio.is_empty()).then(|| format!("Istio {}", list(&self.istio))));
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn versions_are_one_line_and_an_old_containerd_is_named() {
        let node = |runtime: &str| {
            let info = json!({
                "architecture": "", "bootID": "", "kernelVersion": "", "kubeProxyVersion": "",
                "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": "",
                "containerRuntimeVersion": runtime, "kubeletVersion": "v1.34.4",
            });
            from_value(json!({ "status": { "nodeInfo": info } })).unwrap()
        };
        let istiod = json!({ "spec": { "containers": [{
            "name": "discovery", "image": "registry:5000/istio/pilot:1.31.0",
        }] } });
        let nodes =
            vec![node("containerd://1.7.24"), node("containerd://2.1.5"), node("cri-o://1")];
        let software = Software::of(Some((1, 34)), nodes, vec![from_value(istiod).unwrap()]);
        assert_eq!(software.without_image_volumes(), ["containerd://1.7.24"]);
        assert_eq!(
            software.words(),
            "Kubernetes 1.34; 3 nodes with kubelet v1.34.4, containerd://1.7.24 and \
             containerd://2.1.5 and cri-o://1; Istio 1.31.0"
        );
        assert_eq!(Software::default().words(), "");
    }
}
