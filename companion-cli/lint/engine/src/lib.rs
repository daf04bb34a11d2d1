//! The engine of a linter for manifests of a mesh. It reads files as trees of nodes with positions
//! (`texts`, `node`), finds objects, pods and the proxies that filters reach (`objects`, `pods`,
//! `reach`), asks the CRDs' schemas and CEL rules for the API server's verdict (`crds`), compares
//! two sets of files (`change`), and writes findings as text, JSON and SARIF (`output`). `rules`
//! has the rules that any mesh needs. A program hands its own rules and facts to a [`Linter`].

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

pub mod assume;
pub mod bootstraps;
pub mod change;
pub mod cluster_object;
pub mod crds;
pub mod envoy_filter;
pub mod envoys;
pub mod fields;
pub mod finding;
mod ignore;
mod index;
pub mod injected;
pub mod inputs;
mod kustomize;
mod linter;
pub mod listeners;
pub mod node;
pub mod objects;
pub mod output;
pub mod overlaid;
pub mod places;
mod plain;
pub mod pods;
mod program;
pub mod reach;
pub mod read;
pub mod rules;
pub mod sources;
pub mod split_pods;
mod template;
pub mod texts;
pub mod upgrade;
pub mod value;
pub mod volumes;
pub mod words;

pub use assume::Assume;
pub use bootstraps::{BootstrapPart, bootstraps, bootstraps_of};
pub use cluster_object::ClusterObject;
pub use envoy_filter::{Patch, envoy_filters, patch_of, patches, patches_of};
pub use envoys::{clusters, discovers_listeners, whole_bootstraps};
pub use finding::{
    Check, Checks, Finding, Findings, Group, Rule, Severity, is_in_secret, is_secret,
};
pub use inputs::{Inputs, OVERLAY_KEYS, read_all};
pub use linter::{Facts, Linter};
pub use listeners::{
    address, connection_manager, connection_managers, header_filters, is_connection_manager,
    is_loopback, is_type, listener, listener_filters, policy_setting, policy_settings, routes,
    topology_settings,
};
pub use node::{MERGE, Node, camel, is_string_value};
pub(crate) use objects::index_of;
pub use objects::{
    Object, ROOT_NAMESPACE, beside, ip_detections, named, near, object_of, objects, of_kind,
    referred, users,
};
pub use overlaid::Overlaid;
pub use pods::{
    CLASS_LABEL, CONTAINERS, DEFAULT_GRACE, Hook, PROXIES, Pod, hooks, is_gateway_chart_key,
    metadata_patches, overlay_template, pod_around, pods, stop_hooks,
};
pub use program::Program;
pub use reach::{ProxySelector, Reach, Selected};
pub use sources::{STDIN, SourceError, SourceFile, gather};
pub use split_pods::SplitPods;
pub use texts::{Texts, number};
pub use value::value_of;
pub use volumes::{Holders, ImageVolume, image_volumes};
