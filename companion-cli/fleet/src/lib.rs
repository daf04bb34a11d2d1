//! The pods of a cluster over the Kubernetes API: their gates, the gates' answers, and the streams
//! that hold a rollout. Decisions are pure; files with `impl Cluster` call the API. Printing is
//! done in the program.

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

mod access;
mod answer;
mod argo;
mod ask;
mod call;
pub mod client;
mod confirmation;
mod cost_writes;
mod cut_pods;
pub mod deletion_cost;
pub mod drains;
pub mod durations;
mod error;
pub mod follower;
mod forward;
mod hook;
mod kinds;
mod kubeconfig;
pub mod listing;
pub mod objects;
mod old_pods;
mod pages;
mod pause;
mod pod;
mod pod_report;
mod pod_timeout;
mod pods;
mod reminders;
pub mod rollout;
mod secretless;
mod statistics;
mod stats;
mod survey;
pub mod table;
mod time_to_drain;
pub mod waits;
mod workloads;

pub use access::Access;
pub use answer::{Answer, Detail};
pub use call::Call;
pub use client::Cluster;
pub use error::FleetError;
pub use kinds::{CONFIG_MAPS, KINDS, Kind};
pub use pod::{
    GATE_PORT_ANNOTATION, GRACE, ISTIO_PROXY, OWN_COST, PROXIES, PodFacts, Ports,
    STATS_PORT_ANNOTATION,
};
pub use pod_report::{Class, Life, PodReport, summary};
pub use pods::Selection;
pub use survey::{AskOptions, GateQuery, Need, Survey};
