//! The level without a kubelet: API server, istiod, and agents as processes. It needs no root.

mod delivery;
mod stage;
mod world;

use crate::level::{Case, Level, case};

pub(crate) const LEVEL: Level = Level {
    name: "control-plane",
    needs_root: false,
    makes_cgroups: false,
    parts: &["etcd", "kube-apiserver", "mesh-kubectl", "pilot-discovery", "pilot-agent", "istioctl", "envoy_bootstrap.json"],
    cases,
};

fn cases() -> Vec<Case> {
    vec![case!("m1_gateway", delivery::gateway, 120), case!("m1_sidecar", delivery::sidecar, 120)]
}
