//! The ground floor: what several parts use, and what makes no decision about Envoy, meshes and
//! gates.
//!
//! Texts of others are read and shown by `manifest-text`, whose modules have their names here, too.
//! [`children`], [`files`] and [`env_vars`] are the border to the system. What only one part needs
//! is in that part.
//!
//! The feature `formats` adds YAML, JSON schemas and digests. The program of stop hooks has none of
//! them.

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

pub mod causes;
pub mod children;
#[cfg(feature = "formats")]
pub mod digest;
pub mod env_vars;
pub mod files;
#[cfg(feature = "formats")]
pub mod image_reference;
pub mod ports;
pub mod progress;
pub mod secret;

pub use manifest_text::{foreign, istio, names, pods, time_span, versions, visible};
#[cfg(feature = "formats")]
pub use manifest_text::{parse_error, yaml};
