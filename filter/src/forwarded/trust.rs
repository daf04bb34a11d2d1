//! The peers whose headers are believed.

use super::peers::Peers;
use crate::host::Host;
use crate::text::Text;

/// The trusted peers: those with an address in `peers` or one of the `identities`.
#[derive(Debug)]
pub struct Trust {
    /// Addresses.
    pub peers: Peers,
    /// Identities in certificates.
    pub identities: Vec<Text>,
    pub(crate) peer_key: String,
    /// The property of [`Self::peer_key`]. Never `source.address`: Envoy infers that one from
    /// `x-forwarded-for`.
    peer_property: String,
}

impl Trust {
    pub(crate) fn new(peers: Peers, identities: Vec<Text>, peer_key: String) -> Self {
        Self { peer_property: format!("filter_state\0{peer_key}"), peers, identities, peer_key }
    }

    /// The value that the filter in front writes for this request; see
    /// [`PeerInfo`](super::peer_info::PeerInfo). Empty if the trust does not depend on it; none if
    /// it is missing.
    pub(crate) fn read_peer_info(&self, host: &impl Host) -> Option<Vec<u8>> {
        if self.peers.is_empty() {
            return Some(Vec::new());
        }
        host.property(&self.peer_property)
    }

    /// Whether the direct peer of this stream is trusted.
    pub(crate) fn accepts(&self, peer: &[u8], host: &impl Host) -> bool {
        if self.peers.contains_text(peer) {
            return true;
        }
        !self.identities.is_empty()
            && host
                .property("connection\0uri_san_peer_certificate")
                .is_some_and(|uri| self.identities.iter().any(|identity| identity.matches(&uri)))
    }
}
