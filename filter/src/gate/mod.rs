//! The gate: holds stop hooks and signals until the last stream has ended, begins the drain, and
//! always shows why it waits. What it decides is in the crate `laststream-drain`; here is the shell
//! around it, which reads and does.
//!
//! | file | holds |
//! |---|---|
//! | `shell` | the callbacks of one worker's gate, and its effects |
//! | `facts` | what is read, in its order |
//! | `shared` | the keys of the values that all workers share |
//! | `calls`, `metrics`, `policy` | the calls, metrics and configuration |
//! | [`grace`] | the time that the pod leaves for a drain |
//! | [`http`], [`access`] | requests: parsed, and refused |
//! | [`replies`], `streams` | the bodies of answers |

/// The gate's HTTP interface, as OpenAPI.
#[cfg(feature = "schema")]
pub const OPENAPI: &str = include_str!("../../gate.openapi.yaml");

pub mod access;
mod calls;
mod facts;
pub mod grace;
pub mod http;
mod metrics;
#[cfg(test)]
#[cfg(not(target_arch = "wasm32"))] // threads
mod model;
pub(crate) mod policy;
pub mod replies;
mod shared;
mod shell;
#[cfg(test)]
mod shell_tests;
mod streams;

/// The runtime key by which routes refuse new requests behind the last call, if Envoy's own count
/// is the only one.
pub const LATCH: &str = "laststream.latch";

pub use calls::{LET_PASS, REFUSE};
pub use laststream_drain::state::{CountState, Phase, StreamKind};
pub use laststream_drain::timing;
pub(crate) use shell::Gate;
