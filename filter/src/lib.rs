//! The laststream module: counts the HTTP streams in flight over all of Envoy's workers, restores
//! `x-forwarded-proto`, and holds stop hooks and signals until a drain is over.
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | the configuration, from text to checked types; shared with the command line |
//! | `stream` | one HTTP stream: counting, rules, and the edits of its headers |
//! | [`forwarded`] | the original scheme: trusted peers, sources, decision, edits |
//! | `census` | the protocol between the counters and the gate |
//! | [`gate`] | the drain, and the gate's HTTP interface |
//! | [`lifecycle`] | root contexts and HTTP contexts, without the SDK |
//! | [`host`], [`headers`], [`metrics`], [`text`], `parse` | code that several of these use |
//! | `shared_text` | values that the VMs of all workers share |
//! | [`memory`] | what Envoy keeps for them, for hosts in its place |
//! | [`identity`] | the version, in the module's custom section |
//! | `contexts`, `roots` | the border to Envoy: callbacks |
//! | `envoy`, `raw` | the border to Envoy: host calls, unsafe code |

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
pub mod frames;
pub mod gate;
pub mod headers;
pub mod host;
pub mod identity;
pub mod lifecycle;
#[cfg(any(test, not(target_arch = "wasm32")))]
pub mod memory;
pub mod metrics;
mod parse;
#[cfg(all(target_arch = "wasm32", not(test)))]
mod raw;
#[cfg(all(target_arch = "wasm32", not(test)))]
mod roots;
mod shared_text;
mod stream;
pub mod text;
