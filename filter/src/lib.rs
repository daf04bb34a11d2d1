//! laststream, the module: counts the HTTP streams in flight over all of Envoy's workers, restores `x-forwarded-proto`, and gates the drain.
//!
//! | where | what |
//! |---|---|
//! | [`config`] | the configuration, from text to checked types; shared with the command line |
//! | [`forwarded`] | the original scheme: whom to believe, what headers say, what is written |
//! | [`gate`], `census` | the drain: how long to wait, and who counts |
//! | [`rules`] | which streams are not counted, which are long-lived |
//! | [`contexts`], `plugin`, `stream` | the life of a stream, of a configuration, of the VM |
//! | [`host`] | what may be asked of Envoy |
//! | `parse`, `numbered` | texts taken apart, and a table |
//! | [`identity`] | which laststream a module is |
//! | `wasm` | the border to Envoy, the only part that is not plain Rust |

// The standard library's panics bring the formatting engine along, and its tables and threads more: a tenth of the module.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod census;
pub mod config;
pub mod contexts;
#[cfg(all(feature = "test-deaths", target_arch = "wasm32"))]
mod death;
#[cfg(test)]
mod fake;
pub mod forwarded;
pub mod gate;
pub mod headers;
pub mod host;
pub mod identity;
pub mod metrics;
mod numbered;
mod parse;
mod plugin;
mod roll;
pub mod rules;
mod stream;
pub mod text;
#[cfg(all(target_arch = "wasm32", not(test)))]
mod wasm;
