//! The protocol of the drain: events in, effects out. This crate knows no host: it cannot call
//! Envoy, nor read shared data. The filter's gate is the shell that reads the facts, calls
//! [`Worker::on`] and applies the effects.
//!
//! | module | holds |
//! |---|---|
//! | `protocol` | the one place to read the drain |
//! | [`timing`] | every time, with its reason, and the relations between them |
//! | [`event`], [`facts`], [`effects`] | what goes in, and what comes out |
//! | [`record`], [`phase`], [`step`] | the state that all workers share |
//! | [`policy`], `ends` | the configuration, and the streams that a drain ends |
//! | `census`, `survey`, [`messages`] | the counters: questions, replies, conclusions |
//! | [`samples`], [`stats`], [`pacing`] | Envoy's own count |
//! | `observe`, [`observation`] | both counts together |
//! | `waiting`, `signals`, `schedule`, `cancelling`, `app` | pure decisions |
//! | [`view`], [`words`] | what an answer shows |

mod app;
mod cancelling;
mod census;
pub mod count_state;
pub mod effects;
mod end_orders;
pub mod ends;
pub mod event;
pub mod facts;
mod handling;
pub mod kinds;
mod leaks;
pub mod messages;
mod notify;
pub mod observation;
mod observe;
pub mod pacing;
pub mod phase;
pub mod policy;
mod protocol;
pub mod record;
mod report;
pub mod samples;
mod schedule;
pub mod scope;
mod signals;
#[cfg(test)]
mod snapshot_tests;
pub mod stats;
pub mod step;
mod survey;
pub mod timing;
mod turn;
pub mod view;
mod waiting;
pub mod words;

pub use app::FROM_THE_APP;
pub use protocol::Worker;
