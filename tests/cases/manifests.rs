//! The manifests in `envoyfilter-manifests/`, and other rendered ones, run as they are, except for
//! ports, the module's path and the trusted addresses.

mod clients;
mod failing;
mod into;
mod mesh;
pub(in crate::cases) mod rendered;

use std::path::Path;

use crate::cases::stage::SOON;
use crate::lab::{Lab, cases};
use kit::admin_cluster::admin_cluster;
use kit::bootstrap::set;
use kit::prelude::*;

cases! {
    the_plain_envoy_manifest_counts_restores_and_drains,
    into::a_merged_bootstrap_drains_under_load,
    rendered::a_rendered_wasmplugin_restores,
    rendered::rendered_envoy_gateway_patches_restore,
    rendered::every_rendered_bootstrap_is_accepted,
    clients::rendered_clients_are_those_of_trusted_peers,
    clients::an_empty_list_of_trusted_peers_believes_everyone,
    clients::a_proxy_header_would_forge_a_trusted_peer,
    failing::without_its_module_a_proxy_trusts_no_header,
    failing::without_its_module_a_sidecar_makes_no_http_https,
}

const MODULE: &str = "laststream.wasm";

/// 10.0.0.0/16, as a rendered matcher has it.
const TRUSTED: &str = "prefix: \"10.0.\"";

fn read(file: &str) -> Outcome<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("envoyfilter-manifests").join(file);
    std::fs::read_to_string(&path).with_context(|| file.to_owned())
}

/// Lets the kernel choose the ports, because other Envoys run at the same time.
fn on_free_ports(config: &mut Value) {
    let free = |address: &mut Value| set(address, "/address/socket_address/port_value", json!(0));
    free(&mut config["admin"]);
    config["static_resources"]["listeners"].as_array_mut().into_iter().flatten().for_each(free);
}

fn manifest(file: &str, lab: &Lab, upstream: &Upstream) -> Outcome<Value> {
    let text = read(file)?;
    let module = lab.module.display().to_string();
    ensure!(text.contains(MODULE), "{file} names the module");
    // The tests' clients are on the loopback interface.
    ensure!(text.contains(TRUSTED), "{file} trusts whom it trusts");
    let text = text.replace(MODULE, &module).replace(TRUSTED, "exact: \"127.0.0.1\"");
    let mut config: Value = serde_saphyr::from_str(&text).with_context(|| file.to_owned())?;
    place(&mut config, upstream.h1())?;
    Ok(config)
}

/// Adapts a bootstrap with a gate: free ports, the harness's admin cluster, and this app.
pub(in crate::cases) fn place(config: &mut Value, app: SocketAddr) -> Outcome {
    on_free_ports(config);
    ensure_eq!(config["static_resources"]["clusters"][0]["name"], "admin", "the first cluster");
    set(config, "/static_resources/clusters/0", admin_cluster("admin"));
    let port = "/static_resources/clusters/1/load_assignment/endpoints/0/\
               lb_endpoints/0/endpoint/address/socket_address/port_value";
    set(config, port, json!(app.port()));
    Ok(())
}

/// Arguments that give Envoy a node. The harness passes Envoy its own admin port through discovery,
/// which requires a node.
pub(in crate::cases) fn node() -> Vec<String> {
    ["--service-node", "node", "--service-cluster", "cluster"].map(String::from).to_vec()
}

/// The gate's answer to a GET, which must have this status.
async fn gate_says(gate: SocketAddr, path: &str, status: u16) -> Outcome<Value> {
    once(gate, &Request::get(path).host("localhost")).await?.expect(status)?.json()
}

async fn the_plain_envoy_manifest_counts_restores_and_drains(lab: &Lab) -> Outcome {
    let upstream = Upstream::start().await?;
    let options = Options { extra: node(), ..Options::default() };
    let envoy =
        Envoy::start(&lab.envoy, manifest("plain-envoy/envoy.yaml", lab, &upstream)?, options)
            .await?;
    let main = envoy.address("main").await?;
    rendered::restores(main, &upstream).await?;
    for (name, expected) in [("begun_gateway_total", 3), ("in_flight_gateway", 0)] {
        let name = format!("wasmcustom.laststream_streams_{name}");
        envoy.wait_for_stat(&name, expected, SOON).await?;
    }
    let gate = envoy.address("gate").await?;
    gate_says(gate, "/ready", 503).await?;
    let held = gate_says(gate, "/prestop?wait", 200).await?;
    ensure_eq!(held["state"], "drained", "{held}");
    Ok(())
}
