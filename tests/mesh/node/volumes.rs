//! V1: pods start when the registry is gone. A module that kubelet has mounted counts and gates;
//! one that Istio's agent would have to fetch does not. One of the images names another
//! architecture in its configuration, as the module's own image does on a node with arm64.

use std::fs;
use std::path::Path;
use std::process::Command;

use tokio::task::block_in_place;

use super::image::LASTSTREAM;
use super::lane::{Lane, Seen, Task, long_grace, side_by_side};
use super::machine::ADDRESS;
use super::workload::{Pod, Proxy, Workload, routes, sidecars};
use super::world::World;
use crate::seen::row;
use kit::command::{self, CommandOutput};
use kit::prelude::*;
use kit::programs::program;
use kit::registry::real::{Registry, Settings};
use kit::registry::sha256;

const NAMESPACE: &str = "volumes";
/// A lower bound for a hook that no gate answers: it runs for a second longer than the gate's
/// deadline.
const HOOK: Duration = Duration::from_secs(20);

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::shared().await?;
    let registry = Registry::start(&Settings { address: Some(ADDRESS), ..Settings::default() })?;
    let [module, other] = block_in_place(|| images(world, &registry))?;
    world.machine.pull_from(&host(&registry))?;
    let front = prepare(world).await?;
    let lanes = lanes(&module, &other, front);
    for lane in &lanes {
        lane.workload.create(world).await.with_context(|| lane.what.to_owned())?;
    }
    for lane in &lanes {
        counts(world, &lane.workload).await?;
    }
    drop(registry);
    restart(world, &lanes).await?;
    let [.., fetched] = lanes.as_slice() else { bail!("no lane") };
    for lane in lanes.iter().filter(|lane| lane.workload.mounted) {
        counts(world, &lane.workload).await?;
    }
    refuses(world, &fetched.workload).await?;
    note_refusal();
    let tasks: Vec<Task<Seen>> =
        lanes.into_iter().map(|lane| -> Task<Seen> { Box::pin(lane.run(world)) }).collect();
    let seen = side_by_side(tasks).await?;
    seen.iter().for_each(|seen| row("V1", seen.what, seen.words()));
    judge(&seen)
}

fn host(registry: &Registry) -> String {
    format!("{ADDRESS}:{}", registry.port())
}

/// The module's image as `laststream push` makes it, and the same for another architecture: on this
/// node the second corresponds to the first on a node with arm64.
fn images(world: &World, registry: &Registry) -> Outcome<[String; 2]> {
    let own = format!("{}/mesh/laststream:own", host(registry));
    let other = format!("{}/mesh/laststream:other", host(registry));
    world.user.run(&["push", "--plain-http", &own], "")?.expect(0)?;
    let folder = tempfile::tempdir()?;
    let files = format!("dir:{}", folder.path().display());
    skopeo(&["--src-tls-verify=false", &format!("docker://{own}"), &files])?;
    change_architecture(folder.path())?;
    skopeo(&["--dest-tls-verify=false", &files, &format!("docker://{other}")])?;
    Ok([own, other].map(|image| format!("oci://{image}")))
}

fn skopeo(arguments: &[&str]) -> Outcome {
    let mut command = Command::new(program("skopeo")?);
    command.args(["--insecure-policy", "copy"]).args(arguments);
    command::run(&mut command)?.expect(0).map(drop)
}

/// Writes another architecture into the configuration of an image in a folder.
fn change_architecture(folder: &Path) -> Outcome {
    let manifest_file = folder.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&manifest_file)?)?;
    let digest = manifest["config"]["digest"].as_str().context("a configuration")?;
    let file = folder.join(digest.trim_start_matches("sha256:"));
    let mut config: Value = serde_json::from_slice(&fs::read(file)?)?;
    let architecture = if cfg!(target_arch = "x86_64") { "arm64" } else { "amd64" };
    config["architecture"] = json!(architecture);
    let bytes = config.to_string();
    let digest = sha256(bytes.as_bytes());
    fs::write(folder.join(digest.trim_start_matches("sha256:")), &bytes)?;
    manifest["config"]["digest"] = json!(digest);
    manifest["config"]["size"] = json!(bytes.len());
    Ok(fs::write(manifest_file, manifest.to_string())?)
}

