//! The processes that kubelet can stop.

/// A container's process.
pub(super) trait Container {
    /// SIGTERM.
    fn terminate(&self);
    /// SIGKILL.
    fn kill(&self);
    /// Whether its process has ended.
    fn has_ended(&self) -> bool;
}
