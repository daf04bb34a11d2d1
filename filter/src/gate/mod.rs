//! The gate: refuses to drain and quit until the last stream is out, holds stop hooks, begins the
//! drain, and always says why it waits.
//!
//! | where | what |
//! |---|---|
//! | [`machine`] | the drain as a machine, pure |
//! | [`http`] | what may be asked, pure |
//! | [`access`] | who may ask, pure |
//! | `policy`, `answers`, `stats`, `record` | the checked configuration; bodies; Envoy's own counts; the record as text |
//! | `census` | who counts, and who does not any more |
//! | `latch` | no stream begins while a signal passes |
//! | `witness` | what Envoy itself counts, and how far that goes |
//! | `app` | what an answer says about the app |
//! | `listing` | the oldest streams |
//! | `inbox`, `waiting` | commands that the root is to run; requests that are held |
//! | `root` | one worker's gate; `requests`, `snapshot`, `drive` and `signals` are what it is asked, knows, does, and lets pass |

/// What may be asked of the gate, as OpenAPI.
#[cfg(feature = "schema")]
pub const OPENAPI: &str = include_str!("../../gate.openapi.yaml");

pub mod access;
pub mod answers;
mod app;
mod census;
mod drive;
pub mod http;
mod inbox;
pub(crate) mod latch;
mod listing;
pub mod machine;
#[cfg(test)]
#[cfg(not(target_arch = "wasm32"))] // threads
mod model;
pub(crate) mod policy;
mod questions;
mod record;
mod requests;
pub(crate) mod root;
mod signals;
mod snapshot;
mod stats;
mod waiting;
mod witness;
