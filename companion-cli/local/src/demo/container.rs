//! The processes that kubelet can stop.

/// A container's process.
pub(super) trait Container {
    /// Sends SIGTERM.
    fn terminate(&self);
    /// Sends SIGKILL.
    fn kill(&self);
    /// Whether its process has ended.
    fn has_ended(&self) -> bool;
}
