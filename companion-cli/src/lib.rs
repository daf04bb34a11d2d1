//! The parts of the `laststream` command line that do the work. They return data and report
//! progress through [`progress::Progress`]; printing is left to the binary, in `commands`.
//!
//! The commands of each folder: [`module`] build, version and inspect of files; [`oci`] push and
//! inspect of images; [`policy`] and [`render`] render; [`lint`] lint; [`gate`] status, streams,
//! drain, wait, exec and install; [`fleet`] the verbs over many pods; [`local`] envoy, run and
//! demo.

mod causes;
pub mod children;
pub mod digest;
pub mod env_vars;
mod files;
pub mod fleet;
pub mod foreign;
pub mod gate;
mod http;
pub mod lint;
pub mod local;
pub mod module;
pub mod oci;
pub mod policy;
pub mod progress;
pub mod render;
pub mod size;
pub mod time_span;
pub mod visible;
pub mod yaml;
