//! One HTTP stream, from its request headers to its end.

use std::cell::OnceCell;
use std::rc::Rc;

use crate::forwarded::{Edit, Finding, Policy, Scheme};
use crate::headers::Headers;
use crate::host::Host;
use crate::plugin::Plugin;
use crate::rules;

/// What the module keeps of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    plugin: Rc<Plugin>,
    counted: Counted,
}

/// Envoy makes a context for streams that never show request headers, too (431, missing host): those are not counted, and must not be
/// taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    No,
    Plain,
    LongLived,
}

impl Stream {
    pub(crate) fn new(plugin: Rc<Plugin>) -> Self {
        Self { plugin, counted: Counted::No }
    }

    /// The request headers are here.
    pub(crate) fn begin(&mut self, host: &impl Host) {
        let map = OnceCell::new();
        let headers = || Headers::new(map.get_or_init(|| host.request_headers()));
        if self.counted == Counted::No {
            self.counted = self.count(host, headers);
        }
        if let Some(policy) = &self.plugin.config.forwarded_proto {
            self.restore_scheme(policy, host, headers);
        }
    }

    /// The stream is over, in whatever way. Does nothing the second time.
    pub(crate) fn end(&mut self, host: &impl Host) {
        let metrics = &self.plugin.metrics;
        match std::mem::replace(&mut self.counted, Counted::No) {
            Counted::No => {}
            Counted::Plain => host.add(metrics.in_flight, -1),
            Counted::LongLived => {
                host.add(metrics.long_lived, -1);
                host.add(metrics.in_flight, -1);
            }
        }
    }

    /// In flight goes up before begun, and who reads takes them in that order, too: if in flight is zero and begun is what it was, no
    /// stream has been there in between. Long-lived goes up last and down first: whoever reads it after in flight, with begun standing
    /// still, never subtracts too much.
    fn count<'m>(&self, host: &impl Host, headers: impl Fn() -> Headers<'m>) -> Counted {
        let Plugin { config, metrics, .. } = &*self.plugin;
        let route = || host.property(b"xds\0route_name").unwrap_or_default();
        if !config.exclude.is_empty() && rules::any(&config.exclude, headers(), route) {
            host.add(metrics.excluded, 1);
            return Counted::No;
        }
        host.add(metrics.in_flight, 1);
        host.add(metrics.begun, 1);
        if !config.long_lived.is_empty() && rules::any(&config.long_lived, headers(), route) {
            host.add(metrics.long_lived, 1);
            return Counted::LongLived;
        }
        Counted::Plain
    }

    fn restore_scheme<'m>(&self, policy: &Policy, host: &impl Host, headers: impl Fn() -> Headers<'m>) {
        let trusted = self.plugin.trusts_peer(policy, host);
        let verdict = if !trusted && policy.ignores_untrusted() {
            crate::forwarded::Verdict::Untrusted
        } else {
            let headers = headers();
            let finding = if trusted { policy.find(headers) } else { Finding::Untrusted };
            let target = policy.target(finding, || connection_scheme(host));
            policy.edit(finding, target, headers, |edit| match edit {
                Edit::Set(name, value) => host.set_request_header(name, value),
                Edit::Remove(name) => host.remove_request_header(name),
            })
        };
        if let Some(counter) = self.plugin.metrics.verdict(verdict) {
            host.add(counter, 1);
        }
    }
}

/// Only a TLS connection has a TLS version.
fn connection_scheme(host: &impl Host) -> Scheme {
    match host.property(b"connection\0tls_version") {
        Some(_) => Scheme::Https,
        None => Scheme::Http,
    }
}
