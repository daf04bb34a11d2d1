//! Whose headers are believed.

use super::Peers;
use crate::text::Text;

/// Whom a policy trusts: whoever is in `peers` or has one of the `identities`.
#[derive(Debug)]
pub struct Trust {
    /// Addresses.
    pub peers: Peers,
    /// Identities in certificates.
    pub identities: Vec<Text>,
    pub(crate) peer_key: String,
    /// The property that holds the direct peer's address. Never `source.address`: that one is
    /// inferred from `x-forwarded-for`.
    pub(crate) peer_property: Vec<u8>,
}

impl Trust {
    pub(crate) fn new(peers: Peers, identities: Vec<Text>, peer_key: String) -> Self {
        Self {
            peer_property: [b"filter_state\0", peer_key.as_bytes()].concat(),
            peers,
            identities,
            peer_key,
        }
    }
}
