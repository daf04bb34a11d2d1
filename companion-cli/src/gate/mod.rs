//! Asks the gate of an Envoy: how it is, what holds it, to begin, to wait. The commands that print
//! its answers are elsewhere.

mod address;
mod bodies;
mod client;
pub mod exec;
mod http;
pub mod install;
mod secret;
pub mod text;
mod trouble;
mod wait;

pub use crate::http::Secret;
pub use address::{Address, NotAnAddress, from_vars};
pub use bodies::{Outcome, Scope, Status, Stream, Streams, is_open};
pub use client::{Answer, Gate, Signal};
pub use http::{Http, Response};
pub use secret::{SecretError, secret};
pub use trouble::Trouble;
pub use wait::{Heard, Wait, Waited, wait};

/// Where the gate is unless somebody says otherwise.
pub const USUAL: &str = "http://127.0.0.1:15091";
