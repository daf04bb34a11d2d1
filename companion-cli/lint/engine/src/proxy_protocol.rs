//! Listener filters that take PROXY protocol headers from connections, and the settings of control
//! planes that add such a filter.

use crate::{Node, Object, Texts, of_kind};

pub fn is_type(node: Node<'_>, name: &str) -> bool {
    node.text_of("@type").is_some_and(|text| text.rsplit('.').next() == Some(name))
}

pub fn listener_filters<'g>(
    listener: Node<'g>,
    name: &'static str,
) -> impl Iterator<Item = Node<'g>> {
    listener.list("listener_filters").filter(move |filter| {
        filter.field("typed_config").is_some_and(|config| is_type(config, name))
    })
}

/// The PROXY protocol filters of all files, by their typed configuration.
pub fn header_filters(texts: &Texts) -> impl Iterator<Item = Node<'_>> {
    const TYPE: &str = "listener.proxy_protocol.v3.ProxyProtocol";
    let is_it = |name: &Node<'_>| name.text().is_some_and(|text| text.ends_with(TYPE));
    texts.keyed("@type").filter(is_it).filter_map(Node::parent)
}

/// Istio's setting for gateways: of the mesh, of a pod, or of a Gateway.
pub fn topology_settings(texts: &Texts) -> impl Iterator<Item = Node<'_>> {
    let is_topology = |node: &Node<'_>| node.has_keys(&["proxyProtocol", "gatewayTopology"]);
    texts.keyed("proxyProtocol").filter(|setting| setting.is_map()).filter(is_topology)
}

/// Envoy Gateway's setting for the listeners of a Gateway.
pub fn policy_setting(policy: Object<'_>) -> Option<Node<'_>> {
    let spec = policy.spec()?;
    let former = || spec.get("enableProxyProtocol").filter(|enabled| enabled.is_true());
    spec.get("proxyProtocol").filter(|setting| setting.is_map()).or_else(former)
}

pub fn policy_settings(texts: &Texts) -> impl Iterator<Item = (Object<'_>, Node<'_>)> {
    of_kind(texts, "ClientTrafficPolicy")
        .filter_map(|policy| Some((policy, policy_setting(policy)?)))
}
