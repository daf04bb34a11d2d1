//! The gate's part in ending streams: which kinds, from when, and how many at a time. The counters
//! choose the streams and end them; see `census::ender`.

mod command;
mod drive;
mod due;
mod job;
mod pacing;
mod policy;
mod state;

pub(crate) use command::EndCommand;
pub(super) use command::parse_end;
pub(super) use drive::Ends;
pub(super) use job::{Job, JobKind};
pub(crate) use policy::{EndPolicy, SHORTEST};
