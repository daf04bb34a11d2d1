//! A cluster at one time, read from JSON values: its objects, and its running pods.

mod injected;
pub(super) mod places;
mod running;
mod settings;
mod snapshot;

pub use running::RunningPods;
pub(super) use settings::read_pod;
pub use snapshot::{Judged, Snapshot};
