//! Commands that wait until the root context runs them.
//!
//! The SDK hands the answer to a call to the context in whose callback the call was made, and drops it where that context has gone. So a
//! request is read, checked and refused in its stream's own callback, where its headers and its connection are at hand; what it commands
//! is run in a callback of the root, to which the gate sends a message.

use super::http::Command;
use super::root::Gate;
use crate::host::Control;

/// What the gate sends to its own queue. No counter's answer reads like that.
const COMMAND: &[u8] = b"command";

impl Gate {
    /// Where the message cannot be sent, the next tick does without it.
    pub(super) fn admit(&mut self, host: &impl Control, stream: u32, command: Command) {
        self.inbox.push_back((stream, command));
        if !self.census.queue(host).is_some_and(|queue| host.send(queue, COMMAND)) {
            self.set_tick_period(host);
        }
    }

    /// Runs the oldest command, and says whether there was one. No more than one in a callback: Envoy nests the answers that one callback
    /// gives, and each command may answer all that is held as well.
    pub(super) fn run_next_command(&mut self, host: &impl Control) -> bool {
        let Some((stream, command)) = self.inbox.pop_front() else { return false };
        self.run(host, stream, command);
        // The worker that ticked for the drain may be one whose VM has died.
        self.set_tick_period(host);
        true
    }

    /// The client has gone before its command was run.
    pub(super) fn forget_command(&mut self, stream: u32) {
        self.inbox.retain(|(other, _)| *other != stream);
    }
}
