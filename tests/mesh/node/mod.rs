//! The level with a real kubelet: pods with Istio's agent and Envoy, stopped as Kubernetes stops
//! them. It needs root.

mod ambient;
mod assess;
mod bare;
mod changes;
mod closed;
mod cpu_limit;
mod dead_proxy;
mod envoy_gateway;
mod experiment;
mod fleet;
mod gateway_api;
mod hookless;
mod hooks;
mod image;
pub(crate) mod inside;
mod jobs;
mod lane;
mod machine;
mod pages;
mod plain;
mod reconnects;
mod registries;
mod rolling;
mod scaling;
mod service;
mod streaming;
mod systemd;
mod volumes;
mod watch;
mod workload;
mod world;

use crate::level::{Case, Level, case};

pub(crate) const LEVEL: Level = Level {
    name: "node",
    needs_root: true,
    makes_cgroups: true,
    parts: &[
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kubelet",
        "mesh-kubectl",
        "containerd",
        "containerd-shim-runc-v2",
        "ctr",
        "runc",
        "cni-plugins",
        "crds",
        "pilot-discovery",
        "pilot-agent",
        "istioctl",
        "envoy_bootstrap.json",
        "envoy-gateway",
        "systemd",
        "systemctl",
    ],
    at_a_time: Some(19), // the cases wait most of the time
    cases,
};

/// The cases. Their limits count from the beginning of the level, because cases that run alone wait
/// for the others.
fn cases() -> Vec<Case> {
    vec![
        case!("a1_assess_predicts_the_end", assess::case),
        case!("a2_ambient_apps_with_a_stop_hook", ambient::case),
        case!("e3_streams_that_a_change_cuts", changes::case),
        case!("f1_commands_for_many_pods", fleet::case),
        case!("f4_statistics_that_the_agent_keeps", closed::case),
        case!("g7_rolling_restarts_by_kubelet", envoy_gateway::case),
        case!("n1_a_request_of_ten_seconds", experiment::case),
        case!("n2_rolling_restarts", rolling::case),
        case!("n3_hooks", hooks::case),
        case!("n3_kubelet_restarts_in_a_hook", hooks::restart),
        case!("n4_jobs", jobs::case),
        case!("n5_gateway_api", gateway_api::case),
        case!("n6_gateway_api_rolling_restarts", gateway_api::rolling),
        case!("n7_reconnects", reconnects::case),
        case!("n8_streaming_profile", streaming::case),
        case!("n9_a_proxy_that_ends_in_a_drain", dead_proxy::case),
        case!("n10_a_container_with_a_cpu_limit", cpu_limit::case),
        case!("n11_gates_without_a_hook", hookless::case),
        case!("n12_under_systemd", systemd::case),
        case!("p2_deletion_cost", scaling::deletion_cost),
        case!("v1_image_volumes_without_a_registry", volumes::case),
        case!("v3_a_private_registry", registries::case),
    ]
}
