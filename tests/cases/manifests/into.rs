//! `laststream render envoy --into`: a bootstrap of the user's with laststream merged into it.

use laststream_lint::{Assume, SourceFile, lint};
use laststream_policy::{Overrides, Policy};
use laststream_render::into::merge;
use tokio::task::JoinSet;

use super::{gate_says, node, on_free_ports};
use crate::cases::gate::traffic::obeys;
use crate::cases::stage::SOON;
use crate::lab::Lab;
use kit::admin_cluster::admin_cluster;
use kit::prelude::*;
use kit::wait::join_all;

const OWN: &str = include_str!("into.yaml");
/// Clients that each keep one connection.
const CLIENTS: usize = 40;
/// The pause between two requests of a client, shorter than the gate's quiet period.
const PAUSE: Duration = Duration::from_millis(500);

/// The busy clients leave when Envoy says so. With Envoy's default strategy a quarter of them would
/// stay for longer than the gate's deadline.
pub(super) async fn a_merged_bootstrap_drains_under_load(lab: &Lab) -> Outcome {
    let upstream = Upstream::start().await?;
    let text = merged(lab)?;
    let findings =
        lint(vec![SourceFile::new("envoy.yaml", text.clone().into())], Assume::default())?;
    ensure!(findings.is_empty(), "{findings:?}");
    let mut config: Value = serde_saphyr::from_str(&text)?;
    place(&mut config, upstream.h1())?;
    let strategy = ["--drain-strategy", "immediate"].map(String::from);
    let options = Options { extra: [node(), strategy.into()].concat(), ..Options::default() };
    let envoy = Envoy::start(&lab.envoy, config, options).await?;

    let mut clients = JoinSet::new();
    for listener in ["web", "api"] {
        let at = envoy.address(listener).await?;
        (0..CLIENTS / 2).for_each(|_| drop(clients.spawn(obeys(at, PAUSE))));
    }
    let gate = envoy.address("gate").await?;
    let busy = async || {
        let status = gate_says(gate, "/status", 200).await?;
        let begun = status["scopes"][0]["begun"].as_u64();
        ensure!(begun > Some(2 * CLIENTS as u64) && status["count"] == "exact", "{status}");
        Ok(())
    };
    wait_for(SOON, "busy clients", busy).await?;
    let held = gate_says(gate, "/prestop?wait", 200).await?;
    ensure_eq!(held["state"], "drained", "{held}");
    join_all(clients).await.map(drop)
}

fn merged(lab: &Lab) -> Outcome<String> {
    let policy = format!("module: {}\nplacement: {{envoy: {{}}}}\n", lab.module.display());
    let policy = Policy::read(policy.as_bytes(), &Overrides::default())?;
    let merged = merge(&policy, "envoy.yaml", OWN);
    Ok(merged.map_err(|error| Error::msg(format!("{error:?}")))?.text)
}

/// Free ports, the harness's admin cluster, and this app.
fn place(config: &mut Value, app: SocketAddr) -> Outcome {
    on_free_ports(config);
    let clusters = &mut config["static_resources"]["clusters"];
    ensure_eq!(clusters[0]["name"], "app", "the user's cluster");
    ensure_eq!(clusters[1]["name"], "admin", "the one that was merged");
    clusters[1] = admin_cluster("admin");
    let endpoint = "/0/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address";
    let socket = clusters.pointer_mut(endpoint).context("the app")?;
    socket["socket_address"]["port_value"] = json!(app.port());
    Ok(())
}
