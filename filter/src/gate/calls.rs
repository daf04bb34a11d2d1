//! The HTTP calls of a gate that are not answered yet.

use crate::host::Control;

/// What a call is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Call {
    Begin,
    Finish,
    /// Undoes the begin call of the drain that began then; the stream gets the answer.
    Cancel {
        stream: u32,
        began: u64,
    },
    /// An operator's signal; the stream gets the answer.
    Signal {
        stream: u32,
        is_latched: bool,
        /// Whether Envoy ends when it gets the signal.
        ends_envoy: bool,
    },
    Stats,
    App,
    /// Tells the app that the drain has begun, which began then.
    Notify {
        began: u64,
    },
    /// Queries what is draining of Envoy's configuration; with the time of the query.
    ConfigDrain(u64),
}

/// The calls of which the shared record has a [`Step`](super::step::Step).
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
    /// Milliseconds.
    pub(super) patience: u64,
}

/// The calls without an answer, by their numbers.
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
    /// Envoy does not know the cluster, or no healthy endpoint in it.
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
