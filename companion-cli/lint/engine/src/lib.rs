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
pub mod proxy_protocol;
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

pub use linter::{Facts, Linter};
pub use program::Program;
