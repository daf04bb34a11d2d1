//! The commands that stand beside a proxy, run as a container runs them, with a fake proxy. The
//! workspace's tests use real ones.

mod codes;
mod installing;
mod pid_one;
mod proxies;
mod signals;
mod support;
mod terminals;
