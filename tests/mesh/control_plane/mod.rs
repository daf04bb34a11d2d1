//! The level of Istio's control plane: API server, istiod, and agents as processes. It has no
//! kubelet and needs no root.

mod busy;
mod changes;
mod crds;
mod delivery;
mod engines;
mod exact;
mod failures;
mod gateway_api;
mod identities;
mod injection;
mod install;
mod lint_change;
mod lint_cluster;
mod load;
mod monitoring;
mod order;
mod scheme;
mod secure_metrics;
mod stage;
mod verdicts;
mod volumes;
mod waypoint;
pub(crate) mod world;

use crate::level::{Case, Level, case};

pub(crate) const LEVEL: Level = Level {
    name: "control-plane",
    needs_root: false,
    makes_cgroups: false,
    parts: &[
        "etcd",
        "kube-apiserver",
        "mesh-kubectl",
        "pilot-discovery",
        "pilot-agent",
        "istioctl",
        "envoy_bootstrap.json",
        "crds",
        "monitoring-crds",
    ],
    at_a_time: None,
    cases,
};

fn cases() -> Vec<Case> {
    vec![
        case!("m2_scheme_at_the_edge", scheme::edge),
        case!("m1_gateway", delivery::gateway),
        case!("m1_install_as_documented", install::as_documented),
        case!("m1_install_of_pods_as_documented", install::pods_as_documented),
        case!("m1_sidecar", delivery::sidecar),
        case!("m2_scheme_behind_one_hop", scheme::one_hop),
        case!("m2_scheme_behind_two_hops", scheme::two_hops),
        case!("m3_changes_under_load", changes::under_load),
        case!("m8_engine_by_version", engines::by_version),
        case!("m8_engine_changed_under_load", engines::changed_under_load),
        case!("m4_no_registry_at_start", failures::no_registry_at_start),
        case!("m4_no_registry_at_update", failures::no_registry_at_update),
        case!("m4_wrong_checksums", failures::wrong_checksums),
        case!("m4_two_of_one_name", failures::two_of_one_name),
        case!("m5_trust_by_certificate", identities::by_certificate),
        case!("m4b_on_a_busy_gateway", busy::with_a_witness),
        case!("m4b_on_a_busy_gateway_without_a_witness", busy::without_a_witness),
        case!("c1_table_of_crds", crds::table),
        case!("c2_verdicts_of_the_api_server", crds::verdicts),
        case!("c3_objects_for_monitoring", monitoring::objects),
        case!("c4_verdicts_on_the_tests_files", verdicts::of_the_tests_files),
        case!("m7_gateway_api", gateway_api::overlay),
        case!("m7_order_of_applying", order::of_the_overlay),
        case!("m8_secure_metrics", secure_metrics::beside_a_gate),
        case!("m9_exact_without_a_restart", exact::without_a_restart),
        case!("v2_image_volumes_that_are_missing", volumes::missing),
        case!("w1_waypoint", waypoint::made_by_istio),
        case!("w2_tunnels", waypoint::traffic::through_tunnels),
        case!("e2_listeners_that_a_change_replaces", lint_change::of_a_gateway),
        case!("e2_listeners_that_a_change_of_a_sidecar_replaces", lint_change::of_a_sidecar),
        case!("f5_lint_of_injected_pods", lint_cluster::of_injected_pods),
        case!("m6_injected_hooks", injection::hooks),
    ]
}
