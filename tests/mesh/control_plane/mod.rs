//! The level without a kubelet: API server, istiod, and agents as processes. It needs no root.

mod world;

use crate::level::{Case, Level, case};
use crate::seen::row;
use crate::support::failure::Outcome;

use self::world::World;

pub(crate) const LEVEL: Level = Level {
    name: "control-plane",
    needs_root: false,
    makes_cgroups: false,
    parts: &["etcd", "kube-apiserver", "mesh-kubectl", "pilot-discovery", "pilot-agent", "istioctl", "envoy_bootstrap.json"],
    cases,
};

fn cases() -> Vec<Case> {
    vec![case!("m0_the_mesh_runs", the_mesh_runs, 120)]
}

async fn the_mesh_runs() -> Outcome {
    let world = World::get().await?;
    let said = world.cluster.kubectl(&["get", "--raw", "/version"]).await?.expect(0)?;
    row("M0", "the API server's version", said.stdout.replace('\n', " "));
    Ok(())
}
