//! The scheme by the destination port of the PROXY protocol header, as Envoy's own
//! `forward_proto_config`, where it is equivalent to the module.

use laststream_filter::forwarded;

use super::{Listeners, Native, unwritten};
use crate::policy::{DestinationPorts, ForwardedProto};

/// What the connection manager of the trusted peers is told.
#[derive(Debug)]
pub(in crate::render) struct Destination {
    /// The trusted ranges.
    pub(in crate::render) peers: Vec<String>,
    /// The ports.
    pub(in crate::render) ports: DestinationPorts,
}

/// It trusts any peer, so it needs a filter chain for the trusted ones; and it looks at the port
/// whenever the local address was replaced, also by the listener's own address.
pub(super) fn compile(
    policy: &forwarded::Policy,
    proto: &ForwardedProto,
    ports: &DestinationPorts,
    listeners: Listeners,
) -> Result<Native, Vec<String>> {
    let own_port = match listeners {
        Listeners::Edge(port) => Some(port),
        Listeners::Plaintext | Listeners::Any => None,
    };
    let mut reasons = unwritten(policy);
    if own_port.is_none() {
        reasons.push(
            "`nlb`: Envoy's forward_proto_config believes every peer, and only `placement.envoy` \
                has a filter chain for the trusted ones alone"
                .into(),
        );
    }
    if let Some(port) = own_port.filter(|port| ports.https.contains(port)) {
        reasons.push(format!(
            "`nlb`: the listener's own port {port} is in `ports.https`, and Envoy does not tell a \
                header with the listener's own address from none as the module does"
        ));
    }
    if !reasons.is_empty() {
        return Err(reasons);
    }
    let destination = Destination { peers: proto.peers.clone(), ports: ports.clone() };
    Ok(Native {
        saved_in: None,
        forgets: true,
        filters: Vec::new(),
        destination: Some(destination),
    })
}
