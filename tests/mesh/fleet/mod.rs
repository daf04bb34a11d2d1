//! The level of many pods: the real API server, and nodes and pods of KWOK, which gives pods their
//! status and addresses and forwards their ports, but runs no container. Stand-ins serve statistics
//! and gates.

mod argo;
mod cost;
mod deletion_cost;
mod fit;
mod gate;
pub(crate) mod kwok;
mod lint;
mod operator;
mod planted;
mod pods;
mod stand_in;
mod status;
mod world;

use crate::level::{Case, Level, case};

pub(crate) const LEVEL: Level = Level {
    name: "fleet",
    needs_root: false,
    makes_cgroups: false,
    parts: &["etcd", "kube-apiserver", "mesh-kubectl", "kwok", "crds"],
    at_a_time: Some(1), // times are measured
    cases,
};

/// The most pods last, so that the others need not wait for all of them.
fn cases() -> Vec<Case> {
    vec![
        case!("f2_a_thousand_pods", status::of_a_thousand),
        case!("f6_lint_of_a_cluster", lint::of_a_cluster),
        case!("f9_a_policy_in_a_cluster", fit::of_a_policy),
        case!("f8_deletion_costs", deletion_cost::case),
        case!("f7_a_rollout_of_argo", argo::case),
        case!("f3_ten_thousand_pods", status::of_ten_thousand),
    ]
}
