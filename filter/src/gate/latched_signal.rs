//! A signal that waits behind the closed latch.

use super::waiting::Needs;

/// The origin of a signal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SignalKind {
    /// An operator's request.
    Operator {
        stream: u32,
        path: String,
        /// When it is refused at the latest.
        until: u64,
    },
    /// The last call of the drain.
    Finish,
}

/// A signal that waits for both counts of a moment after the latch was closed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LatchedSignal {
    pub(super) kind: SignalKind,
    pub(super) needs: Needs,
    /// When it gives up.
    pub(super) until: u64,
}
