//! The listener, connection manager and routes around a filter.

use super::inputs::Inputs;
use super::node::Node;
use super::wasm_filter::Module;

/// The most filters that run one module; those of its own resource come first. More of one name on
/// one proxy would not add information, and the work would grow with the square of the files.
const MOST_USES: usize = 32;

/// The filters that run a module: the module's own filter, or those that subscribe to its extension
/// configuration by name.
pub(super) fn uses<'g>(inputs: &'g Inputs, module: Module<'g>) -> Vec<Node<'g>> {
    if module.extension().is_none() {
        return vec![module.filter()];
    }
    let reach = module.reach();
    let filters = |own: bool| {
        inputs
            .waiting_for(module.name())
            .filter(move |(_, other)| reach.is_of_resource(other) == own && reach.may_meet(other))
    };
    filters(true).chain(filters(false)).map(|(filter, _)| filter).take(MOST_USES).collect()
}

pub(super) fn connection_manager(filter: Node<'_>) -> Option<Node<'_>> {
    filter.upwards().find(|node| is_connection_manager(*node))
}

/// The connection managers of a whole bootstrap.
pub(super) fn connection_managers(bootstrap: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    let path =
        "static_resources.listeners[].filter_chains[]|default_filter_chain.filters[].typed_config";
    bootstrap.all(path).filter(|config| is_connection_manager(*config))
}

pub(super) fn is_connection_manager(config: Node<'_>) -> bool {
    config.text_of("@type").is_some_and(|name| name.ends_with("HttpConnectionManager"))
}

pub(super) fn routes(manager: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    manager.all("route_config.virtual_hosts[].routes[]")
}

pub(super) fn listener(filter: Node<'_>) -> Option<Node<'_>> {
    filter.upwards().find(|node| {
        node.field("filter_chains").is_some() || node.field("default_filter_chain").is_some()
    })
}

fn address(listener: Node<'_>) -> Option<(Node<'_>, u64)> {
    let socket = listener.fields("address.socket_address")?;
    Some((socket.field("address")?, socket.field("port_value")?.number()?))
}

/// The listeners that run a module.
pub(super) fn listeners<'g>(
    inputs: &'g Inputs,
    module: Module<'g>,
) -> impl Iterator<Item = Node<'g>> {
    uses(inputs, module).into_iter().filter_map(listener)
}

/// The addresses and ports of the listeners that run a module.
pub(super) fn addresses<'g>(
    inputs: &'g Inputs,
    module: Module<'g>,
) -> impl Iterator<Item = (Node<'g>, u64)> {
    listeners(inputs, module).filter_map(address)
}

/// The ports of the listeners that run a module.
pub(super) fn ports(inputs: &Inputs, module: Module<'_>) -> Vec<u64> {
    addresses(inputs, module).map(|(_, port)| port).collect()
}

/// Whether only the local machine can reach this address.
pub(super) fn is_loopback(address: Node<'_>) -> bool {
    match address.text().map(str::parse::<std::net::IpAddr>) {
        Some(Ok(address)) => address.is_loopback(),
        _ => false,
    }
}
