//! The listener, connection manager and routes around a filter.

use crate::Node;

pub fn connection_manager(filter: Node<'_>) -> Option<Node<'_>> {
    filter.upwards().find(|node| is_connection_manager(*node))
}

pub fn is_connection_manager(config: Node<'_>) -> bool {
    config.text_of("@type").is_some_and(|name| name.ends_with("HttpConnectionManager"))
}

pub fn routes(manager: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    manager.all("route_config.virtual_hosts[].routes[]")
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
