//! The counting side of the census: the counters, their index, and the messages between them and
//! the gates. The gates' conclusions are in the crate `laststream-drain`.
//!
//! Each counter registers a queue in a shared index. A gate asks all of them; only live VMs reply.
//! A gauge of zero alone is not proof: the filter may not be loaded, or a VM may have died with
//! streams in its count.

mod counting;
pub(crate) mod frames;
pub(crate) mod index;
mod kinds;
pub(crate) mod latch;
mod listing;
pub(crate) mod messages;
pub(crate) mod stream_ender;

pub(crate) use counting::Counter;
#[cfg(all(test, not(target_arch = "wasm32")))]
pub(crate) use counting::CounterFields;
#[cfg(test)]
pub(crate) use index::is_rejected;
pub(crate) use index::reject;
pub(crate) use kinds::{KeptKind, StreamKind};
pub(crate) use listing::{ListedStream, insert_lowest};
