//! A1: `laststream assess --cluster` predicts when the proxy of each workload ends. Then each pod
//! is deleted with a request in flight, and what becomes of the request must agree.

use std::time::SystemTime;

use super::lane::{Lane, OUTLASTS_ALL, Seen, Task, side_by_side};
use super::workload::{Proxy, SIDECAR, Workload, routes, sidecars};
use super::world::{TURN, World};
use super::{bare, gateway_api};
use crate::seen::row;
use kit::prelude::*;

const NAMESPACE: &str = "assess";
/// The most that a request may live longer than predicted, from the time at which kubelet began to
/// stop its pod.
const LATE: Duration = Duration::from_secs(2);
/// What Envoy Gateway's manager and kubelet's request to it take more: each looks once a second.
const LOOKS: Duration = Duration::from_secs(2);
/// How often a workload is tried whose proxy ends late, as on a busy machine. Each must be early
/// enough once.
const TRIES: u32 = 4;
/// The time of the request to the app without a proxy.
const REQUEST: Duration = Duration::from_secs(10);
const DRAIN_TIMEOUT: u64 = 8;
const SHORT_GRACE: u32 = 15;

/// A workload, and the kind of proxy that `assess` must see in it.
struct Subject {
    kind: &'static str,
    lane: Lane,
    /// The objects of the workload; none for a [`Workload`].
    objects: Vec<Value>,
    late: Duration,
}

pub(crate) async fn case() -> Outcome {
    tokio::time::sleep(2 * TURN).await;
    let (world, _turn) = World::alone().await?;
    prepare(world).await?;
    let subjects = subjects()?;
    for subject in &subjects {
        subject.create(world).await?;
    }
    for subject in &subjects {
        subject.lane.workload.ready(world).await?;
    }
    let rows = rows(world, NAMESPACE).await?;
    let mut tasks: Vec<Task<()>> = Vec::new();
    for (index, subject) in subjects.iter().enumerate() {
        tasks.push(Box::pin(agrees(world, index, subject.row(&rows)?)));
    }
    side_by_side(tasks).await.map(drop)
}

async fn prepare(world: &World) -> Outcome {
    world.cluster.injected_namespace(NAMESPACE).await?;
    let mut objects = vec![sidecars(NAMESPACE)];
    for gateway in ["chart", "longer", "zero", "sleep", "short"] {
        objects.extend(routes(NAMESPACE, gateway, &[("kept.test", "backend.default")]));
    }
    world.cluster.apply_all(&objects).await?;
    Workload::app(NAMESPACE, "backend").create(world).await
}

fn lane(what: &'static str, workload: Workload<'static>) -> Lane {
    Lane { what, workload, request: OUTLASTS_ALL, ..Lane::default() }
}

fn subject(kind: &'static str, lane: Lane) -> Subject {
    Subject { kind, lane, objects: Vec::new(), late: LATE }
}

fn gateways() -> Vec<Subject> {
    let gateway = |what, name| {
        let workload = Workload { drain: None, ..Workload::gateway(NAMESPACE, name) };
        subject("chart_gateway", lane(what, workload))
    };
    let with = |mut subject: Subject, config: &str| {
        subject.lane.workload.annotations = json!({ "proxy.istio.io/config": config });
        subject
    };
    let longer = gateway("a chart gateway, terminationDrainDuration: 12s", "longer");
    let mut short =
        gateway("a chart gateway, terminationDrainDuration: 60s, 15 s of grace", "short");
    short.lane.workload.grace = SHORT_GRACE;
    let mut zero =
        gateway("a chart gateway, EXIT_ON_ZERO, an idle connection, 15 s of grace", "zero");
    (zero.lane.workload.grace, zero.lane.idle_connection) = (SHORT_GRACE, true);
    let mut sleep = gateway("a chart gateway, preStop: sleep of 6 s", "sleep");
    sleep.lane.workload.proxy_hook = Some(json!({ "preStop": { "sleep": { "seconds": 6 } } }));
    vec![
        gateway("a chart gateway", "chart"),
        with(longer, "terminationDrainDuration: 12s"),
        with(short, "terminationDrainDuration: 60s"),
        with(zero, "proxyMetadata: { EXIT_ON_ZERO_ACTIVE_CONNECTIONS: \"true\" }"),
        sleep,
    ]
}

