//! The commands that stand beside a proxy, run as a container runs them, with a proxy that is made
//! up. With real ones: the workspace's tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the whole program is a test")]

mod codes;
mod installing;
mod pid_one;
mod proxies;
mod signals;
mod support;
mod terminals;
