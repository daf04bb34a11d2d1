//! Restoring `x-forwarded-proto`: what is believed, what follows from it, and which headers are written. Nothing here asks Envoy.

mod cf_visitor;
mod decide;
mod edits;
mod known;
mod peers;
mod rfc7239;
mod scheme;
mod source;
mod trust;

pub(crate) use decide::Finding;
pub use decide::Verdict;
pub(crate) use edits::Edit;
pub use known::FORWARDED_PROTO;
pub(crate) use known::{form_of, sources_of};
pub use peers::{Peers, Range, RangeError};
pub use scheme::Scheme;
pub use source::{Ports, Source};
pub use trust::Trust;

#[doc(hidden)]
pub use {cf_visitor::scheme as cf_visitor_scheme, rfc7239::protos as forwarded_protos}; // for the fuzz targets

use crate::config::wire::{Decision, Fallback, Strip};

/// The checked policy.
#[derive(Debug)]
pub struct Policy {
    /// Whom it believes.
    pub trust: Trust,
    /// What it reads, each header once; `x-forwarded-proto` under the name that it was saved in.
    pub sources: Vec<Source>,
    /// What several sources must do.
    pub decision: Decision,
    /// Which scheme a port stands for.
    pub ports: Ports,
    /// What becomes of a request that nothing is known of.
    pub fallback: Fallback,
    /// Which forgeable headers go.
    pub strip: Strip,
    /// Whether `:scheme` is written, too.
    pub write_scheme: bool,
    /// Whether `x-forwarded-port` is written, too.
    pub write_port: bool,
}
