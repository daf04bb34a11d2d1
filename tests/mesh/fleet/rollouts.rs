//! F4: rollouts of a StatefulSet and a DaemonSet by the real controllers on KWOK's nodes, followed
//! by `laststream rollout` and by `kubectl rollout status`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::kwok;
use super::scheduler;
use super::world::{CHANGING_GATE, HELD, World};
use crate::program::ask;
use crate::seen::row;
use kit::command::CommandOutput;
use kit::prelude::*;
use kit::process::guarded;
use kit::user;
use laststream::fleet::GATE_PORT;

const NAMESPACE: &str = "rolls";
const NODES: usize = 3;
/// Keeps a deleted pod, as a stop hook keeps a running one.
const KEPT: &str = "laststream.dev/test";
const SOON: Duration = Duration::from_secs(60);
/// In which `laststream` looks at the pods more than once.
const LOOK: Duration = Duration::from_secs(3);

pub(crate) async fn case() -> Outcome {
    let world = World::get().await?;
    world.cluster.namespace(NAMESPACE).await?;
    let labels = json!({ "for": NAMESPACE });
    let node = |index| kwok::node(&node_name(index), &format!("10.245.{index}.0/24"), &labels);
    world.cluster.apply_all(&(0..NODES).map(node).collect::<Vec<_>>()).await?;
    kwok::nodes_ready(&world.cluster).await?;
    let _controllers = world.cluster.controllers()?;
    let client = world.client().await?;
    let rollouts = async {
        of(world, stateful_set()).await?;
        of(world, daemon_set()).await
    };
    tokio::select! {
        rolled = rollouts => rolled,
        failed = scheduler::bind_all(&client, NAMESPACE) => failed.map(|never| match never {}),
    }
}

fn node_name(index: usize) -> String {
    format!("rolls-{index}")
}

fn stateful_set() -> Value {
    let spec = json!({ "serviceName": "cart", "replicas": NODES });
    let own = json!({ "nodeName": node_name(0) }); // there is no scheduler
    workload("StatefulSet", "cart", spec, own)
}

fn daemon_set() -> Value {
    workload("DaemonSet", "edge", json!({}), json!({ "nodeSelector": { "for": NAMESPACE } }))
}

/// Of pods that KWOK does not end before their finalizer is gone.
fn workload(kind: &str, name: &str, mut spec: Value, mut pod: Value) -> Value {
    pod["containers"] = json!([{ "name": "istio-proxy", "image": "one" }]);
    spec["selector"] = json!({ "matchLabels": { "app": name } });
    spec["template"] = json!({
        "metadata": {
            "labels": { "app": name }, "finalizers": [KEPT],
            "annotations": { GATE_PORT: CHANGING_GATE.to_string() },
        },
        "spec": pod,
    });
    json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec,
    })
}

async fn of(world: &World, workload: Value) -> Outcome {
    let kind = workload["kind"].as_str().context("a kind")?.to_lowercase();
    let name = workload["metadata"]["name"].as_str().context("a name")?;
    let object = format!("{kind}/{name}");
    world.cluster.apply_all(&[workload.clone()]).await?;
    kubectl(world, &object, &["--timeout=60s"]).await?.expect(0)?;
    laststream(world, &object, &["--timeout", "60s"]).await?.expect(0)?;
    let old = pods(world, name).await?;
    ensure_eq!(old.len(), NODES, "pods before the rollout");
    world.gate.hold(HELD);
    // Without finalizers the template is another one, and so the controller replaces the pods.
    let new = r#"{"spec": {"template": {"metadata": {"finalizers": null}}}}"#;
    let patch = ["patch", &object, "--namespace", NAMESPACE, "--type=merge", "--patch", new];
    world.cluster.kubectl(&patch).await?.expect(0)?;
    too_late(world, &object).await?;
    to_the_end(world, &object, &old).await?;
    let new = pods(world, name).await?;
    ensure!(new.iter().all(|pod| !old.contains(pod)), "old pods are left: {old:?} {new:?}");
    Ok(())
}

/// While the first of the old pods is kept.
async fn too_late(world: &World, object: &str) -> Outcome {
    let (ours, theirs) = tokio::try_join!(
        laststream(world, object, &["--timeout", "2s"]),
        kubectl(world, object, &["--timeout=2s"]),
    )?;
    let ours = ours.expect(1)?.stderr_contains("timed out")?;
    let theirs = theirs.expect(1)?;
    let (once, kubectl_once) = tokio::try_join!(
        laststream(world, object, &["--watch=false"]),
        kubectl(world, object, &["--watch=false"]),
    )?;
    once.expect(0)?;
    kubectl_once.expect(0)?;
    let said = |output: &str| output.trim().lines().last().unwrap_or_default().to_owned();
    row(
        "F4",
        format!("`rollout {object}`, its first old pod is kept, 2 s"),
        format!(
            "both end with 1: `laststream` “{}”, `kubectl` “{}”; without watching both end with 0",
            said(&ours.stderr),
            said(&theirs.stderr)
        ),
    );
    Ok(())
}

