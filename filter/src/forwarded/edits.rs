//! The edits of a request's headers. Each edit makes Envoy choose the route again, so a header that
//! is already right is not written.

use super::decide::{Finding, Verdict};
use super::known::{FORWARDED_PORT, FORWARDED_PROTO, tells_scheme};
use super::policy::SchemePolicy;
use super::scheme::Scheme;
use super::source::Ports;
use crate::headers::Headers;

/// A change to the request's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edit<'e> {
    /// The header has this value, and only this.
    Set(&'static str, &'e [u8]),
    /// The header is removed.
    Remove(&'e [u8]),
}

impl SchemePolicy {
    /// Passes every edit to `write`, and returns the verdict.
    pub(crate) fn edit<'e>(
        &'e self,
        finding: Finding,
        target: Option<Scheme>,
        headers: Headers<'e>,
        mut write: impl FnMut(Edit<'e>),
    ) -> Verdict {
        let mut is_changed = false;
        if let Some(scheme) = target {
            is_changed = !holds(headers, FORWARDED_PROTO, scheme.name());
            if is_changed {
                write(Edit::Set(FORWARDED_PROTO, scheme.name().as_bytes()));
            }
        }
        if let Some(scheme) = target.or_else(|| kept_http(headers)) {
            if self.write_scheme && !holds(headers, ":scheme", scheme.name()) {
                write(Edit::Set(":scheme", scheme.name().as_bytes()));
            }
            if self.write_port && self.port_is_wrong(scheme, headers) {
                write(Edit::Set(FORWARDED_PORT, self.ports.written(scheme)));
            }
        }
        self.strip(finding, headers, write);
        match finding {
            Finding::Known(_) if is_changed => Verdict::Overridden,
            Finding::Known(_) => Verdict::Kept,
            Finding::Silent => Verdict::Silent,
            Finding::Conflicting => Verdict::Conflicting,
            Finding::Untrusted => Verdict::Untrusted,
        }
    }

    /// A port that stands for neither scheme may be an unusual one of the load balancer, so it
    /// stays.
    fn port_is_wrong(&self, scheme: Scheme, headers: Headers<'_>) -> bool {
        let mut values = headers.all(FORWARDED_PORT);
        match (values.next(), values.next()) {
            (Some(value), None) => match Ports::read(value) {
                Some(port) => self.ports.scheme(port).is_some_and(|said| said != scheme),
                None => true,
            },
            _ => true,
        }
    }

    fn strip<'e>(&self, finding: Finding, headers: Headers<'e>, mut write: impl FnMut(Edit<'e>)) {
        // With a destination port, every header is the client's.
        let is_clients = self.reads_destination || finding == Finding::Untrusted;
        let strips_all = self.strip.untrusted && is_clients;
        if !strips_all && !self.strip.twins {
            return;
        }
        for (name, _) in headers.iter() {
            if self.is_forgeable(name, strips_all) {
                write(Edit::Remove(name));
            }
        }
    }

    /// Whether this header is removed: a twin, or with `all` any header that tells the scheme.
    fn is_forgeable(&self, name: &[u8], all: bool) -> bool {
        let Ok(name) = core::str::from_utf8(name) else { return false };
        let is_source = |name: &str| self.sources.iter().any(|source| source.header == name);
        if name == FORWARDED_PROTO || name == FORWARDED_PORT {
            return false;
        }
        if is_source(name) || !name.contains('_') {
            return all && (is_source(name) || tells_scheme(name));
        }
        let plain = name.replace('_', "-");
        is_source(&plain) || tells_scheme(&plain)
    }
}

/// If `x-forwarded-proto` is kept and says http, no other header may say https. If it says https,
/// that is not verified, so nothing follows from it.
fn kept_http(headers: Headers<'_>) -> Option<Scheme> {
    holds(headers, FORWARDED_PROTO, Scheme::Http.name()).then_some(Scheme::Http)
}

/// Whether a header exists once, with exactly this value.
fn holds(headers: Headers<'_>, name: &str, value: &str) -> bool {
    let mut values = headers.all(name);
    values.next() == Some(value.as_bytes()) && values.next().is_none()
}
