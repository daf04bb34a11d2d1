//! The gate: holds stop hooks and signals until the last stream has ended, begins the drain, and
//! always shows why it waits.
//!
//! | file | holds |
//! |---|---|
//! | [`machine`], [`observation`], [`phase`], [`step`] | the drain as a state machine, pure |
//! | [`http`], [`access`] | which requests the gate takes, and from which clients, pure |
//! | `gate` | the gate of one worker; its callbacks are in the next three rows |
//! | `requests`, `commands`, `respond`, `streams` | requests, commands and answers |
//! | `snapshot`, `queries`, `drain`, `healing` | what is observed, asked for, and done |
//! | `calls`, `call_responses`, `signals`, `latched_signal` | calls to Envoy, agent and app |
//! | `policy`, [`replies`], `record`, `metrics`, `waiting` | configuration, bodies, shared record |
//! | `stats`, `envoy_samples`, `query_pacing`, `app` | Envoy's own count, and the app's state |

/// The gate's HTTP interface, as OpenAPI.
#[cfg(feature = "schema")]
pub const OPENAPI: &str = include_str!("../../gate.openapi.yaml");

pub mod access;
mod app;
mod call_responses;
mod calls;
mod commands;
mod drain;
mod envoy_samples;
#[allow(clippy::module_inception, reason = "the owner of everything else here")]
mod gate;
mod healing;
pub mod http;
mod latched_signal;
pub mod machine;
mod metrics;
#[cfg(test)]
#[cfg(not(target_arch = "wasm32"))] // threads
mod model;
pub mod observation;
pub mod phase;
pub(crate) mod policy;
mod queries;
mod query_pacing;
mod record;
pub mod replies;
mod requests;
mod respond;
mod signals;
mod snapshot;
mod stats;
pub mod step;
mod streams;
mod waiting;

pub use crate::census::CountState;
pub(crate) use gate::Gate;