/// The streams end while both follow, then the old pods may go.
async fn to_the_end(world: &World, object: &str, old: &[(String, String)]) -> Outcome {
    let begun = Instant::now();
    let ((ours, our_end), (theirs, their_end), let_go) = tokio::try_join!(
        timed(begun, laststream(world, object, &["--timeout", "90s"])),
        timed(begun, kubectl(world, object, &["--timeout=90s"])),
        release(world, begun, old),
    )?;
    let said = ours.expect(0)?.stdout;
    theirs.expect(0)?;
    ensure!(our_end > let_go && their_end > let_go, "ended before the old pods: {said}");
    let end = said.lines().last().unwrap_or_default();
    let expected =
        format!("{object} successfully rolled out; the last stream of its old pods ended after ");
    ensure!(end.starts_with(&expected), "{said}");
    ensure!(said.contains(&format!("holding {HELD}: GET /export")), "streams of the gate: {said}");
    ensure!(said.contains(": nothing holds it"), "the end of the streams: {said}");
    row(
        "F4",
        format!("`rollout {object}` to its end, {NODES} pods"),
        format!(
            "both end with 0, `laststream` after {:.1} s, `kubectl` after {:.1} s; “{end}”",
            our_end.as_secs_f64(),
            their_end.as_secs_f64()
        ),
    );
    Ok(())
}

async fn timed(
    begun: Instant,
    command: impl Future<Output = Outcome<CommandOutput>>,
) -> Outcome<(CommandOutput, Duration)> {
    Ok((command.await?, begun.elapsed()))
}

/// Gives when the old pods could go.
async fn release(world: &World, begun: Instant, old: &[(String, String)]) -> Outcome<Duration> {
    one_is_deleted(world).await?;
    tokio::time::sleep(LOOK).await;
    world.gate.hold(0);
    tokio::time::sleep(LOOK).await;
    let let_go = begun.elapsed();
    let_pods_go(world, old).await?;
    Ok(let_go)
}

async fn let_pods_go(world: &World, pods: &[(String, String)]) -> Outcome {
    for (name, _) in pods {
        let patch = r#"{"metadata": {"finalizers": null}}"#;
        let arguments = ["patch", "pod", name, "--namespace", NAMESPACE, "--type=merge"];
        let arguments = [arguments.as_slice(), &["--patch", patch]].concat();
        world.cluster.kubectl(&arguments).await?.expect(0)?;
    }
    Ok(())
}

/// Until the controller has deleted one of the pods, which is kept.
async fn one_is_deleted(world: &World) -> Outcome {
    let look = async || {
        let times = "jsonpath={.items[*].metadata.deletionTimestamp}";
        let list = ["get", "pods", "--namespace", NAMESPACE, "--output", times];
        let said = world.cluster.kubectl(&list).await?.expect(0)?;
        ensure!(!said.stdout.is_empty(), "no pod is deleted");
        Ok(())
    };
    wait_for(SOON, "the first old pod to be deleted", look).await
}

/// Names and what tells pods from later ones of the same names.
async fn pods(world: &World, app: &str) -> Outcome<Vec<(String, String)>> {
    let selector = format!("app={app}");
    let lines = r#"jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}"#;
    let list = ["get", "pods", "--namespace", NAMESPACE, "--selector", &selector];
    let list = [list.as_slice(), &["--output", lines]].concat();
    let said = world.cluster.kubectl(&list).await?.expect(0)?.stdout;
    let pair = |line: &str| line.split_once(' ').map(|(name, uid)| (name.into(), uid.into()));
    said.lines().map(|line| pair(line).context("a pod")).collect()
}

async fn laststream(world: &World, object: &str, more: &[&str]) -> Outcome<CommandOutput> {
    let mut command = guarded(user::laststream()?);
    command.args(["rollout", object, "--namespace", NAMESPACE]).args(more);
    command.env("KUBECONFIG", world.cluster.kubeconfig()).env("HOME", std::env::temp_dir());
    ask(command, "").await
}

async fn kubectl(world: &World, object: &str, more: &[&str]) -> Outcome<CommandOutput> {
    let status = ["rollout", "status", object, "--namespace", NAMESPACE];
    world.cluster.kubectl(&[status.as_slice(), more].concat()).await
}
