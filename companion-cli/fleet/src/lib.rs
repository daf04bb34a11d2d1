//! The pods of a cluster over the Kubernetes API: their gates, the gates' answers, and the streams
//! that hold a rollout. Decisions are pure; files with `impl Cluster` call the API. Printing is
//! done in the program.

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

mod answers;
mod api;
mod costs;
mod drains;
pub mod durations;
mod pods;
mod reports;
mod rollouts;
mod trials;

pub use answers::answer::{Answer, Detail};
pub use answers::survey::{AskOptions, GateQuery, Need, Survey};
pub use api::access::Access;
pub use api::call::Call;
pub use api::client::{self, Cluster};
pub use api::error::FleetError;
pub use api::kinds::{CONFIG_MAPS, KINDS, ObjectKind};
pub use api::objects;
pub use costs::deletion_cost;
pub use drains::{outcomes, waits};
pub use pods::facts::{GATE_PORT_ANNOTATION, OWN_COST, PodFacts, Ports, STATS_PORT_ANNOTATION};
pub use pods::list::Selection;
pub use reports::pod_report::{Class, Life, PodReport, summary};
pub use reports::{listing, refusal, table, trouble};
pub use rollouts::{follower, rollout};
pub use trials::{Software, Trial, Verdict};
