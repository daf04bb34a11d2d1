//! F7: `laststream rollout` of a Rollout of Argo Rollouts, on a real API server. No controller of
//! Argo runs: the case writes what it would write.

use super::operator::{self, KEPT, laststream, pod};
use super::world::World;
use crate::seen::row;
use kit::prelude::*;

const NAMESPACE: &str = "argo";
const NODE: &str = "argo-node";
const RESOURCE: &str = "rollouts.argoproj.io";
const FOLLOW: [&str; 3] = ["rollout", "rollout/web", "--watch=false"];

pub(crate) async fn case() -> Outcome {
    let world = World::get().await?;
    operator::place(world, NAMESPACE, NODE, "10.244.252.0/24").await?;
    operator::grant(world, Some(NAMESPACE), &["laststream-reader"]).await?;
    let missing = async || {
        // The API server applies new rights a little later.
        let said = laststream(world, NAMESPACE, &FOLLOW).await?.expect(1)?;
        said.stderr_contains("rollouts `web` in namespace `argo` does not exist").map(drop)
    };
    wait_for(PATIENCE, "a cluster without Argo Rollouts", missing).await?;
    world.cluster.apply_all(&[definition()]).await?;
    world.cluster.established().await?;
    let mut old = pod(NAMESPACE, NODE, "web-old", &json!({}));
    old["metadata"]["finalizers"] = json!([KEPT]);
    let rollout = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
        "metadata": { "name": "web", "namespace": NAMESPACE },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "web" } } },
    });
    let objects = [rollout, old, pod(NAMESPACE, NODE, "web-new", &json!({}))];
    world.cluster.apply_all(&objects).await?;
    operator::serve(world, NAMESPACE).await?;
    let delete = ["delete", "pod", "web-old", "--namespace", NAMESPACE, "--wait=false"];
    world.cluster.run(&delete).await?;
    let held = "pod/web-old: draining for 7 s, 13 s left, holding 2: ";
    for (phase, replicas, code, words) in [
        ("Paused", 2, 0, &["waiting for rollout/web: it is paused: in words", held][..]),
        ("Healthy", 2, 0, &["waiting for rollout/web: 1 old pods are still to be deleted", held]),
        ("Healthy", 1, 0, &["all new pods are available; old pods still end", held]),
        ("Degraded", 1, 1, &["rollout/web: it is degraded: in words"]),
    ] {
        let look = async || says(world, phase, replicas, code, words).await;
        wait_for(PATIENCE, phase, look).await?; // on a busy machine a gate may be late
    }
    let free = json!({ "metadata": { "finalizers": null } }).to_string();
    world.cluster.patch(NAMESPACE, "pod/web-old", &["--type=merge", "--patch", &free]).await?;
    let done = "rollout/web successfully rolled out";
    let over = async || says(world, "Healthy", 1, 0, &[done]).await;
    wait_for(PATIENCE, "the end of the old pod", over).await?;
    row(
        "F7",
        "a Rollout of Argo: paused, healthy with an old pod, degraded, healthy",
        "followed by its phase, and until the old pod that 2 streams hold has gone",
    );
    Ok(())
}

/// Writes the status as Argo's controller does, and compares what `rollout` says.
async fn says(world: &World, phase: &str, replicas: u8, code: i32, words: &[&str]) -> Outcome {
    let rollout = format!("{RESOURCE}/web");
    let object = world.cluster.get(NAMESPACE, &rollout).await?;
    let generation = object["metadata"]["generation"].as_i64().context("a generation")?;
    let status = json!({ "status": {
        "observedGeneration": generation.to_string(), "phase": phase, "message": "in words",
        "replicas": replicas, "updatedReplicas": 1, "availableReplicas": 1,
    } })
    .to_string();
    let how = ["--subresource=status", "--type=merge", "--patch", &status];
    world.cluster.patch(NAMESPACE, &rollout, &how).await?;
    let said = laststream(world, NAMESPACE, &FOLLOW).await?.expect(code)?;
    let all = format!("{}{}", said.stdout, said.stderr);
    for words in words {
        ensure!(all.contains(words), "{phase}: {words} in {all}");
    }
    Ok(())
}

/// The fields that `rollout` reads, with the types of Argo's own definition.
fn definition() -> Value {
    let number = json!({ "type": "integer", "format": "int32" });
    let text = json!({ "type": "string" });
    let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let status = json!({ "type": "object", "properties": {
        "observedGeneration": text, "phase": text, "message": text, "selector": text,
        "replicas": number, "updatedReplicas": number, "availableReplicas": number,
    } });
    let spec = json!({ "type": "object", "properties": { "replicas": number, "selector": any } });
    let schema = json!({ "type": "object", "properties": { "spec": spec, "status": status } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": RESOURCE },
        "spec": {
            "group": "argoproj.io", "scope": "Namespaced",
            "names": { "plural": "rollouts", "singular": "rollout", "kind": "Rollout" },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "subresources": { "status": {} }, "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}
