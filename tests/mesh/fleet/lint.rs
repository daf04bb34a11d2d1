//! F6: `laststream lint --cluster` on a real API server: each of many mistakes is found at its
//! object with the way out, nothing is found when they are mended, and a missing right is named.

use super::cost::Requests;
use super::operator::{self, grant, laststream};
use super::planted::{self, PLANTED};
use super::pods;
use super::status;
use super::world::World;
use crate::cluster::Cluster;
use crate::seen::row;
use kit::command::CommandOutput;
use kit::prelude::*;

pub(super) const NAMESPACE: &str = "linted";
pub(super) const NODE: &str = "linted-node";
const ROLES: [&str; 2] = ["laststream-reader", "laststream-linter"];

pub(crate) async fn of_a_cluster() -> Outcome {
    let world = World::get().await?;
    operator::place(world, NAMESPACE, NODE, "10.244.250.0/24").await?;
    for release in ["istio-1.31", "gateway-api-1.6"] {
        world.cluster.definitions(release).await?;
    }
    grant(world, None, &ROLES).await?;
    spoiled(world).await?;
    mended(world).await?;
    one_namespace(world).await
}

/// The cost of `lint --cluster` for the pods of `status`, whose gates are all asked.
pub(super) async fn measure(cluster: &Cluster, case: &'static str, pods: usize) -> Outcome {
    let before = Requests::of(cluster).await?;
    let arguments = ["lint", "--cluster", "-n", pods::NAMESPACE, "-o", "json"];
    let ran = status::run(cluster, &arguments).await?;
    let after = Requests::of(cluster).await?;
    ensure_eq!(ran.code, Some(1), "the hooks are not the rendered ones: {}", ran.stderr);
    let said: Value = serde_json::from_str(&ran.stdout)?;
    ensure_eq!(said["objects"], json!(pods / 100), "one object for 100 pods: {}", ran.stderr);
    row(
        case,
        format!("`lint --cluster` of {pods} pods, and their gates, 64 at a time"),
        format!(
            "{:.1} s, {:.0} MB; {} lists of pods, {} statistics, {} port-forwards",
            ran.took.as_secs_f64(),
            ran.peak_kb as f64 / 1024.0,
            after.lists - before.lists,
            after.proxied - before.proxied,
            after.forwards - before.forwards
        ),
    );
    Ok(())
}

async fn lint(world: &World) -> Outcome<CommandOutput> {
    laststream(world, NAMESPACE, &["lint", "--cluster", "-o", "json"]).await
}

/// Creates all workloads, and waits until KWOK runs their pods.
async fn create(world: &World, good: bool) -> Outcome {
    let cluster = &world.cluster;
    let delete = ["delete", "pods", "--all", "--namespace", NAMESPACE, "--grace-period=0"];
    cluster.run(&[&delete[..], &["--force"]].concat()).await?;
    let workloads = PLANTED.iter().flat_map(|planted| planted.objects(good));
    let mut objects: Vec<Value> = workloads.collect();
    objects.push(planted::gate()?);
    cluster.apply_all(&objects).await?;
    operator::serve(world, NAMESPACE).await
}

/// The way out of a finding of this rule at an object.
fn way_out(findings: &[Value], rule: &str, kind: &str, name: &str) -> Option<String> {
    let mut all = findings.iter();
    let is_it = |finding: &&Value| {
        let object = &finding["object"];
        finding["code"] == rule
            && (&object["kind"], &object["name"]) == (&json!(kind), &json!(name))
            && object["namespace"] == NAMESPACE
    };
    all.find(is_it)?["fix"].as_str().map(str::to_owned)
}

async fn spoiled(world: &World) -> Outcome {
    create(world, false).await?;
    let others = planted::others()?;
    let objects: Vec<Value> = others.iter().map(|(object, _)| object.clone()).collect();
    world.cluster.apply_all(&objects).await?;
    let mut wanted: Vec<(&str, String, String)> = Vec::new();
    for planted in &PLANTED {
        wanted.push((planted.rule, "Deployment".to_owned(), planted.name.to_owned()));
    }
    for (object, rules) in &others {
        let [kind, name] = [&object["kind"], &object["metadata"]["name"]];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        wanted.extend(rules.iter().map(|rule| (*rule, text(kind), text(name))));
    }
    let look = async || {
        // The API server applies new rights a little later.
        let said = lint(world).await?.expect(1)?.json()?;
        let findings = said["findings"].as_array().context("findings")?;
        for (rule, kind, name) in &wanted {
            let way_out = way_out(findings, rule, kind, name);
            let way_out = way_out.with_context(|| format!("{rule} at {kind} {name}: {said:#}"))?;
            ensure!(!way_out.is_empty(), "{rule} without a way out");
        }
        let refused = findings.iter().filter(|finding| finding["code"] == "LS809");
        ensure_eq!(refused.count(), 0, "the rights suffice: {said:#}");
        Ok(findings.len())
    };
    let findings = wait_for(PATIENCE, "all mistakes", look).await?;
    row(
        "F6",
        format!("{} mistakes in {} workloads and other objects", wanted.len(), PLANTED.len()),
        format!("each found at its object with the way out, in {findings} findings"),
    );
    for (object, _) in &others {
        let name = object["metadata"]["name"].as_str().context("a name")?;
        let kind = object["kind"].as_str().context("a kind")?;
        world.cluster.run(&["delete", kind, name, "--namespace", NAMESPACE]).await?;
    }
    Ok(())
}

async fn mended(world: &World) -> Outcome {
    create(world, true).await?;
    let look = async || lint(world).await?.expect(0)?.stderr_contains("nothing found").map(drop);
    wait_for(PATIENCE, "nothing to find", look).await?;
    row("F6", "the same workloads, mended", "nothing found");
    Ok(())
}

/// With rights in the namespace alone, what cannot be read elsewhere is named.
async fn one_namespace(world: &World) -> Outcome {
    for role in ROLES {
        world.cluster.run(&["delete", "clusterrolebinding", role]).await?;
    }
    grant(world, Some(NAMESPACE), &ROLES).await?;
    let right = "no right to `list` `envoyfilters` in namespace `istio-system`";
    let look = async || {
        let said = lint(world).await?.expect(1)?;
        let said = said.stdout_contains(right)?.stdout_contains("LS809")?;
        ensure!(!said.stdout.contains(&format!("in namespace `{NAMESPACE}`")), "{}", said.stdout);
        Ok(())
    };
    wait_for(PATIENCE, "the missing right", look).await?;
    row("F6", "rights in one namespace alone", "LS809 names those in `istio-system`");
    Ok(())
}
