//! One file for each command: its arguments, the call of what does the work, the output of the
//! result, and the exit code.

pub(crate) mod assess;
pub(crate) mod build;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod drain;
pub(crate) mod envoy;
mod fit;
pub(crate) mod guarded;
pub(crate) mod inspect;
pub(crate) mod lint;
pub(crate) mod man;
pub(crate) mod module;
mod output;
pub(crate) mod pods;
mod policy_images;
pub(crate) mod push;
pub(crate) mod render;
pub(crate) mod run;
pub(crate) mod scanned;
pub(crate) mod size;
pub(crate) mod status;
pub(crate) mod streams;
pub(crate) mod version;
pub(crate) mod wait;

pub(crate) use laststream_hook::{Ended, Exit, Failure, Output, Printer, misused, printed};
pub(crate) use output::FleetOutput;
