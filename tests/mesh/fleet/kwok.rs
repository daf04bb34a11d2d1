//! KWOK plays the kubelets of all nodes with its annotation: nodes become ready, pods run and end,
//! ports of pods are forwarded. The stages of its release and stages.yaml say what it does.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use crate::cluster::Cluster;
use crate::isolation::{folder, run_tool};
use crate::parts::part;
use crate::program::Program;
use kit::prelude::*;
use kit::process::guarded;

/// The address of all nodes. The API server refuses kubelets on loopback addresses.
const ADDRESS: &str = "10.99.0.1";
const PORT: u16 = 10247;
const OWN_STAGES: &str = "tests/mesh/fleet/stages.yaml";

/// Starts KWOK, which forwards this port of every pod to `to`.
pub(crate) async fn start(cluster: &Cluster, port: u16, to: SocketAddr) -> Outcome<Program> {
    run_tool("ip", &["address", "add", &format!("{ADDRESS}/32"), "dev", "lo"])?;
    let folder = folder("kwok")?;
    let forwards = folder.join("forwards.json");
    fs::write(&forwards, port_forward(port, to).to_string())?;
    let program = part("kwok")?;
    let stages = program.with_file_name("stages.yaml");
    let own_stages = Path::new(env!("CARGO_MANIFEST_DIR")).join(OWN_STAGES);
    let mut command = guarded(program);
    command.arg("--kubeconfig").arg(cluster.kubeconfig()).env("HOME", &folder);
    // A watch list needs a newer etcd than Debian's. With it KWOK would list again and again, at
    // growing intervals.
    command.env("KUBE_FEATURE_WatchListClient", "false");
    for file in [stages, own_stages, forwards] {
        command.arg("--config").arg(file);
    }
    command.args(["--manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake"]);
    // With leases, KWOK never looks again at a pod that comes before it has its node's lease.
    command.args(["--node-lease-duration-seconds", "0"]);
    command.args(["--node-ip", ADDRESS, "--node-port", &PORT.to_string()]);
    let mut program = Program::start("kwok", command, &folder)?;
    let server = SocketAddr::new(ADDRESS.parse::<IpAddr>()?, PORT);
    let healthy = async || once(server, &Request::get("/healthz")).await?.expect(200).map(drop);
    program.ready(PATIENCE, healthy).await?;
    Ok(program)
}

fn port_forward(port: u16, to: SocketAddr) -> Value {
    let target = json!({ "address": to.ip().to_string(), "port": to.port() });
    json!({
        "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterPortForward",
        "metadata": { "name": "gates" },
        "spec": { "forwards": [{ "ports": [port], "target": target }] },
    })
}

/// A node for KWOK, which gives its pods addresses of this range.
pub(crate) fn node(name: &str, range: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "annotations": { "kwok.x-k8s.io/node": "fake" } },
        "spec": { "podCIDR": range, "podCIDRs": [range] },
    })
}

/// Waits until KWOK has made all nodes ready.
pub(crate) async fn nodes_ready(cluster: &Cluster) -> Outcome {
    cluster.hold("Ready", &["nodes", "--all"]).await
}
