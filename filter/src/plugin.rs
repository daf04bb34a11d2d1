//! A configured instance of the module: what all its streams share.

use core::cell::Cell;

use crate::census::{self, Member};
use crate::config::{Config, Refused};
use crate::forwarded::Policy;
use crate::host::{Control, Host, Level};
use crate::metrics::{Metrics, rejected};

/// Envoy hands it to the streams that begin after it was configured; those that began before keep
/// the one they have.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) member: Member,
    /// The property that holds what the filter in front tells of the request.
    peer_property: String,
    peer_missed: Cell<bool>,
}

impl Plugin {
    /// Defines the metrics.
    ///
    /// # Errors
    /// What is wrong with this Envoy for the configuration.
    pub(crate) fn new(host: &impl Host, config: Config) -> Result<Self, Refused> {
        let metrics = Metrics::define(host, config.scope, config.forwarded_proto.is_some())?;
        let peer_property = config
            .forwarded_proto
            .as_ref()
            .map(|policy| String::from_utf8_lossy(&policy.trust.peer_property).into_owned())
            .unwrap_or_default();
        Ok(Self {
            config,
            metrics,
            member: Member::default(),
            peer_property,
            peer_missed: Cell::new(false),
        })
    }

    /// What the filter in front tells of the request; nothing if nobody asks who the peer is.
    pub(crate) fn told(&self, policy: &Policy, host: &impl Host) -> Vec<u8> {
        let trust = &policy.trust;
        if trust.peers.is_empty() {
            return Vec::new();
        }
        let told = host.property(&self.peer_property);
        if told.is_none() {
            self.say_peer_is_missed(host, &trust.peer_key);
        }
        told.unwrap_or_default()
    }

    /// Whether the policy believes the peer at the other end of this stream's connection.
    pub(crate) fn trusts(policy: &Policy, peer: &[u8], host: &impl Host) -> bool {
        let trust = &policy.trust;
        if trust.peers.contains_text(peer) {
            return true;
        }
        !trust.identities.is_empty()
            && host
                .property("connection\0uri_san_peer_certificate")
                .is_some_and(|uri| trust.identities.iter().any(|identity| identity.matches(&uri)))
    }

    /// A counter does not count. The gate must know, for it would read quiet off it.
    #[cold]
    pub(crate) fn say_rejected(&self, host: &impl Control, name: &str) {
        host.log(Level::Error, &rejected(name));
        census::reject(host, self.config.scope);
    }

    /// Once: a line for each request would help nobody.
    #[cold]
    fn say_peer_is_missed(&self, host: &impl Host, key: &str) {
        if !self.peer_missed.replace(true) {
            let line = format!(
                "forwarded_proto: the direct peer's address is not in filter state `{key}`, so no \
                    peer is trusted: put an envoy.filters.http.set_filter_state filter that writes \
                 %DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT% there in front of this filter"
            );
            host.log(Level::Warning, &line);
        }
    }
}
