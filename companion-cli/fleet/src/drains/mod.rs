//! The drains of pods: commands to their gates, and their ends.

pub(crate) mod cut_pods;
pub mod outcomes;
pub(crate) mod reminders;
pub mod waits;
