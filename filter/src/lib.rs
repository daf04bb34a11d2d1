//! laststream, the module: counts the HTTP streams in flight over all of Envoy's workers, restores
//! `x-forwarded-proto`, and gates the drain.
//!
//! | where | what |
//! |---|---|
//! | [`config`] | the configuration, from text to checked types; shared with the command line |
//! | [`forwarded`] | the original scheme: whom to believe, what headers say, what is written |
//! | [`gate`], `census` | the drain: how long to wait, and who counts |
//! | [`rules`] | which streams are not counted, which are long-lived |
//! | [`lifecycle`], `plugin`, `stream` | the life of contexts, of a configuration, of a stream |
//! | [`host`] | what may be asked of Envoy |
//! | `parse` | texts taken apart |
//! | [`identity`] | which laststream a module is |
//! | `contexts`, `envoy`, `raw` | the border to Envoy by the SDK: callbacks, host calls, and the little that is not plain Rust |

mod census;
pub mod config;
#[cfg(all(target_arch = "wasm32", not(test)))]
mod contexts;
#[cfg(all(feature = "test-deaths", target_arch = "wasm32"))]
mod death;
#[cfg(all(target_arch = "wasm32", not(test)))]
mod envoy;
#[cfg(test)]
mod fake;
pub mod forwarded;
pub mod gate;
pub mod headers;
pub mod host;
pub mod identity;
pub mod lifecycle;
pub mod metrics;
mod parse;
mod plugin;
#[cfg(all(target_arch = "wasm32", not(test)))]
mod raw;
mod roll;
pub mod rules;
mod stream;
pub mod text;
