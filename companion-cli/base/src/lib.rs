//! The ground floor: what several parts use, and what makes no decision about Envoy, meshes and
//! gates.
//!
//! Texts and files of others are read by [`foreign`], [`yaml`] and [`files`], and shown by
//! [`visible`]. [`children`] and [`env_vars`] are the border to the system. What only one part
//! needs is in that part.
//!
//! The feature `formats` adds YAML, JSON schemas and digests. The program of stop hooks has none of
//! them.

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

pub mod causes;
pub mod children;
pub mod classes;
#[cfg(feature = "formats")]
pub mod digest;
pub mod env_vars;
pub mod files;
pub mod foreign;
#[cfg(feature = "formats")]
pub mod image_reference;
pub mod names;
#[cfg(feature = "formats")]
pub mod parse_error;
pub mod ports;
pub mod progress;
pub mod secret;
pub mod time_span;
pub mod versions;
pub mod visible;
#[cfg(feature = "formats")]
pub mod yaml;
