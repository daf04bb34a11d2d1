//! The rows of whole bootstraps: Envoys without a mesh.

use laststream_assess::{Proxy, ProxyKind, Row, Workload};

use super::mesh::read_gate;
use super::workloads::row;
use crate::modules::gates;
use manifest_lint::{Inputs, Node, Object, discovers_listeners, whole_bootstraps};

/// The rows of files that are bootstraps. Whether a stop hook asks their gate, they do not say.
pub(super) fn rows(inputs: &Inputs) -> Vec<Row> {
    let files = whole_bootstraps(inputs).filter(|root| root.carrier().is_none());
    let row_of = |root: Node<'_>| {
        let gate = gates(inputs).find(|(module, _)| module.plugin.outermost().tree == root.tree);
        let gate = gate.map(|(_, gate)| read_gate(&gate));
        let usual = Proxy::of(ProxyKind::PlainEnvoy);
        let grace = usual.grace.filter(|_| gate.is_none());
        let is_by_xds =
            discovers_listeners(root) && root.list("static_resources.listeners").next().is_none();
        let row = row(inputs, root, Proxy { gate, grace, is_by_xds, ..usual }, None);
        let workload = Workload { kind: "Envoy".to_owned(), ..row.workload };
        Row { workload, grace: None, ..row }
    };
    let files =
        files.filter(|root| Object::new(*root).is_none() && !is_made(*root) && has_streams(*root));
    files.map(row_of).collect()
}

/// Whether there is a listener, written or discovered, that is not for datagrams: these have
/// neither requests nor connections.
fn has_streams(root: Node<'_>) -> bool {
    let mut listeners = root.list("static_resources.listeners").peekable();
    let is_udp = |listener: Node<'_>| {
        listener.text_of("address.socket_address.protocol") == Some("UDP")
            && listener.fields("udp_listener_config.quic_options").is_none()
    };
    let has_listeners =
        root.fields("static_resources.listeners").is_some() || discovers_listeners(root);
    has_listeners && (listeners.peek().is_none() || listeners.any(|listener| !is_udp(listener)))
}

/// The files by which an Envoy trusts its control plane.
const SECRETS: &str = "static_resources.clusters[].transport_socket.typed_config.\
    common_tls_context.validation_context_sds_secret_config.sds_config.path_config_source.path";

/// Whether Istio's agent or Envoy Gateway has made the bootstrap, and ends its Envoy.
fn is_made(root: Node<'_>) -> bool {
    let is_of_istio = root.text_of("node.id").is_some_and(|id| id.contains('~'));
    let mut names = root.all("static_resources.listeners[].name").filter_map(Node::text);
    let mut secrets = root.all(SECRETS).filter_map(Node::text);
    is_of_istio
        || names.any(|name| name.starts_with("envoy-gateway"))
        || secrets.any(|path| path.starts_with("/sds/xds-"))
}
