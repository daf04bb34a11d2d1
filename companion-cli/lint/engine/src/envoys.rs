//! Whole bootstraps of Envoys without a mesh. Parts that Istio's agent or Envoy Gateway merges over
//! another bootstrap are not whole: what they lack may be in the other one.

use crate::{Inputs, Node};

pub fn whole_bootstraps(inputs: &Inputs) -> impl Iterator<Item = Node<'_>> {
    inputs.documents().filter(|root| is_whole(*root))
}

/// Whether Envoy gets its listeners from a control plane or from files of their own.
pub fn discovers_listeners(bootstrap: Node<'_>) -> bool {
    discovers(bootstrap, ["lds_config", "lds_resources_locator"])
}

fn discovers(bootstrap: Node<'_>, fields: [&str; 2]) -> bool {
    let dynamic = bootstrap.field("dynamic_resources");
    dynamic.is_some_and(|dynamic| fields.iter().any(|name| dynamic.field(name).is_some()))
}

/// Whether a document is a whole bootstrap: parts have listeners, but neither an admin interface
/// nor clusters.
fn is_whole(root: Node<'_>) -> bool {
    if discovers_listeners(root) {
        return true;
    }
    let Some(resources) = root.field("static_resources") else { return false };
    root.get("admin").is_some() || resources.list("clusters").next().is_some()
}

/// The names of all clusters of a bootstrap; none if Envoy gets more of them while it runs.
pub fn clusters(bootstrap: Node<'_>) -> Option<Vec<&str>> {
    if discovers(bootstrap, ["cds_config", "cds_resources_locator"]) {
        return None;
    }
    let clusters = bootstrap.list("static_resources.clusters");
    Some(clusters.filter_map(|cluster| cluster.text_of("name")).collect())
}
