//! F2 and F3: `laststream status` of 1,000 and 10,000 pods: whether it classifies each pod
//! correctly, how long it takes, and its memory and requests.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::cost::{self, Requests};
use super::lint;
use super::pods::{Kind, NAMESPACE, SETTLED, count};
use super::world::{HELD, World};
use crate::cluster::Cluster;
use crate::isolation::folder;
use crate::seen::row;
use kit::prelude::*;

/// The time limit for a thousand pods, unless the machine is so busy that one pod at a time takes
/// longer.
const LIMIT: Duration = Duration::from_secs(10);

pub(crate) async fn of_a_thousand() -> Outcome {
    let world = World::with("F2", 1_000).await?;
    let mut runs = Vec::new();
    for at_a_time in [1, 16] {
        runs.push(measure(&world.cluster, 1_000, at_a_time).await?);
    }
    let limit = LIMIT.max(runs[0].took);
    let usual = async || {
        let run = measure(&world.cluster, 1_000, 64).await?;
        ensure!(run.took < limit, "1,000 pods took {:?}", run.took);
        Ok(run)
    };
    runs.push(wait_for(SETTLED, "a run of the usual time", usual).await?);
    runs.iter().for_each(|run| run.add_row("F2"));
    of_one_node(&world.cluster).await?;
    lint::measure(&world.cluster, "F2", 1_000).await?;
    bless("1,000", &runs)
}

pub(crate) async fn of_ten_thousand() -> Outcome {
    let world = World::with("F3", 10_000).await?;
    let run = measure(&world.cluster, 10_000, 64).await?;
    run.add_row("F3");
    lint::measure(&world.cluster, "F3", 10_000).await?;
    bless("10,000", &[run])
}

struct Run {
    pods: usize,
    at_a_time: usize,
    took: Duration,
    peak_kb: u64,
    lists: u64,
    proxied: u64,
    forwards: u64,
}

impl Run {
    fn cells(&self) -> [String; 6] {
        [
            self.at_a_time.to_string(),
            format!("{:.1} s", self.took.as_secs_f64()),
            format!("{:.0} MB", self.peak_kb as f64 / 1024.0),
            self.lists.to_string(),
            self.proxied.to_string(),
            self.forwards.to_string(),
        ]
    }

    fn add_row(&self, case: &'static str) {
        let [at_a_time, took, memory, lists, proxied, forwards] = self.cells();
        row(
            case,
            format!("`status` of {} pods, {at_a_time} at a time", self.pods),
            format!(
                "{took}, {memory}; {lists} lists, {proxied} statistics, {forwards} port-forwards"
            ),
        );
    }
}

/// Measures a run in which every pod that answers was in time. On a busy machine pods may be late.
async fn measure(cluster: &Cluster, pods: usize, at_a_time: usize) -> Outcome<Run> {
    let (run, said) = wait_for(SETTLED, "a run without late pods", async || {
        let (run, said) = measure_once(cluster, pods, at_a_time).await?;
        let (late, silent) = (classes(&said, "unreachable"), silent(pods));
        ensure!(late <= silent, "{late} pods are unreachable, in place of {silent}");
        Ok((run, said))
    })
    .await?;
    check(&said, pods)?;
    Ok(run)
}

async fn measure_once(cluster: &Cluster, pods: usize, at_a_time: usize) -> Outcome<(Run, Value)> {
    let before = Requests::of(cluster).await?;
    let arguments = ["status", "-n", NAMESPACE, "-o", "json", "--at-a-time"];
    let limit = at_a_time.to_string();
    let ran = run(cluster, &[&arguments[..], &[&limit]].concat()).await?;
    let after = Requests::of(cluster).await?;
    ensure_eq!(ran.code, Some(1), "some pods do not answer: {}", ran.stderr);
    let said = serde_json::from_str(&ran.stdout)?;
    let run = Run {
        pods,
        at_a_time,
        took: ran.took,
        peak_kb: ran.peak_kb,
        lists: after.lists - before.lists,
        proxied: after.proxied - before.proxied,
        forwards: after.forwards - before.forwards,
    };
    Ok((run, said))
}

/// How many pods `status` gives this class.
fn classes(said: &Value, class: &str) -> usize {
    let pods = said["pods"].as_array().into_iter().flatten();
    pods.filter(|pod| pod["class"] == class).count()
}

/// How many of the pods never answer.
fn silent(pods: usize) -> usize {
    count(Kind::Refused, pods) + count(Kind::Silent, pods)
}

