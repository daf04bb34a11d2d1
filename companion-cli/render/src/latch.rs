//! The route that refuses new requests behind the last call, for a gate that counts by Envoy.

use laststream_base::yaml::{List, Map};

const WHY: &str = "The latch of the gate: closed for the moment between its last look at Envoy's \
    count and the signal that ends Envoy.";

/// The route, for the head of each virtual host.
pub(super) fn route() -> Map {
    let fraction = Map::of("default_value", Map::of("numerator", 0_u16))
        .with("runtime_key", laststream_filter::gate::LATCH);
    let header = Map::of("header", Map::of("key", "retry-after").with("value", "1"));
    let body = Map::of("inline_string", "the proxy is closing\n");
    Map::new()
        .note(WHY)
        .with("name", "laststream-latch")
        .with("match", Map::of("prefix", "/").with("runtime_fraction", fraction))
        .with("direct_response", Map::of("status", 503_u16).with("body", body))
        .with("response_headers_to_add", List::of(header))
}

/// The runtime of a bootstrap, which the gate changes through the admin interface.
pub(super) fn runtime() -> Map {
    let layer = Map::of("name", "admin").with("admin_layer", Map::new());
    Map::of("layers", List::of(layer))
}
