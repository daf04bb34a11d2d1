//! The pods of a cluster over the Kubernetes API: which have a gate, what their gates say, what
//! holds a rollout or a node. Decisions are pure; [`client`] and `ask` call the API. Printing is
//! done in `commands`.

mod ask;
pub mod bounds;
pub mod budgets;
pub mod client;
pub mod deletion_cost;
mod doubts;
mod error;
pub mod events;
pub mod holdings;
mod kubeconfig;
pub mod listing;
pub mod names;
pub mod old_pods;
mod pages;
mod pause;
mod pods;
pub mod rollout;
mod sight;
mod stats;
mod survey;
pub mod table;

pub use ask::Detail;
pub use client::{Access, Call, Cluster};
pub use error::FleetError;
pub use pods::{GATE_PORT, Hook, PodFacts, Ports, STATS_PORT, Selection};
pub use sight::{Answer, Class, Life, PodSight, summary};
pub use stats::Stats;
pub use survey::{Gates, Manner, Survey};