/// Creates the namespace, the routes, and a gateway in front of the sidecars.
async fn prepare(world: &World) -> Outcome<SocketAddr> {
    world.cluster.injected_namespace(NAMESPACE).await?;
    world.cluster.apply_all(&[sidecars(NAMESPACE)]).await?;
    let front = Workload { drain: None, ..Workload::gateway(NAMESPACE, "front") };
    front.create(world).await?;
    let hosts = [("classic.test", "classic.volumes"), ("native.test", "native.volumes")];
    let mut objects = routes(NAMESPACE, "front", &hosts);
    for gateway in ["mounted", "fetched"] {
        objects.extend(routes(NAMESPACE, gateway, &[("kept.test", "backend.default")]));
    }
    world.cluster.apply_all(&objects).await?;
    Ok(front.pod(world).await?.listener())
}

fn lanes(module: &str, other: &str, front: SocketAddr) -> Vec<Lane> {
    let lane = |what, name: &'static str, proxy, host: Option<&'static str>, module: &str| Lane {
        what,
        workload: Workload {
            proxy,
            module: Some(module.to_owned()),
            mounted: name != "fetched",
            // Without a module in the gate the hook lasts until the deadline.
            drain: Some(if name == "fetched" { json!({}) } else { long_grace() }),
            ..Workload::app(NAMESPACE, name)
        },
        request: Duration::from_secs(10),
        idle_connection: proxy == Proxy::Gateway,
        through: host.map(|host| (front, host)),
        ..Lane::default()
    };
    let (classic, native) = (Some("classic.test"), Some("native.test"));
    let of_another = "image volume, a native sidecar, an image for another architecture";
    vec![
        lane("image volume, a gateway", "mounted", Proxy::Gateway, None, module),
        lane("image volume, a classic sidecar", "classic", Proxy::Classic, classic, module),
        lane(of_another, "native", Proxy::Native, native, other),
        lane("fetched by Istio's agent, a gateway", "fetched", Proxy::Gateway, None, module),
    ]
}

/// Replaces the pods of each Deployment, as after the failure of a node.
async fn restart(world: &World, lanes: &[Lane]) -> Outcome {
    for lane in lanes {
        world.restart(NAMESPACE, lane.workload.name).await?;
    }
    for lane in lanes {
        world.rolled(NAMESPACE, lane.workload.name).await?;
    }
    Ok(())
}

async fn status(world: &World, namespace: &str, pod: &Pod) -> Outcome<CommandOutput> {
    world.exec(namespace, &pod.name, &[LASTSTREAM, "status", "-o", "json"]).await
}

/// Whether this proxy has a counter.
async fn has_counter(world: &World, namespace: &str, pod: &Pod) -> Outcome<bool> {
    let asked = ["pilot-agent", "request", "GET", "stats?filter=laststream_streams_begun"];
    let said = world.exec(namespace, &pod.name, &asked).await?.expect(0)?;
    Ok(said.stdout.contains("laststream_streams_begun"))
}

/// Waits until the proxy has the module.
pub(super) async fn counts(world: &World, workload: &Workload<'_>) -> Outcome {
    let name = workload.name;
    let exact = async || {
        let pod = workload.pod(world).await?; // a watch may still have a pod that is deleted
        let status = status(world, workload.namespace, &pod).await?.expect(0)?.json()?;
        ensure_eq!(status["count"], "exact", "{name}: {status}");
        ensure!(has_counter(world, workload.namespace, &pod).await?, "{name}: no counter");
        Ok(())
    };
    wait_for(PATIENCE, &format!("{name}: an exact count"), exact).await
}

/// Waits until the gate refuses requests, because the agent could not fetch the module.
pub(super) async fn refuses(world: &World, workload: &Workload<'_>) -> Outcome {
    let look = async || {
        let pod = workload.pod(world).await?;
        let said = status(world, workload.namespace, &pod).await?;
        ensure!(said.stderr.contains("403"), "{}: {said:?}", workload.name);
        ensure!(!has_counter(world, workload.namespace, &pod).await?, "streams are counted");
        Ok(())
    };
    wait_for(PATIENCE, "a gate that refuses", look).await
}

fn note_refusal() {
    let said = "the gate answers 403, requests pass uncounted";
    row("V1", "registry away, pods new: fetched by Istio's agent", said);
    row("V1", "registry away, pods new: image volumes", "`laststream status`: count exact");
}

fn judge(seen: &[Seen]) -> Outcome {
    let [mounted @ .., fetched] = seen else { bail!("no lane") };
    mounted.iter().try_for_each(|seen| seen.expect_kept())?;
    fetched.expect(fetched.gone > HOOK, "the hook ended although no gate answered")
}
