//! The general rules, grouped by subject: they know Istio, Envoy, Envoy Gateway and Kubernetes. A
//! group is a folder: `rules.md` with the texts, the checks, each with the code of its rule, and
//! two examples of each rule.

pub(crate) mod change;
mod envoy_filter;
pub(crate) mod files;
mod istio;
mod jobs;
mod names;
pub mod overlay;
pub(crate) mod schema;
pub(crate) mod sections;
pub mod traffic;
pub mod upgrade;
pub(crate) mod words;

use crate::Group;

pub(crate) const GROUPS: &[Group] = &[
    (include_str!("files/rules.md"), files::CHECKS),
    (include_str!("schema/rules.md"), schema::CHECKS),
    (include_str!("words/rules.md"), words::CHECKS),
    (include_str!("envoy_filter/rules.md"), envoy_filter::CHECKS),
    (include_str!("names/rules.md"), names::CHECKS),
    (include_str!("overlay/rules.md"), overlay::CHECKS),
    (include_str!("jobs/rules.md"), jobs::CHECKS),
    (include_str!("istio/rules.md"), istio::CHECKS),
    (include_str!("traffic/rules.md"), traffic::CHECKS),
    (include_str!("change/rules.md"), change::CHECKS),
    (include_str!("upgrade/rules.md"), &[]), // the checks are in `upgrade::CHANGES`
];
