//! Real Envoys on this machine: found or downloaded ([`envoy`]), in front of an app ([`run`]), in
//! the experiment of `laststream demo` ([`demo`]).

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

mod admin;
pub mod demo;
pub mod envoy;
mod http;
mod log;
mod process;
pub mod run;
mod server;
mod waiting;

pub use server::Server;
