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
/// How far the peaks of memory of two equal runs differ.
const NOISE: f64 = 1.1;
const ROLES: [&str; 2] = ["laststream-reader", "laststream-linter"];

pub(crate) async fn of_a_cluster() -> Outcome {
    let world = World::get().await?;
    operator::place(world, NAMESPACE, NODE, "10.244.250.0/24").await?;
    for release in ["istio-1.31", "gateway-api-1.6"] {
        world.cluster.definitions(release).await?;
    }
    world.cluster.apply_all(&[planted::bindings()]).await?;
    world.cluster.established().await?;
    grant(world, None, &ROLES).await?;
    spoiled(world).await?;
    mended(world).await?;
    one_namespace(world).await
}

/// What a command needs, and what it prints.
struct Cost {
    said: Value,
    took: Duration,
    memory: f64,
    lists: u64,
    all_lists: u64,
    forwards: u64,
}

impl Cost {
    async fn of(cluster: &Cluster, command: &str, code: i32) -> Outcome<Self> {
        let before = Requests::of(cluster).await?;
        let arguments = [command, "--cluster", "-n", pods::NAMESPACE, "-o", "json"];
        let ran = status::run(cluster, &arguments).await?;
        let after = Requests::of(cluster).await?;
        ensure_eq!(ran.code, Some(code), "{}", ran.stderr);
        Ok(Self {
            said: serde_json::from_str(&ran.stdout).with_context(|| ran.stderr.clone())?,
            took: ran.took,
            memory: ran.peak_kb as f64 / 1024.0,
            lists: after.lists - before.lists,
            all_lists: after.all_lists - before.all_lists,
            forwards: after.forwards - before.forwards,
        })
    }

    fn add_row(&self, case: &'static str, what: String) {
        let Self { memory, lists, all_lists, forwards, .. } = self;
        let took = self.took.as_secs_f64();
        row(
            case,
            what,
            format!(
                "{took:.1} s, {memory:.0} MB; {all_lists} lists, {lists} of them of pods, \
                 {forwards} port-forwards"
            ),
        );
    }
}

/// The cost of `lint --cluster` for the pods of `status`, whose gates are all asked, and that of
/// `assess --cluster`, which asks none.
pub(super) async fn measure(cluster: &Cluster, case: &'static str, pods: usize) -> Outcome {
    let lint = Cost::of(cluster, "lint", 1).await?; // the hooks are not the rendered ones
    ensure_eq!(lint.said["objects"], json!(pods / 100), "one object for 100 pods");
    lint.add_row(case, format!("`lint --cluster` of {pods} pods, and their gates, 64 at a time"));
    let assess = Cost::of(cluster, "assess", 0).await?;
    assess.add_row(case, format!("`assess --cluster` of {pods} pods"));
    let rows = assess.said["workloads"].as_array().context("workloads")?.len();
    // A set whose newest pod is one without a proxy counts as without one.
    let without = assess.said["without_proxy"].as_u64().context("without_proxy")?;
    ensure_eq!(rows as u64 + without, pods as u64 / 100, "one row for 100 pods");
    ensure_eq!(assess.forwards, 0, "it asks no gate");
    ensure!(assess.all_lists <= lint.all_lists, "more lists than `lint`");
    ensure!(assess.took <= lint.took, "{:?}, and `lint` {:?}", assess.took, lint.took);
    let most = lint.memory * NOISE;
    ensure!(assess.memory <= most, "{} MB, and `lint` {} MB", assess.memory, lint.memory);
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
