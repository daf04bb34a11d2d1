//! Envoy's filter `connection_limit`, whose gauge is the number of TCP connections that hold a
//! drain.

use laststream_base::yaml::Map;

use crate::parts::typed;

pub(super) const PROXY: &str = "envoy.filters.network.tcp_proxy";
const NAME: &str = "envoy.filters.network.connection_limit";
const TYPE: &str =
    "type.googleapis.com/envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit";

/// The stat prefix in front of listeners whose connections count.
const COUNTED: &str = "laststream";
/// The same in the gate's listener.
const GATES: &str = "laststream_gate";

/// The filter in front of a TCP proxy. It limits nothing.
pub(super) fn counted() -> Map {
    filter(COUNTED)
}

/// The filter in front of the gate, by which the gate sees that Envoy exports these numbers.
pub(super) fn of_gate() -> Map {
    filter(GATES)
}

pub(super) fn is_filter(name: Option<&str>, stat_prefix: Option<&str>) -> bool {
    (name, stat_prefix) == (Some(NAME), Some(COUNTED))
}

fn filter(stat_prefix: &str) -> Map {
    let limit = Map::of("@type", TYPE)
        .with("stat_prefix", stat_prefix)
        .with("max_connections", 4_294_967_295_u64);
    typed(NAME, limit)
}
