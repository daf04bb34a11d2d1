//! Envoy's settings for a connection's client, before the first filter: the PROXY protocol, filter
//! chains by the direct peer, and the client's address.

use laststream_filter::config::wire::Ports;

use super::native::{cidrs, ranges};
use super::parts::{self, HCM_TYPE};
use super::scheme::Scheme;
use laststream_base::yaml::{List, Map};
use laststream_policy::Policy;
use laststream_policy::file::ForwardedFor;

const PROXY_PROTOCOL_TYPE: &str =
    "type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol";

const XFF_TYPE: &str =
    "type.googleapis.com/envoy.extensions.http.original_ip_detection.xff.v3.XffConfig";
const CUSTOM_HEADER_TYPE: &str = concat!(
    "type.googleapis.com/",
    "envoy.extensions.http.original_ip_detection.custom_header.v3.CustomHeaderConfig"
);

pub(super) const WHY_PROXY_PROTOCOL: &str = "The load balancer's PROXY protocol header, version 1 \
    or 2. Any peer may send one, and with it choose the client's address: let only the load \
    balancer connect. For the scheme it counts from trusted peers only.";

pub(super) fn takes_proxy_protocol(policy: &Policy) -> bool {
    policy.forwarded_proto.as_ref().is_some_and(|proto| proto.destination_ports.is_some())
}

/// The listener filter that takes the header.
pub(super) fn proxy_protocol_filter() -> Map {
    let config = Map::of("@type", PROXY_PROTOCOL_TYPE)
        .note("Health checks of the load balancer and probes of kubelet send no header.")
        .with("allow_requests_without_proxy_protocol", true);
    parts::typed("envoy.filters.listener.proxy_protocol", config)
}

/// Connections that have a separate connection manager.
pub(super) struct Chain {
    /// `filter_chain_match`; none for all other connections.
    pub(super) matches: Option<Map>,
    /// The first fields of the connection manager.
    pub(super) manager: Map,
}

/// The filter chains of a listener without a mesh; the last one is for all other connections.
pub(super) fn chains(policy: &Policy, scheme: &Scheme<'_>) -> Vec<Chain> {
    let manager = || Map::of("@type", HCM_TYPE).with("stat_prefix", "main");
    let edge = || manager().with("use_remote_address", true);
    let detection = |extension: Map| {
        manager()
            .note(
                "The client's address comes from a header. Without use_remote_address Envoy keeps \
                the peer's own x-forwarded-proto, so its early removal must stay.",
            )
            .with("use_remote_address", false)
            .with("original_ip_detection_extensions", List::of(extension))
    };
    let all = |manager: Map| vec![Chain { matches: None, manager }];
    let for_peers = |peers: &[String], manager: Map| {
        let rest = Chain { matches: None, manager: edge() };
        vec![Chain { matches: Some(from_peers(peers)), manager }, rest]
    };
    let proto = policy.forwarded_proto.as_ref();
    let peers = proto.map_or(&[][..], |proto| &proto.peers);
    let ports = proto.and_then(|proto| proto.destination_ports.as_ref());
    let ports = ports.filter(|_| scheme.is_by_destination());
    match (ports, &policy.file.forwarded_for) {
        (Some(ports), _) => for_peers(peers, by_ports(edge(), ports)),
        (None, Some(ForwardedFor::Xff)) => all(detection(xff(peers))),
        (None, Some(ForwardedFor::Header(name))) => {
            for_peers(peers, detection(client_header(name)))
        }
        (None, None) => all(edge()),
    }
}

/// Envoy walks over `x-forwarded-for` from its end, as long as the addresses are trusted peers.
fn xff(peers: &[String]) -> Map {
    let config = Map::of("@type", XFF_TYPE)
        .note("Never empty: Envoy would then believe every peer.")
        .with("xff_trusted_cidrs", Map::of("cidrs", cidrs(&ranges(peers))))
        .note("The peer's address is appended, as with use_remote_address.")
        .with("skip_xff_append", false);
    parts::typed("envoy.http.original_ip_detection.xff", config)
}

fn client_header(name: &str) -> Map {
    let config = Map::of("@type", CUSTOM_HEADER_TYPE)
        .note("Envoy believes it of every peer: only the filter chain keeps untrusted clients out.")
        .with("header_name", name.to_ascii_lowercase());
    parts::typed("envoy.http.original_ip_detection.custom_header", config)
}

fn by_ports(manager: Map, ports: &Ports) -> Map {
    let list = |ports: &[u16]| {
        (!ports.is_empty()).then(|| ports.iter().copied().map(u64::from).collect::<List>())
    };
    let ports = Map::new()
        .with_some("https_destination_ports", list(&ports.https))
        .with_some("http_destination_ports", list(&ports.http));
    manager
        .note(
            "Envoy 1.38 and newer. It applies to every peer, so it stands only in the filter chain \
            of the trusted ones.",
        )
        .with("forward_proto_config", ports)
}

/// The match of connections whose own peer is in one of these ranges, whatever a PROXY protocol
/// header says.
fn from_peers(peers: &[String]) -> Map {
    Map::new()
        .note("The connection's own peer, whatever a header says.")
        .with("direct_source_prefix_ranges", cidrs(&ranges(peers)))
}
