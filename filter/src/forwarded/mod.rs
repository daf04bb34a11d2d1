//! Restoring `x-forwarded-proto`: what is believed, what follows from it, and which headers are written. Nothing here asks Envoy.

use alloc::string::String;
use alloc::vec::Vec;

mod address;
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
pub use scheme::Scheme;
pub(crate) use source::{Ports, Source};
pub(crate) use told::Told;
pub(crate) use trust::Trust;

#[doc(hidden)]
pub use {cf_visitor::scheme as cf_visitor_scheme, rfc7239::protos as forwarded_protos}; // for the fuzz targets

use crate::config::wire::{Decision, Fallback, Strip};

/// The checked policy.
#[derive(Debug)]
pub struct Policy {
    pub(crate) trust: Trust,
    pub(crate) sources: Vec<Source>,
    /// The header that holds what the peer sent as `x-forwarded-proto`.
    pub(crate) original: String,
    pub(crate) decision: Decision,
    pub(crate) ports: Ports,
    pub(crate) fallback: Fallback,
    pub(crate) strip: Strip,
    pub(crate) write_scheme: bool,
    pub(crate) write_port: bool,
}

impl Policy {
    /// Whether it looks at the `x-forwarded-proto` that the peer sent.
    pub fn looks_at_original(&self) -> bool {
        self.sources.iter().any(|source| source.header == self.original)
    }

    /// Whether the headers that a filter in front can tell (see `told`) are all that it looks at.
    pub fn looks_only_at_told_headers(&self) -> bool {
        told::tells(&self.sources, &self.original) && !self.write_scheme && !self.strip.untrusted && !self.strip.twins
    }
}
