//! Restoring `x-forwarded-proto`: trust in peers, the scheme by their headers, and the edits.
//!
//! Only [`Trust`] reads from Envoy; everything else is pure. The edits are made in
//! [`crate::stream`].

mod cf_visitor;
mod decide;
mod edits;
mod known;
mod peer_info;
mod peers;
mod policy;
mod rfc7239;
mod scheme;
mod source;
mod trust;

pub(crate) use decide::Finding;
pub use decide::Verdict;
pub(crate) use edits::Edit;
pub use known::FORWARDED_PROTO;
pub(crate) use known::{form_of, headers_of};
pub(crate) use peer_info::PeerInfo;
pub use peers::{Peers, Range, RangeError};
pub use policy::SchemePolicy;
pub(crate) use rfc7239::is_token;
pub use scheme::Scheme;
pub use source::{Ports, Source};
pub use trust::Trust;

#[doc(hidden)]
// for the fuzz targets
pub use {cf_visitor::scheme as cf_visitor_scheme, rfc7239::protos as forwarded_protos};
