//! Restores the scheme of one request: reads the input of [`crate::forwarded`] from Envoy, and
//! makes the edits that it decides on.

use super::headers::LazyHeaders;
use super::plugin::Plugin;
use crate::forwarded::{Edit, Finding, PeerInfo, Scheme, SchemePolicy, Verdict};
use crate::headers::Headers;
use crate::host::Host;

#[inline(never)] // streams that are only counted do not pay for its registers
pub(super) fn restore_scheme<H: Host>(
    plugin: &Plugin,
    policy: &SchemePolicy,
    host: &H,
    headers: &mut LazyHeaders<'_, H>,
) {
    let value = policy.trust.read_peer_info(host).unwrap_or_else(|| {
        plugin.warn_of_missing_peer(host, &policy.trust.peer_key);
        Vec::new()
    });
    let peer_info = PeerInfo::parse(&value, policy.reads_destination);
    if policy.reads_destination && peer_info.lacks_addresses() {
        plugin.warn_of_missing_addresses(host, &policy.trust.peer_key);
    }
    let is_trusted = policy.trust.accepts(peer_info.peer, host);
    let verdict = if !is_trusted && policy.ignores_untrusted() {
        Verdict::Untrusted
    } else {
        let headers_of_peer = peer_info.headers(policy);
        let headers = match &headers_of_peer {
            Some(known) => Headers::of_pairs(known),
            None => headers.get(),
        };
        let finding = match is_trusted {
            false => Finding::Untrusted,
            true if policy.reads_destination => policy.find_by_port(peer_info.destination_port()),
            true => policy.find(headers, || is_redirected(host)),
        };
        let target = policy.target(finding, || connection_scheme(host));
        policy.edit(finding, target, headers, |edit| match edit {
            Edit::Set(name, value) => host.set_request_header(name, value),
            Edit::Remove(name) => host.remove_request_header(name),
        })
    };
    if let Some(counter) = plugin.metrics.verdict(verdict) {
        host.increment_metric(counter, 1);
    }
}

/// Whether Envoy has followed a redirect of the upstream itself. The router counts redirects in
/// filter state, which no client can write.
fn is_redirected(host: &impl Host) -> bool {
    host.property("filter_state\0num_internal_redirects").is_some()
}

/// Only a TLS connection has a TLS version, and the version is never empty.
fn connection_scheme(host: &impl Host) -> Scheme {
    match host.property("connection\0tls_version") {
        Some(_) => Scheme::Https,
        None => Scheme::Http,
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
#[path = "scheme_properties.rs"]
mod properties;
#[cfg(test)]
#[path = "scheme_tests.rs"]
mod tests;
