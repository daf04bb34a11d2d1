//! The verbs over many pods, with an API server that is made up: paging, retries, refusals, and
//! what one pod's failure does to the others. With real ones: the workspace's mesh tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the whole program is a test")]

mod access;
mod events;
mod pods;
mod proxies;
mod rollout;
mod support;
mod usage;
