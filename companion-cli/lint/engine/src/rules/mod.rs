//! The general rules, grouped by subject: they know Istio, Envoy, Envoy Gateway and Kubernetes. A
//! group is a list of checks, each with the code of its rule.

pub(crate) mod affected;
pub(crate) mod change;
pub(crate) mod document;
mod envoy_filter;
pub(crate) mod files;
mod istio;
mod jobs;
mod names;
pub mod overlay;
pub(crate) mod schema;
pub mod traffic;
pub mod upgrade;
pub(crate) mod words;

use crate::finding::Checks;

pub(crate) const GROUPS: &[Checks] = &[
    files::CHECKS,
    schema::CHECKS,
    words::CHECKS,
    envoy_filter::CHECKS,
    names::CHECKS,
    overlay::CHECKS,
    jobs::CHECKS,
    istio::CHECKS,
    traffic::CHECKS,
    change::CHECKS,
];
