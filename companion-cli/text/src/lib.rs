//! The texts that others write: files ([`foreign`]), YAML ([`yaml`]), times, names and versions,
//! and how they are shown ([`visible`]). It knows Istio, Envoy Gateway and Kubernetes, and nothing
//! of laststream.
//!
//! The feature `formats` adds YAML and JSON schemas.

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

pub mod foreign;
pub mod istio;
pub mod names;
#[cfg(feature = "formats")]
pub mod parse_error;
pub mod pods;
pub mod ports;
pub mod time_span;
pub mod versions;
pub mod visible;
#[cfg(feature = "formats")]
pub mod yaml;