/// Checks that `status` lists every pod with the right class, state and life.
fn check(said: &Value, pods: usize) -> Outcome {
    let list = said["pods"].as_array().context("pods")?;
    let plain = count(Kind::Plain, pods);
    ensure_eq!(list.len() + plain, pods, "pods with a proxy and without");
    ensure_eq!(said["without_proxy"], serde_json::json!(plain), "pods without a proxy");
    let seen = |class: &str| classes(said, class);
    ensure_eq!(seen("unreachable"), silent(pods), "unreachable");
    ensure_eq!(seen("without"), count(Kind::Without, pods), "without laststream");
    ensure_eq!(seen("half-upgraded"), count(Kind::Half, pods), "half-upgraded");
    let sum = |kinds: &[Kind]| kinds.iter().map(|kind| count(*kind, pods)).sum::<usize>();
    let draining = list.iter().filter(|pod| pod["state"] == "draining").count();
    ensure_eq!(draining, sum(&[Kind::Draining, Kind::Terminating]), "draining");
    let life = |life: &str| list.iter().filter(|pod| pod["life"] == life).count();
    ensure_eq!(life("terminating"), sum(&[Kind::Terminating]), "terminating");
    ensure_eq!(life("not-ready"), sum(&[Kind::NotReady, Kind::NotRunning]), "not ready");
    ensure_eq!(seen("not-running"), sum(&[Kind::NotRunning]), "not running");
    let installed = [Kind::Serving, Kind::Draining, Kind::Terminating, Kind::NotReady];
    ensure_eq!(seen("installed"), sum(&installed), "installed");
    gates(list, pods)
}

/// Checks that the gates of draining pods, and only those, were asked through KWOK.
fn gates(list: &[Value], pods: usize) -> Outcome {
    let asked: Vec<&Value> = list.iter().filter(|pod| pod["version"].is_string()).collect();
    let expected = count(Kind::Draining, pods) + count(Kind::Terminating, pods);
    ensure_eq!(asked.len(), expected, "gates that were asked");
    for pod in asked {
        ensure_eq!(pod["holding"], serde_json::json!(HELD), "{pod}");
    }
    Ok(())
}

async fn of_one_node(cluster: &Cluster) -> Outcome {
    let arguments = ["status", "-A", "--node", "node-003", "-o", "json"];
    let ran = run(cluster, &arguments).await?;
    let said: Value = serde_json::from_str(&ran.stdout)?;
    ensure_eq!(said["pods"].as_array().map(Vec::len), Some(99), "{}", ran.stderr);
    row("F2", "one node of them", format!("99 pods in {:.1} s", ran.took.as_secs_f64()));
    Ok(())
}

pub(super) struct Ran {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) took: Duration,
    pub(super) peak_kb: u64,
}

/// Runs `laststream`, and samples its memory until it ends.
pub(super) async fn run(cluster: &Cluster, arguments: &[&str]) -> Outcome<Ran> {
    let command = cluster.laststream_command(arguments)?;
    tokio::task::spawn_blocking(move || watch(command)).await.context("a thread")?
}

fn watch(mut command: Command) -> Outcome<Ran> {
    let folder = folder("ran")?;
    let [out, err] = ["out", "err"].map(|name| folder.join(name));
    command.stdin(Stdio::null()).stdout(fs::File::create(&out)?).stderr(fs::File::create(&err)?);
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let pid = child.id();
    let mut peak_kb = 0;
    let code = loop {
        peak_kb = peak_kb.max(cost::peak_kb(pid).unwrap_or_default());
        if let Some(ended) = child.try_wait()? {
            break ended.code();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let took = begun.elapsed();
    let (stdout, stderr) = (fs::read_to_string(out)?, fs::read_to_string(err)?);
    Ok(Ran { code, stdout, stderr, took, peak_kb })
}

/// Replaces the rows of this many pods in docs/fleet.md, if `LASTSTREAM_BLESS` is set.
fn bless(pods: &str, runs: &[Run]) -> Outcome {
    if std::env::var_os("LASTSTREAM_BLESS").is_none() {
        return Ok(());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fleet.md");
    let begins = format!("| {pods} |");
    let rows = runs.iter().map(|run| format!("{begins} {} |\n", run.cells().join(" | ")));
    let mut rows: Option<String> = Some(rows.collect());
    let mut text = String::new();
    for line in fs::read_to_string(&path)?.lines() {
        if !line.starts_with(&begins) {
            text.push_str(&format!("{line}\n"));
        } else if let Some(rows) = rows.take() {
            text.push_str(&rows);
        }
    }
    ensure!(rows.is_none(), "docs/fleet.md has no row of {pods} pods");
    Ok(fs::write(path, text)?)
}
