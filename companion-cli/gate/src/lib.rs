//! Talks to the gate of an Envoy: status, streams, drain, wait. Printing is done in `commands`.

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

mod address;
mod answer;
mod bodies;
mod client;
mod command;
mod error;
mod http;
mod secret;
mod socket;
pub mod text;
mod wait;

pub use address::{Address, NotAnAddress, from_vars};
pub use answer::GateAnswer;
pub use bodies::{Ends, Outcome, Scope, Status, Stream, Streams, counts_all, is_open};
pub use client::{GateClient, Signal, status_path, streams_path};
pub use command::DrainCommand;
pub use error::GateError;
pub use http::{NoAnswer, Response, exchange, request};
pub use laststream_base::secret::Secret;
pub use secret::secret;
pub use wait::{Wait, WaitAnswer, WaitEnd, wait};

/// The default address of the gate.
pub const DEFAULT_ADDRESS: &str = "http://127.0.0.1:16091";