fn subjects() -> Outcome<Vec<Subject>> {
    let sidecar = |kind, what, name, proxy| {
        let workload = Workload { proxy, grace: SHORT_GRACE, ..Workload::app(NAMESPACE, name) };
        subject(kind, Lane { port: Some(SIDECAR), ..lane(what, workload) })
    };
    let made = |kind, what, name, objects| {
        let workload = Workload::app(NAMESPACE, name);
        Subject { objects, ..subject(kind, lane(what, workload)) }
    };
    let api = gateway_api::objects(NAMESPACE, "api", "kept.test", "backend").to_vec();
    let manager = bare::envoy_gateway(NAMESPACE, "managed", DRAIN_TIMEOUT)?;
    let mut managed =
        made("envoy_gateway", "Envoy Gateway, drainTimeout: 8s", "managed", vec![manager]);
    (managed.late, managed.lane.idle_connection) = (LATE + LOOKS, true);
    let mut job = made(
        "classic_sidecar",
        "a Job with a classic sidecar",
        "job",
        vec![bare::job(NAMESPACE, "job")],
    );
    (job.lane.workload.proxy, job.lane.port) = (Proxy::Classic, Some(SIDECAR));
    let plain = vec![bare::plain(NAMESPACE, "plain")];
    let mut app = subject("ambient_app", lane("an ambient app", Workload::app(NAMESPACE, "app")));
    (app.lane.port, app.lane.request) = (Some(SIDECAR), REQUEST);
    app.lane.workload.annotations = captured();
    let mut subjects = gateways();
    subjects.extend([
        made("gateway_api", "a Gateway of the Gateway API", "api", api),
        sidecar("classic_sidecar", "a classic sidecar", "classic", Proxy::Classic),
        sidecar("native_sidecar", "a native sidecar, 15 s of grace", "native", Proxy::Native),
        managed,
        made("plain_envoy", "an Envoy without a mesh", "plain", plain),
        job,
        app,
    ]);
    Ok(subjects)
}

impl Subject {
    async fn create(&self, world: &World) -> Outcome {
        if self.objects.is_empty() {
            return self.lane.workload.create(world).await;
        }
        world.cluster.apply_all(&self.objects).await
    }

    /// Its row, in which its kind of proxy is the right one.
    fn row(&self, rows: &[Value]) -> Outcome<Value> {
        let name = self.lane.workload.name;
        let is_it = |row: &&Value| row["workload"]["name"] == name;
        let own: Vec<&Value> = rows.iter().filter(is_it).collect();
        let [row] = own.as_slice() else { bail!("{name}: {} rows: {own:?}", own.len()) };
        ensure_eq!(row["proxy"], self.kind, "{row}");
        ensure_eq!(row["pods"], 1, "{row}");
        Ok((*row).clone())
    }
}

/// The annotation that Istio's CNI gives to pods whose traffic ztunnel takes.
pub(super) fn captured() -> Value {
    json!({ "ambient.istio.io/redirection": "enabled" })
}

/// The rows of `laststream assess`.
pub(super) async fn rows(world: &World, namespace: &str) -> Outcome<Vec<Value>> {
    let assess = ["assess", "--cluster", "-n", namespace, "-o", "json"];
    let said = world.cluster.laststream(&assess).await?.expect(0)?.json()?;
    said["workloads"].as_array().cloned().context("workloads")
}

/// Deletes the pod of a workload with a request in flight, and again if its proxy ends late.
async fn agrees(world: &'static World, index: usize, told: Value) -> Outcome {
    let mut tries = 0;
    loop {
        tries += 1;
        let Subject { lane, late, .. } = subjects()?.swap_remove(index);
        let seen = lane.run(world).await?;
        let begun = stop_begun(world, &seen).await?;
        let limit = begun + predicted(&told) + late;
        expect_not_early(&seen, &told)?;
        let is_late = told["certainty"] != "not_before" && seen.answered > limit;
        if !is_late {
            row("A1", seen.what, words(&seen, &told, begun));
            return Ok(());
        }
        let otherwise = format!("later than {limit:?}; predicted: {told}");
        seen.expect(tries < TRIES, &otherwise)?;
        say(&format!("{}: {otherwise}: {}; again", seen.what, seen.words()));
        subjects()?.swap_remove(index).create(world).await?;
    }
}

fn predicted(told: &Value) -> Duration {
    Duration::from_millis(told["longest_request_ms"].as_u64().unwrap_or(u64::MAX))
}

fn expect_not_early(seen: &Seen, told: &Value) -> Outcome {
    let is_early = seen.is_lost() && seen.answered < predicted(told);
    seen.expect(!is_early, &format!("earlier than predicted: {told}"))
}

/// The time from the deletion to that at which kubelet began to stop the pod, at the latest:
/// events have whole seconds.
async fn stop_begun(world: &World, seen: &Seen) -> Outcome<Duration> {
    let selector = format!("reason=Killing,involvedObject.name={}", seen.pod);
    let get = ["get", "events", "--namespace", NAMESPACE, "--field-selector", &selector];
    let times = ["--output", "jsonpath={.items[*].firstTimestamp}"];
    let look = async || {
        let text = world.cluster.run(&[&get[..], &times].concat()).await?;
        let times = text.split_whitespace().map(humantime::parse_rfc3339);
        times.flatten().min().context("no event of kubelet")
    };
    let begun = wait_for(PATIENCE, "kubelet's event", look).await?;
    let deleted = SystemTime::now() - seen.deleted.elapsed();
    Ok((begun + Duration::from_secs(1)).duration_since(deleted).unwrap_or_default())
}

fn words(seen: &Seen, told: &Value, begun: Duration) -> String {
    let least = if told["certainty"] == "not_before" { "not before " } else { "" };
    let answer = if seen.is_lost() { "cut" } else { "answered" };
    format!(
        "predicted: {least}{} s; {answer} {:.1} s after the deletion, which kubelet noticed after \
         at most {:.1} s",
        predicted(told).as_secs_f64(),
        seen.answered.as_secs_f64(),
        begun.as_secs_f64()
    )
}
