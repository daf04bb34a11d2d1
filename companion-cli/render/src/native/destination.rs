//! The scheme by the destination port of the PROXY protocol header, as Envoy's own
//! `forward_proto_config`, where it is equivalent to the module.

use laststream_policy::DestinationPorts;

/// Settings for the connection manager of the trusted peers.
#[derive(Debug)]
pub(crate) struct Destination {
    pub peers: Vec<String>,
    pub ports: DestinationPorts,
}

/// `forward_proto_config` trusts any peer, so it needs a filter chain for the trusted ones. It
/// looks at the port whenever the local address was replaced, also by the listener's own address.
/// `reasons`: other obstacles.
pub(super) fn compile(
    peers: &[String],
    ports: &DestinationPorts,
    own_port: Option<u16>,
    mut reasons: Vec<String>,
) -> Result<Destination, Vec<String>> {
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
    Ok(Destination { peers: peers.to_vec(), ports: ports.clone() })
}
