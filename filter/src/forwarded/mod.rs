//! Restoring `x-forwarded-proto`: what is believed, what follows from it, and which headers are
//! written. Nothing here asks Envoy.

mod cf_visitor;
mod decide;
mod edits;
mod known;
mod peers;
mod rfc7239;
mod scheme;
mod source;
mod told;
mod trust;

pub(crate) use decide::Finding;
pub use decide::Verdict;
pub(crate) use edits::Edit;
pub use known::FORWARDED_PROTO;
pub(crate) use known::{form_of, headers_of};
pub use peers::{Peers, Range, RangeError};
pub(crate) use rfc7239::is_token;
pub use scheme::Scheme;
pub use source::{Ports, Source};
pub(crate) use told::Told;
pub use trust::Trust;

#[doc(hidden)]
// for the fuzz targets
pub use {cf_visitor::scheme as cf_visitor_scheme, rfc7239::protos as forwarded_protos};

use crate::config::wire::{Decision, Fallback, Strip};

/// The checked policy.
#[derive(Debug)]
pub struct Policy {
    /// Whom it believes.
    pub trust: Trust,
    /// What it reads, each header once; `x-forwarded-proto` under the name that it was saved in.
    pub sources: Vec<Source>,
    /// The header that holds what the peer sent as `x-forwarded-proto`.
    pub original: String,
    /// What several sources must do.
    pub decision: Decision,
    /// Which scheme a port stands for.
    pub ports: Ports,
    /// What an untrusted peer's request gets.
    pub fallback: Fallback,
    /// What the request of a trusted peer gets that says nothing.
    pub silent: Fallback,
    /// Which forgeable headers go.
    pub strip: Strip,
    /// Whether `:scheme` is written, too.
    pub write_scheme: bool,
    /// Whether `x-forwarded-port` is written, too.
    pub write_port: bool,
}

impl Policy {
    /// Whether it looks at the `x-forwarded-proto` that the peer sent.
    pub fn looks_at_original(&self) -> bool {
        self.sources.iter().any(|source| source.header == self.original)
    }

    /// Whether the headers that a filter in front can tell (see `told`) are all that it looks at.
    pub fn looks_only_at_told_headers(&self) -> bool {
        told::tells(&self.sources, &self.original)
            && !self.write_scheme
            && !self.strip.untrusted
            && !self.strip.twins
    }
}
