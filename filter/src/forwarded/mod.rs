//! Restoring `x-forwarded-proto`: what is believed, what follows from it, and which headers are written. Nothing here asks Envoy.

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
mod trust;

pub(crate) use decide::Finding;
pub use decide::Verdict;
pub(crate) use edits::Edit;
pub(crate) use known::{FORWARDED_PROTO, form_of, headers_of};
pub use peers::{Peers, Range, RangeError};
pub use scheme::Scheme;
pub(crate) use source::{Ports, Source};
pub(crate) use trust::Trust;

#[doc(hidden)]
pub use {cf_visitor::scheme as cf_visitor_scheme, rfc7239::protos as forwarded_protos}; // for the fuzz targets

use crate::config::wire::{Decision, Fallback, Strip};

/// The checked policy.
#[derive(Debug)]
pub struct Policy {
    pub(crate) trust: Trust,
    pub(crate) sources: Vec<Source>,
    pub(crate) decision: Decision,
    pub(crate) ports: Ports,
    pub(crate) fallback: Fallback,
    pub(crate) strip: Strip,
    pub(crate) write_scheme: bool,
    pub(crate) write_port: bool,
}
