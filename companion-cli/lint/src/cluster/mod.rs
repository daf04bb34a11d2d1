//! A cluster at one time, read from JSON values: its objects, and its running pods.

mod running;
mod settings;
mod snapshot;

pub use running::RunningPods;
pub use snapshot::{Judged, Snapshot};
