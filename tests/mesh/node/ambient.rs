//! A2: apps in a namespace of the ambient mesh, with the stop hook that the admission policy of
//! `envoyfilter-manifests/ambient-apps` gives them, and without it.

use std::collections::BTreeMap;
use std::time::Instant;

use super::assess::{captured, rows};
use super::lane::{Task, side_by_side};
use super::workload::{self, SIDECAR, Workload};
use super::world::{TURN, World};
use crate::seen::row;
use kit::h1;
use kit::prelude::*;

const NAMESPACE: &str = "ambient";
/// The time that the policy gives, and that of an app's own hook.
const DELAY: u64 = 5;
const OWN: u64 = 2;

pub(crate) async fn case() -> Outcome {
    tokio::time::sleep(2 * TURN).await;
    let (world, _turn) = World::alone().await?;
    world.cluster.namespace(NAMESPACE).await?;
    let label = ["label", "namespace", NAMESPACE, "istio.io/dataplane-mode=ambient"];
    world.cluster.run(&label).await?;
    create(world, "before", None).await?;
    let policy =
        kit::workspace().join("envoyfilter-manifests/ambient-apps/mutating-admission-policy.yaml");
    world.cluster.run(&["apply", "--filename", policy.to_str().context("a path")?]).await?;
    // The API server applies a new policy a little later.
    wait_for(PATIENCE, "the policy", async || {
        let pod = ["run", "tried", "--namespace", NAMESPACE, "--image=none"];
        let dry = ["--dry-run=server", "--output=json"];
        let pod = world.cluster.run(&[&pod[..], &dry].concat()).await?;
        ensure_eq!(delay(&serde_json::from_str(&pod)?), Some(DELAY), "{pod}");
        Ok(())
    })
    .await?;
    does_as_kyverno(world).await?;
    create(world, "policy", None).await?;
    create(world, "own", Some(json!({ "preStop": { "sleep": { "seconds": OWN } } }))).await?;
    expect_rows(&rows(world, NAMESPACE).await?)?;
    let stops = [("before", None), ("policy", Some(DELAY)), ("own", Some(OWN))];
    let tasks = stops.map(|(name, hook)| -> Task<()> { Box::pin(stop(world, name, hook)) });
    side_by_side(tasks.into()).await.map(drop)
}

/// Checks that the API server gives pods the hooks that Kyverno's own test expects.
async fn does_as_kyverno(world: &World) -> Outcome {
    let mut expected = hooks(world, "pods.yaml", "--dry-run=client").await?;
    expected.extend(hooks(world, "patched.yaml", "--dry-run=client").await?);
    let given = hooks(world, "pods.yaml", "--dry-run=server").await?;
    ensure_eq!(given, expected, "the hooks of the pods of tests/kyverno");
    row("A2", format!("{} pods of `tests/kyverno`", expected.len()), "the hooks of Kyverno");
    Ok(())
}

/// The stop hooks of the containers of each pod in a file, as a dry run answers.
async fn hooks(world: &World, file: &str, dry: &str) -> Outcome<BTreeMap<String, Vec<Value>>> {
    let file = kit::workspace().join("tests/kyverno").join(file);
    let file = file.to_str().context("a path")?;
    let apply = ["apply", "--filename", file, dry, "--output=json"];
    let list: Value = serde_json::from_str(&world.cluster.run(&apply).await?)?;
    let pods = list["items"].as_array().context("items")?.iter();
    let hooks = |pod: &Value| {
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        containers.map(|container| container["lifecycle"]["preStop"].clone()).collect()
    };
    let named = pods.map(|pod| (pod["metadata"]["name"].to_string(), hooks(pod)));
    Ok(named.collect())
}

async fn create(world: &World, name: &'static str, app_hook: Option<Value>) -> Outcome {
    let app = Workload { app_hook, annotations: captured(), ..Workload::app(NAMESPACE, name) };
    app.create(world).await?;
    app.ready(world).await.map(drop)
}

/// The time that the stop hook of a pod's first container sleeps.
fn delay(pod: &Value) -> Option<u64> {
    pod["spec"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64()
}

/// Checks that `assess` proposes the hook for the app without one, and nothing for the others.
fn expect_rows(rows: &[Value]) -> Outcome {
    ensure_eq!(rows.len(), 3, "{rows:?}");
    for row in rows {
        ensure_eq!(row["proxy"], "ambient_app", "{row}");
        let is_bare = row["workload"]["name"] == "before";
        ensure_eq!(row["next"] != "nothing", is_bare, "{row}");
    }
    Ok(())
}

/// Deletes the pod of an app, and connects to it until it refuses.
async fn stop(world: &World, name: &'static str, hook: Option<u64>) -> Outcome {
    let pod = Workload::app(NAMESPACE, name).pod(world).await?;
    let object = world.pods.get(NAMESPACE, &pod.name).context("a pod")?;
    ensure_eq!(delay(&object), hook, "{name}");
    let deleted = workload::delete(world, NAMESPACE, &pod.name, &[]).await?;
    let to = SocketAddr::new(pod.address, SIDECAR);
    let refuses = async || {
        let answer = h1::once(to, &Request::get("/")).await;
        ensure!(answer.is_err(), "it answers");
        Ok(Instant::now())
    };
    let refused = wait_for(PATIENCE, "the app to refuse", refuses).await? - deleted;
    let least = Duration::from_secs(hook.unwrap_or_default());
    ensure!(refused >= least, "{name} refused {refused:?} after the deletion");
    let what = match name {
        "before" => "an ambient app, made before the policy",
        "policy" => "the same, made after it",
        _ => "the same with a stop hook `sleep` of 2 s",
    };
    let hook = hook.map_or("no hook".to_owned(), |seconds| format!("sleeps {seconds} s"));
    let refused = refused.as_secs_f64();
    row("A2", what, format!("{hook}; it refused requests {refused:.1} s after the deletion"));
    Ok(())
}
