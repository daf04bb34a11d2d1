//! What happens to the program, from all of its threads.

use std::sync::mpsc::SyncSender;

use rustix::process::Signal;

use super::admin::{Answer, CallError};

/// The stack of a thread that makes a call, or serves a connection.
pub(super) const STACK: usize = 256 << 10;

/// What happens to the program.
#[derive(Debug)]
pub(super) enum Input {
    Request(u32, Request),
    /// The client of this request has gone.
    Gone(u32),
    Answered(u32, Result<Answer, CallError>),
    Signal(Signal),
    /// A child may have ended.
    Child,
}

/// A request, and where its response goes.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) is_for_metrics: bool,
    /// The headers, as the gate reads them.
    pub(super) headers: Vec<u8>,
    /// The local address of the connection.
    pub(super) address: String,
    /// Dropped without a response, it ends the connection.
    pub(super) reply: SyncSender<Response>,
}

#[derive(Debug, Default)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}
