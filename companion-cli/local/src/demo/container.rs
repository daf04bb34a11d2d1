//! The processes that kubelet can stop.

pub(super) trait Container {
    /// Sends SIGTERM.
    fn terminate(&self);
    /// Sends SIGKILL.
    fn kill(&self);
    fn has_ended(&self) -> bool;
}
