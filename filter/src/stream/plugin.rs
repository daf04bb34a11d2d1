//! A configured counter, which all streams of one root context share.

use core::cell::Cell;

use super::metrics::Metrics;
use crate::census::{self, Counter};
use crate::config::{Config, Refused};
use crate::host::{Control, Host, Level};
use crate::metrics::{long_lived, rejected};

/// Each stream keeps the plugin that it began with: a new configuration applies only to streams
/// that begin later.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) counter: Counter,
    has_warned_of_peer: Cell<bool>,
}

impl Plugin {
    /// Defines the metrics.
    ///
    /// # Errors
    /// The reason why this Envoy cannot run the configuration.
    pub(crate) fn new(host: &impl Host, config: Config) -> Result<Self, Refused> {
        let metrics =
            Metrics::define(host, config.scope, config.forwarded_proto.is_some(), config.kinds)?;
        Ok(Self {
            config,
            metrics,
            counter: Counter::default(),
            has_warned_of_peer: Cell::new(false),
        })
    }

    /// Counts a stream as long-lived. If Envoy rejects the gauge, it stays zero, so the stream is
    /// not exempt.
    pub(super) fn count_long_lived(&self, host: &impl Host) {
        if !self.metrics.long_lived.increment(host) {
            host.log(Level::Error, &rejected(&long_lived(self.config.scope)));
        }
        self.counter.long_lived.update(|long_lived| long_lived + 1);
    }

    /// Publishes that Envoy rejects a counter, because the gate would mistake its zero for a quiet
    /// period.
    #[cold]
    pub(super) fn report_rejected(&self, host: &impl Control, name: &str) {
        host.log(Level::Error, &rejected(name));
        census::reject(host, self.config.scope);
    }

    /// Logs once that the filter in front is missing; a line for each request would not help.
    #[cold]
    pub(super) fn warn_of_missing_peer(&self, host: &impl Host, key: &str) {
        if !self.has_warned_of_peer.replace(true) {
            let line = format!(
                "forwarded_proto: the direct peer's address is not in filter state `{key}`, so no \
                 peer is trusted: put an envoy.filters.http.set_filter_state filter that writes \
                 %DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT% there in front of this filter"
            );
            host.log(Level::Warning, &line);
        }
    }

    /// Logs once that the addresses of the connection are missing, which only `nlb` needs.
    #[cold]
    pub(super) fn warn_of_missing_addresses(&self, host: &impl Host, key: &str) {
        if !self.has_warned_of_peer.replace(true) {
            let line = format!(
                "forwarded_proto: `nlb` needs three addresses in filter state `{key}`, and they \
                 are not there, so every trusted peer is silent: let the set_filter_state filter \
                 in front of this filter write \
                 %DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT% %DOWNSTREAM_LOCAL_ADDRESS% \
                 %DOWNSTREAM_DIRECT_LOCAL_ADDRESS% in one line"
            );
            host.log(Level::Warning, &line);
        }
    }
}
