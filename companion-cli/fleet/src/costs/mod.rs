//! Deletion costs from the streams of pods.

pub(crate) mod cost_writes;
pub mod deletion_cost;
