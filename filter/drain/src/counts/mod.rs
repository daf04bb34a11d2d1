//! What is in flight: the counters' replies, Envoy's own count, and both together.

pub(crate) mod census;
pub(crate) mod facts;
pub(crate) mod messages;
pub(crate) mod observe;
pub(crate) mod samples;
pub(crate) mod stats;
pub(crate) mod subtraction;
pub(crate) mod survey;

pub(crate) use census::Census;
pub use facts::{Counts, Facts, Gauges, IndexEntry, Latch, ScopeCounts, Sides, Tally};
pub use messages::{Endable, LatchCheck, Order, Reply, Request};
pub(crate) use observe::{Sources, needs_totals};
pub(crate) use samples::{AdminFault, BeforeQuery, EnvoySamples};
pub(crate) use stats::{Stats, path as stats_path};
pub(crate) use subtraction::Ignorable;
pub(crate) use survey::Survey;
