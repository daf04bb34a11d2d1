//! The policy file: one YAML text from which everything is rendered. Text → [`file::File`] (its
//! shape) → [`Policy`] (checked).
//!
//! The module's configuration is checked by the module's own types, so the module never rejects a
//! rendered configuration.

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

mod check;
mod checker;
mod error;
pub mod file;
pub mod module_json;
pub mod placement;
mod policy;
mod profile;
mod read;
mod shape;
mod sizing;
mod source;
pub mod warnings;
mod without;

pub use error::{PolicyError, PolicyProblem};
pub use policy::{ForwardedProto, PeerInfo, Policy, TcpListener};
pub use read::Overrides;
pub use shape::is_empty;
pub use sizing::{ENVOY_DRAIN, KUBELET, Sizing, drain_sizing};
pub use source::{FRAMES_FOLDER, MODULE_FOLDER, ModuleLocation, Resolve, Wanted};

#[cfg(test)]
mod tests;
