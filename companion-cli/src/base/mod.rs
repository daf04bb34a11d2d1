//! The ground floor: what several parts use, and what makes no decision about Envoy, meshes and
//! gates.
//!
//! Texts and files of others are read by [`foreign`], [`yaml`] and [`files`], and shown by
//! [`visible`]. [`children`] and [`env_vars`] are the border to the system, [`http`] to the
//! network. What only one part needs stands in that part.

pub(crate) mod causes;
pub mod children;
pub mod digest;
pub mod env_vars;
pub(crate) mod files;
pub mod foreign;
pub(crate) mod http;
pub mod progress;
pub mod time_span;
pub mod visible;
pub mod yaml;
