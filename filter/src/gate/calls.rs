//! The HTTP calls of a gate that are not answered yet.

use crate::host::Control;

/// The purpose of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Call {
    Begin,
    Finish,
    /// Undoes the begin call of a drain that was cancelled; `stream` gets the answer.
    Cancel {
        stream: u32,
        was_draining: bool,
        may_begin_late: bool,
    },
    /// Undoes a begin call that may have reached Envoy after the call that undid it.
    UndoAgain,
    /// An operator's signal; `stream` gets the answer.
    Signal {
        stream: u32,
        is_latched: bool,
        /// Whether Envoy ends when it gets the signal.
        ends_envoy: bool,
    },
    Stats,
    App,
    /// Tells the app that a drain began at `began`.
    Notify {
        began: u64,
    },
}

/// The calls for which the shared record keeps a [`Step`](super::step::Step).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    /// Tells clients to leave.
    Begin,
    /// The last call.
    Finish,
}

/// The receiver of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'t> {
    pub(super) cluster: &'t str,
    pub(super) method: &'t str,
    pub(super) path: &'t str,
    /// The time limit of the call; milliseconds.
    pub(super) patience: u64,
}

/// The calls that Envoy has not answered yet, by their numbers.
#[derive(Debug, Clone, Hash)]
pub(super) struct Calls {
    root: u32,
    pending: Vec<(u32, Call)>,
}

impl Calls {
    pub(super) fn new(root: u32) -> Self {
        Self { root, pending: Vec::new() }
    }

    /// Makes a call in the root context, because the HTTP context may end before the answer. False:
    /// Envoy does not know the cluster, or the cluster has no healthy endpoint.
    pub(super) fn send(&mut self, host: &impl Control, call: Call, target: Target<'_>) -> bool {
        let Target { cluster, method, path, patience } = target;
        host.set_effective_context(self.root);
        let number = host.dispatch_http_call(cluster, method, path, patience);
        number.map(|number| self.pending.push((number, call))).is_some()
    }

    /// Removes the call with this number.
    pub(super) fn take(&mut self, number: u32) -> Option<Call> {
        let index = self.pending.iter().position(|(other, _)| *other == number)?;
        Some(self.pending.swap_remove(index).1)
    }

    pub(super) fn any(&self, is_such: impl Fn(&Call) -> bool) -> bool {
        self.pending.iter().any(|(_, call)| is_such(call))
    }

    pub(super) fn contains(&self, call: &Call) -> bool {
        self.pending.iter().any(|(_, other)| other == call)
    }
}
