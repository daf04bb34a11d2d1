//! An Envoy whose overload manager refuses requests or connections is stopped like any other: the
//! hook is held, and the drain begins.

use std::path::Path;

use laststream_render::Kind;
use tempfile::TempDir;

use super::bench::{Bench, SOON, options, same};
use crate::cases::manifests::rendered::yaml;
use crate::cases::manifests::{node, place};
use crate::lab::{Lab, cases};
use kit::bootstrap::{extension, set};
use kit::prelude::*;

cases! {
    a_proxy_that_refuses_requests_holds_its_hook,
    a_proxy_that_refuses_connections_holds_its_hook,
    a_proxy_at_its_limit_of_connections_holds_its_hook,
}

const POLICY: &str = "
placement: {envoy: {}}
gate: {hosts: [test.local]}
drain: {deadline: 300s, grace_period: 330s}
";
const INJECTED: &str = "envoy.resource_monitors.injected_resource";
const INJECTED_TYPE: &str =
    "envoy.extensions.resource_monitors.injected_resource.v3.InjectedResourceConfig";
const CONNECTIONS: &str = "envoy.resource_monitors.global_downstream_max_connections";
const CONNECTIONS_TYPE: &str = "envoy.extensions.resource_monitors.downstream_connections.v3.\
    DownstreamConnectionsConfig";

/// An Envoy with the bootstrap that is rendered from a policy, and this overload manager.
async fn managed(lab: &Lab, manager: Value) -> Outcome<Bench> {
    let upstream = Upstream::start().await?;
    let mut config = yaml(Kind::Envoy, &format!("module: {}{POLICY}", lab.module.display()))?;
    place(&mut config, upstream.h1())?;
    set(&mut config, "/overload_manager", manager);
    let options = Options { extra: [options().extra, node()].concat(), ..options() };
    let envoy = Envoy::start(&lab.envoy, config, options).await?;
    let (main, gate) = (envoy.address("main").await?, envoy.address("gate").await?);
    Ok(Bench { upstream, envoy, main, gate })
}

/// Envoy reads the pressure whenever a file is moved to this path.
fn press(folder: &TempDir, pressure: &str) -> Outcome {
    let new = folder.path().join("new");
    std::fs::write(&new, pressure)?;
    Ok(std::fs::rename(new, pressure_of(folder.path()))?)
}

fn pressure_of(folder: &Path) -> std::path::PathBuf {
    folder.join("pressure")
}

/// A stream holds the drain of a proxy with this overload action.
async fn holds_under(lab: &Lab, action: &str) -> Outcome<Bench> {
    let folder = tempfile::tempdir()?;
    press(&folder, "0")?;
    let file = json!({ "filename": pressure_of(folder.path()) });
    let action = format!("envoy.overload_actions.{action}");
    let triggers = json!([{ "name": INJECTED, "threshold": { "value": 0.5 } }]);
    let manager = json!({
        "refresh_interval": "0.1s",
        "resource_monitors": [extension(INJECTED, INJECTED_TYPE, file)],
        "actions": [{ "name": action, "triggers": triggers }],
    });
    let bench = managed(lab, manager).await?;
    let client = bench.held("a").await?;
    press(&folder, "1")?;
    bench.envoy.wait_for_stat(&format!("overload.{action}.active"), 1, SOON).await?;
    holds(&bench, client).await?;
    Ok(bench)
}

/// A hook is held for a stream, and answered after it.
async fn holds(bench: &Bench, mut client: Client) -> Outcome {
    let hook = bench.hook();
    bench.until("state", "draining").await?;
    ensure!(!hook.is_finished(), "the hook is not held: {:?}", hook.await?);
    bench.release("a", &mut client).await?;
    same(&hook.await??.expect(200)?.json()?, "state", "drained")
}

async fn a_proxy_that_refuses_requests_holds_its_hook(lab: &Lab) -> Outcome {
    let bench = holds_under(lab, "stop_accepting_requests").await?;
    let refused = once(bench.main, &Request::get("/echo")).await?.expect(503)?;
    ensure!(refused.text().contains("overloaded"), "{}", refused.text());
    Ok(())
}

async fn a_proxy_that_refuses_connections_holds_its_hook(lab: &Lab) -> Outcome {
    holds_under(lab, "stop_accepting_connections").await.map(drop)
}

/// Envoy Gateway configures such a limit in each proxy.
async fn a_proxy_at_its_limit_of_connections_holds_its_hook(lab: &Lab) -> Outcome {
    let limit = json!({ "max_active_downstream_connections": 1 });
    let manager = json!({
        "resource_monitors": [extension(CONNECTIONS, CONNECTIONS_TYPE, limit)],
    });
    let bench = managed(lab, manager).await?;
    let client = bench.held("a").await?;
    holds(&bench, client).await
}
