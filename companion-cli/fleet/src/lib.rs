//! The pods of a cluster over the Kubernetes API: their gates, the gates' answers, and the streams
//! that hold a rollout. Decisions are pure; [`client`], `ask` and `statistics` call the
//! API. Printing is done in `commands`.

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

mod access;
mod argo;
mod ask;
mod call;
pub mod client;
mod confirmation;
pub mod cut_pods;
pub mod deletion_cost;
pub mod drains;
pub mod edits;
mod error;
mod forward;
mod kubeconfig;
pub mod listing;
pub mod objects;
pub mod old_pods;
mod pages;
mod patience;
mod pause;
mod pod_report;
mod pods;
pub mod rollout;
mod secretless;
mod statistics;
mod stats;
mod survey;
pub mod table;
pub mod time_to_drain;

pub use access::Access;
pub use ask::Detail;
pub use call::Call;
pub use client::Cluster;
pub use error::FleetError;
pub use pod_report::{Answer, Class, Life, PodReport, summary};
pub use pods::{
    GATE_PORT_ANNOTATION, GRACE, ISTIO_PROXY, OWN_COST, PROXIES, STATS_PORT_ANNOTATION,
};
pub use pods::{Hook, PodFacts, Ports, Selection};
pub use statistics::Detour;
pub use stats::Stats;
pub use survey::{AskOptions, GateQuery, Need, Survey};
