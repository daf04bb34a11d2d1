//! The level of Envoy Gateway: its real controller runs beside the API server and makes a
//! Deployment, whose containers run as processes. There is no kubelet; `pod.rs` replaces it.

mod changes;
pub(crate) mod controller;
mod count;
mod cut;
pub(crate) mod gateway;
mod network;
mod pod;
mod rolling;
mod root;
pub(crate) mod stops;
mod streaming;
mod world;

use crate::level::{Case, Level, case};

pub(crate) const LEVEL: Level = Level {
    name: "envoy-gateway",
    needs_root: false,
    makes_cgroups: false,
    parts: &["etcd", "kube-apiserver", "mesh-kubectl", "envoy-gateway", "kwok"],
    at_a_time: Some(1), // its Envoys have fixed ports
    cases,
};

fn cases() -> Vec<Case> {
    vec![
        case!("g1_accepted_and_exact", count::accepted_and_exact),
        case!("g2_stops_under_load", stops::case),
        case!("g3_rolling_restart", rolling::case),
        case!("g4_streaming_profile", streaming::case),
        case!("g5_changes", changes::case),
        case!("g6_streams_that_a_change_cuts", cut::case),
    ]
}
