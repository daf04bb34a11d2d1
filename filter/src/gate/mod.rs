//! The gate: holds stop hooks and signals until the last stream has ended, begins the drain, and
//! always shows why it waits.
//!
//! A layer uses only those above it:
//!
//! | layer | files |
//! |---|---|
//! | configuration, requests and calls | `calls`, `policy`, [`http`], [`access`] |
//! | the drain as a state machine, pure | [`phase`], [`step`], [`observation`], [`machine`] |
//! | knowledge at one moment, pure | `stats`, `envoy_samples`, `app`, `waiting`, `snapshot` |
//! | the part of a status about ends, pure | `end_status` |
//! | replies, listings and schedule, pure | [`replies`], `streams`, `schedule` |
//! | the steps of a signal, pure | `signals` |
//! | shared data and metrics | `record`, `total`, `query_pacing`, `metrics` |
//! | leaked counts | `healing` |
//! | the sources of the counts | `sources` |
//! | the gate of one worker | `gate` (its state), `evaluation`, `cancelling`, `commands`, |
//! | | `callbacks` |
//! | the call to the app | `notification` |
//! | the work of a serving gate | `routine` |

/// The gate's HTTP interface, as OpenAPI.
#[cfg(feature = "schema")]
pub const OPENAPI: &str = include_str!("../../gate.openapi.yaml");

pub mod access;
mod app;
mod callbacks;
mod calls;
mod cancelling;
mod commands;
#[cfg(test)]
mod decisions;
mod end_status;
mod ends;
mod envoy_samples;
mod evaluation;
#[allow(clippy::module_inception, reason = "the owner of everything else here")]
mod gate;
mod healing;
pub mod http;
pub mod machine;
mod metrics;
#[cfg(test)]
#[cfg(not(target_arch = "wasm32"))] // threads
mod model;
mod notification;
pub mod observation;
pub mod phase;
pub(crate) mod policy;
mod query_pacing;
mod record;
pub mod replies;
mod routine;
mod schedule;
mod signals;
mod snapshot;
mod sources;
mod stats;
pub mod step;
mod streams;
mod total;
mod waiting;

pub use crate::census::{CountState, StreamKind};
pub(crate) use gate::Gate;
