//! The gate's part in ending streams before the deadline of a drain: which kinds, from when, and
//! how many at a time. The counters choose the streams and end them; see `census::ender`.

mod drive;
mod pacing;
mod policy;
mod state;

pub(super) use drive::Ends;
pub(super) use pacing::Window;
pub(crate) use policy::{EndPolicy, SHORTEST};
