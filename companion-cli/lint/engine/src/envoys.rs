//! Whole bootstraps of Envoys without a mesh. Parts that Istio's agent or Envoy Gateway merges over
//! another bootstrap are not whole: what they lack may be in the other one.

use crate::inputs::Inputs;
use crate::node::Node;

pub fn whole_bootstraps(inputs: &Inputs) -> impl Iterator<Item = Node<'_>> {
    inputs.documents().filter(|root| is_whole(*root))
}

/// Whether a document is a whole bootstrap: parts have listeners, but neither an admin interface
/// nor clusters.
fn is_whole(root: Node<'_>) -> bool {
    let Some(resources) = root.field("static_resources") else { return false };
    root.get("admin").is_some() || resources.list("clusters").next().is_some()
}

/// The names of all clusters of a bootstrap; none if Envoy gets more of them while it runs.
pub fn clusters(bootstrap: Node<'_>) -> Option<Vec<&str>> {
    let dynamic = bootstrap.field("dynamic_resources");
    let discovers = |name| dynamic.is_some_and(|dynamic| dynamic.field(name).is_some());
    if discovers("cds_config") || discovers("cds_resources_locator") {
        return None;
    }
    let clusters = bootstrap.list("static_resources.clusters");
    Some(clusters.filter_map(|cluster| cluster.text_of("name")).collect())
}
