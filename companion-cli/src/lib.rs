//! The parts of the `laststream` command line that do the work. They return data and report progress through [`progress::Progress`];
//! printing is left to the binary.

mod causes;
pub mod demo;
pub mod digest;
pub mod env_vars;
pub mod envoy;
pub mod exec;
pub mod foreign;
pub mod gate;
mod http;
pub mod image;
pub mod inspect;
pub mod install;
pub mod lint;
pub mod module;
pub mod policy;
pub mod progress;
pub mod registry;
pub mod render;
pub mod run;
pub mod sign;
pub mod time_span;
pub mod visible;
pub mod yaml;
