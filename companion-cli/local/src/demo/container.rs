//! A container of the pod.

/// The processes that kubelet can stop.
pub(super) trait Container {
    fn terminate(&self);
    fn kill(&self);
    fn has_ended(&self) -> bool;
}
