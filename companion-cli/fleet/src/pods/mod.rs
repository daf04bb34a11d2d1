//! Pods: which ones a command means, and the facts in their objects.

pub(crate) mod facts;
pub(crate) mod hook;
pub(crate) mod list;
pub(crate) mod time_to_drain;
