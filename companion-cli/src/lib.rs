//! The parts of the `laststream` command line that do the work. They return data and report
//! progress through [`base::progress::Progress`]; printing is left to the binary, in `commands`.
//!
//! The commands of each folder: [`module`] build, version and inspect of files; [`oci`] push and
//! inspect of images; [`policy`] and [`render`] render; [`lint`] lint; [`gate`] status, streams,
//! drain, wait, exec and install; [`fleet`] the verbs over many pods; [`durations`] size;
//! [`local`] envoy, run and demo. [`base`] is what they share.

pub mod base;
pub mod durations;
pub mod fleet;
pub mod gate;
pub mod lint;
pub mod local;
pub mod module;
pub mod oci;
pub mod policy;
pub mod render;
