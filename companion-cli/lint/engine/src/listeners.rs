//! The listener, connection manager and routes around a filter, and listener filters that take
//! PROXY protocol headers, with the settings of control planes that add one.

use crate::{Node, Object, Texts, of_kind};

pub fn connection_manager(filter: Node<'_>) -> Option<Node<'_>> {
    filter.upwards().find(|node| is_connection_manager(*node))
}

pub fn is_connection_manager(config: Node<'_>) -> bool {
    is_type(config, "HttpConnectionManager")
}

pub fn routes(manager: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    manager.all("route_config.virtual_hosts[].routes[]")
}

/// The connection managers of a whole bootstrap.
pub fn connection_managers(bootstrap: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    let path =
        "static_resources.listeners[].filter_chains[]|default_filter_chain.filters[].typed_config";
    bootstrap.all(path).filter(|config| is_connection_manager(*config))
}

pub fn listener(filter: Node<'_>) -> Option<Node<'_>> {
    filter.upwards().find(|node| {
        node.field("filter_chains").is_some() || node.field("default_filter_chain").is_some()
    })
}

pub fn address(listener: Node<'_>) -> Option<(Node<'_>, u64)> {
    let socket = listener.fields("address.socket_address")?;
    Some((socket.field("address")?, socket.field("port_value")?.number()?))
}

/// Whether only the local machine can reach this address.
pub fn is_loopback(address: Node<'_>) -> bool {
    match address.text().map(str::parse::<std::net::IpAddr>) {
        Some(Ok(address)) => address.is_loopback(),
        _ => false,
    }
}

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
