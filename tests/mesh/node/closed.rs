//! F4: Istio's agent can be set up to serve Envoy's statistics to its own pod only, or not at all.
//! `laststream status` and `drain` of such gateways, beside Istio's secure metrics ports.

use super::workload::{Workload, routes};
use super::world::World;
use crate::release::Release;
use crate::seen::row;
use kit::prelude::*;

const NAMESPACE: &str = "closed";

/// A gateway and the environment of its agent.
struct SetUp {
    gateway: &'static str,
    variables: &'static [(&'static str, &'static str)],
    /// What `status` says of it.
    why: &'static str,
}

const LOCAL_ONLY: SetUp = SetUp {
    gateway: "local",
    variables: &[
        ("METRICS_LOCALHOST_ACCESS_ONLY", "true"),
        ("ENVOY_SECURE_METRICS_PORT", "15091"),
        ("ENVOY_SECURE_MERGED_METRICS_PORT", "15092"),
    ],
    why: "METRICS_LOCALHOST_ACCESS_ONLY",
};
/// From Istio 1.31 on; an older agent does not know the variable.
const NOT_MERGED: SetUp = SetUp {
    gateway: "unmerged",
    variables: &[("PILOT_AGENT_MERGE_ENVOY_STATS", "false")],
    why: "PILOT_AGENT_MERGE_ENVOY_STATS",
};

impl SetUp {
    /// Istio's way to set variables of some proxies.
    fn proxy_config(&self) -> Value {
        let variables: Value = self.variables.iter().copied().collect();
        json!({
            "apiVersion": "networking.istio.io/v1beta1", "kind": "ProxyConfig",
            "metadata": { "name": self.gateway, "namespace": NAMESPACE },
            "spec": {
                "selector": { "matchLabels": { "app": self.gateway } },
                "environmentVariables": variables,
            },
        })
    }

    fn workload(&self) -> Workload<'static> {
        let drain = Some(json!({ "deadline": "600s" }));
        Workload { drain, ..Workload::gateway(NAMESPACE, self.gateway) }
    }

    /// Its pod. istiod may inject a pod before it has taken over the [`SetUp::proxy_config`]; such
    /// a pod is deleted.
    async fn pod(&self, world: &World) -> Outcome<String> {
        wait_for(PATIENCE, "a pod with the variables", async || {
            let pod = self.workload().pod(world).await?.name;
            let seen = world.pods.get(NAMESPACE, &pod).context("no such pod")?;
            if self.variables.iter().all(|variable| is_set(&seen, variable)) {
                return Ok(pod);
            }
            let delete = ["delete", "pod", "--namespace", NAMESPACE, &pod, "--grace-period=1"];
            world.cluster.run(&delete).await?;
            bail!("{pod} lacks one")
        })
        .await
    }
}

/// Whether the proxy of a pod has this variable.
fn is_set(pod: &Value, &(name, value): &(&str, &str)) -> bool {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut variables = containers.filter_map(|container| container["env"].as_array()).flatten();
    variables.any(|variable| variable["name"] == name && variable["value"] == value)
}

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::shared().await?;
    world.cluster.injected_namespace(NAMESPACE).await?;
    let mut set_ups = vec![LOCAL_ONLY];
    if Release::chosen()? >= Release::Istio1_31 {
        set_ups.push(NOT_MERGED);
    } else {
        row("F4", format!("a gateway with {}", NOT_MERGED.why), "unknown before Istio 1.31");
    }
    for set_up in &set_ups {
        world.cluster.apply_all(&[set_up.proxy_config()]).await?;
        let listener = routes(NAMESPACE, set_up.gateway, &[("closed.test", "backend.default")]);
        world.cluster.apply_all(&listener).await?;
        set_up.workload().create(world).await?;
    }
    for set_up in &set_ups {
        let pod = set_up.pod(world).await?;
        let why = wait_for(PATIENCE, "an exact count", async || says(world, set_up, &pod).await);
        row("F4", format!("`status` of a gateway with {}", set_up.why), why.await?);
        drains(world, set_up, &pod).await?;
    }
    Ok(())
}

/// The column WHY of `status`.
async fn says(world: &World, set_up: &SetUp, pod: &str) -> Outcome<String> {
    let status = ["status", "-n", NAMESPACE, "-o", "json"];
    let said = world.cluster.laststream(&status).await?.expect(0)?.json()?;
    let mut pods = said["pods"].as_array().into_iter().flatten();
    let report = pods.find(|report| report["pod"] == pod).context("the pod")?;
    for (field, value) in [("class", "installed"), ("state", "serving"), ("count", "exact")] {
        ensure_eq!(report[field], value, "{field} in {report}");
    }
    let why = report["why"].as_str().unwrap_or_default();
    ensure!(why.contains(set_up.why) && why.ends_with("asked by port-forward"), "{report}");
    Ok(format!("serving, exact; {why}"))
}

async fn drains(world: &World, set_up: &SetUp, pod: &str) -> Outcome {
    let drain = ["drain", pod, "-n", NAMESPACE, "--yes"];
    let begins = async || world.cluster.laststream(&drain).await?.expect(0).map(drop);
    wait_for(PATIENCE, "a drain that begins", begins).await?;
    let wait = ["wait", pod, "-n", NAMESPACE, "--timeout", "300s"];
    world.cluster.laststream(&wait).await?.expect(0)?;
    row("F4", format!("`drain` and `wait` of a gateway with {}", set_up.why), "drained");
    Ok(())
}
