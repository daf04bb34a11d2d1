//! F2 and F3: `laststream status` of 1,000 and 10,000 pods: whether it tells them apart, how long
//! it takes, and what it costs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use laststream::fleet::{self, Access};
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};

use super::pods::{self, Kind, NAMESPACE, count};
use super::stand_in;
use crate::cluster::{Cluster, Settings};
use crate::isolation::{folder, run_tool};
use crate::seen::{row, say};
use kit::prelude::*;
use kit::process::guarded;
use kit::user;

/// For a thousand pods.
const LIMIT: Duration = Duration::from_secs(10);
const BLESS: &str = "LASTSTREAM_BLESS";

pub(crate) async fn of_a_thousand() -> Outcome {
    let world = World::with(1_000).await?;
    let mut runs = Vec::new();
    for at_a_time in [1, 16, 64, 256] {
        let run = measure(&world.cluster, 1_000, at_a_time).await?;
        run.tell("F2");
        runs.push(run);
    }
    let usual = runs.iter().find(|run| run.at_a_time == 64).context("the default")?;
    ensure!(usual.took < LIMIT, "1,000 pods took {:?}", usual.took);
    of_one_node(&world.cluster).await?;
    bless("1,000", &runs)
}

pub(crate) async fn of_ten_thousand() -> Outcome {
    let world = World::with(10_000).await?;
    let run = measure(&world.cluster, 10_000, 64).await?;
    run.tell("F3");
    bless("10,000", &[run])
}

/// An API server, addresses for pods, and what answers there.
struct World {
    cluster: Cluster,
    written: Mutex<usize>,
}

impl World {
    /// The first that asks starts it; pods are added until there are so many.
    async fn with(pods: usize) -> Outcome<&'static Self> {
        static WORLD: OnceCell<Result<World, String>> = OnceCell::const_new();
        let started = async || World::start().await.map_err(|failure| format!("{failure:#}"));
        let world = WORLD.get_or_init(started).await.as_ref().map_err(Error::msg)?;
        let mut written = world.written.lock().await;
        let access = Access { kubeconfig: Some(world.cluster.kubeconfig()), ..Access::default() };
        let client = fleet::Cluster::connect(&access, &|_| None).await.map_err(Error::msg)?;
        let begun = Instant::now();
        pods::create(&client, *written, pods).await?;
        *written = pods;
        say(&format!("fleet: {pods} pods written in {:.1} s", begun.elapsed().as_secs_f64()));
        Ok(world)
    }

    async fn start() -> Outcome<Self> {
        run_tool("ip", &["route", "replace", "local", "10.244.0.0/16", "dev", "lo"])?;
        stand_in::start()?;
        let cluster = Cluster::start(&Settings::default()).await?;
        cluster.namespace(NAMESPACE).await?;
        Ok(Self { cluster, written: Mutex::new(0) })
    }
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

    fn tell(&self, case: &'static str) {
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

async fn measure(cluster: &Cluster, pods: usize, at_a_time: usize) -> Outcome<Run> {
    let before = Requests::of(cluster).await?;
    let arguments = ["status", "-n", NAMESPACE, "-o", "json", "--at-a-time"];
    let limit = at_a_time.to_string();
    let ran = run(cluster, &[arguments.as_slice(), &[limit.as_str()]].concat()).await?;
    let after = Requests::of(cluster).await?;
    ensure_eq!(ran.code, Some(1), "some pods do not answer: {}", ran.stderr);
    check(&serde_json::from_str(&ran.stdout)?, pods)?;
    Ok(Run {
        pods,
        at_a_time,
        took: ran.took,
        peak_kb: ran.peak_kb,
        lists: after.lists - before.lists,
        proxied: after.proxied - before.proxied,
        forwards: after.forwards - before.forwards,
    })
}

/// Every pod is there, and is what it is.
fn check(said: &Value, pods: usize) -> Outcome {
    let list = said["pods"].as_array().context("pods")?;
    let plain = count(Kind::Plain, pods);
    ensure_eq!(list.len() + plain, pods, "pods with a proxy and without");
    ensure_eq!(said["without_proxy"], serde_json::json!(plain), "pods without a proxy");
    let seen = |class: &str| list.iter().filter(|pod| pod["class"] == class).count();
    let silent = count(Kind::Refused, pods) + count(Kind::Silent, pods);
    ensure_eq!(seen("unreachable"), silent, "unreachable");
    ensure_eq!(seen("without"), count(Kind::Without, pods), "without laststream");
    ensure_eq!(seen("half-upgraded"), count(Kind::Half, pods), "half-upgraded");
    let draining = list.iter().filter(|pod| pod["state"] == "draining").count();
    ensure_eq!(draining, count(Kind::Draining, pods), "draining");
    let not_ready = list.iter().filter(|pod| pod["life"] == "not-ready").count();
    ensure_eq!(not_ready, count(Kind::NotReady, pods), "not ready");
    let installed = seen("installed");
    let expected = [Kind::Serving, Kind::Draining, Kind::NotReady];
    let expected: usize = expected.into_iter().map(|kind| count(kind, pods)).sum();
    ensure_eq!(installed, expected, "installed");
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

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    took: Duration,
    peak_kb: u64,
}

/// Runs `laststream`, and looks at its memory until it ends.
async fn run(cluster: &Cluster, arguments: &[&str]) -> Outcome<Ran> {
    let mut command = guarded(user::laststream()?);
    command.args(arguments).env("KUBECONFIG", cluster.kubeconfig());
    command.env("HOME", std::env::temp_dir());
    tokio::task::spawn_blocking(move || watch(command)).await.context("a thread")?
}

fn watch(mut command: Command) -> Outcome<Ran> {
    let folder = folder("ran")?;
    let [out, err] = ["out", "err"].map(|name| folder.join(name));
    command.stdin(Stdio::null()).stdout(fs::File::create(&out)?).stderr(fs::File::create(&err)?);
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let status = Path::new("/proc").join(child.id().to_string()).join("status");
    let mut peak_kb = 0;
    let code = loop {
        let now = fs::read_to_string(&status).unwrap_or_default();
        peak_kb = peak_kb.max(high_water(&now).unwrap_or_default());
        if let Some(ended) = child.try_wait()? {
            break ended.code();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let took = begun.elapsed();
    let (stdout, stderr) = (fs::read_to_string(out)?, fs::read_to_string(err)?);
    Ok(Ran { code, stdout, stderr, took, peak_kb })
}

fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// What the API server has counted.
struct Requests {
    lists: u64,
    proxied: u64,
    forwards: u64,
}

impl Requests {
    async fn of(cluster: &Cluster) -> Outcome<Self> {
        let page = cluster.kubectl(&["get", "--raw", "/metrics"]).await?.expect(0)?.stdout;
        let sum = |verb: Option<&str>, subresource: &str| -> u64 {
            let labels = format!("subresource=\"{subresource}\"");
            page.lines()
                .filter(|line| line.starts_with("apiserver_request_total{"))
                .filter(|line| line.contains("resource=\"pods\"") && line.contains(&labels))
                .filter(|line| verb.is_none_or(|verb| line.contains(&format!("verb=\"{verb}\""))))
                .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
                .map(|value| value as u64)
                .sum()
        };
        Ok(Self {
            lists: sum(Some("LIST"), ""),
            proxied: sum(None, "proxy"),
            forwards: sum(None, "portforward"),
        })
    }
}

/// The rows of this many pods in docs/fleet.md, if they are to be written.
fn bless(pods: &str, runs: &[Run]) -> Outcome {
    if std::env::var_os(BLESS).is_none() {
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
