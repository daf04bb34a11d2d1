//! G2: stops under load, with the gate of the module, with the gate that is a program, and with
//! Envoy Gateway's own manager alone.

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::controller::EDGE;
use super::count;
use super::pod::{PORT, Pod, Stopped};
use super::world::World;
use crate::seen::row;
use kit::prelude::*;
use kit::wait::ANSWER;
use kit::wire::local;

/// The variable that makes the held requests 40 s long, which takes two minutes more.
pub(crate) const LONG: &str = "LASTSTREAM_MESH_LONG";
/// The time that both take at least.
const LEAST: Duration = Duration::from_secs(4);

/// The request that is in flight when the pod is deleted.
fn longest() -> Duration {
    Duration::from_secs(if std::env::var_os(LONG).is_some() { 40 } else { 12 })
}

/// The time after which both stop Envoy although requests are in flight.
fn limit() -> Duration {
    longest() + Duration::from_secs(18)
}

/// Late requests come one after the other: each takes `SHORT`, and a pause of `GAP` follows.
const SHORT: Duration = Duration::from_millis(1600);
const GAP: Duration = Duration::from_millis(600);
const STALL: Duration = Duration::from_millis(190);
/// The time from the deletion until the last of them may begin.
const LATE: Duration = Duration::from_secs(14);

#[derive(Clone, Copy)]
pub(super) struct Lane {
    pub(super) gateway: &'static str,
    pub(super) what: &'static str,
    pub(super) gate: Gate,
}

/// What stops the pod.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    Module,
    Program,
    /// Envoy Gateway's own manager.
    None,
}

impl Lane {
    pub(super) fn has_gate(&self) -> bool {
        self.gate != Gate::None
    }
}

pub(super) const LANES: [Lane; 3] = [
    Lane { gateway: "g2", what: "laststream's hook", gate: Gate::Module },
    Lane { gateway: "g2-program", what: "laststream's program", gate: Gate::Program },
    Lane { gateway: "g2-own", what: "Envoy Gateway's own manager", gate: Gate::None },
];

pub(super) async fn case() -> Outcome {
    let world = World::get().await?;
    let upstream = Upstream::start().await?;
    for lane in &LANES {
        world.gateway(lane.gateway, &upstream).await?;
        let deployment = deployment(world, lane).await?;
        long_and_idle(world, lane, &deployment, &upstream).await?;
        late_requests(world, lane, &deployment).await?;
        if lane.gate != Gate::Program {
            missing_statistic(world, lane, &deployment, &upstream).await?;
        }
    }
    Ok(())
}

pub(super) async fn deployment(world: &World, lane: &Lane) -> Outcome<Value> {
    if lane.has_gate() {
        let policy =
            format!("drain: {{deadline: {}s, delay: {}s}}\n", limit().as_secs(), LEAST.as_secs());
        if lane.gate == Gate::Module {
            world.put(lane.gateway, &policy).await?;
        } else {
            world.put_any(lane.gateway, &format!("delivery: program\n{policy}")).await?;
        }
    } else {
        let name = json!({ "name": lane.gateway, "namespace": EDGE });
        let shutdown = json!({
            "drainTimeout": format!("{}s", limit().as_secs()),
            "minDrainDuration": format!("{}s", LEAST.as_secs()),
        });
        let parameters = json!({
            "group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": lane.gateway,
        });
        let proxy = json!({
            "apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyProxy",
            "metadata": name, "spec": { "shutdown": shutdown },
        });
        world.cluster.apply_all(&[proxy]).await?;
        let patch = json!({ "spec": { "infrastructure": { "parametersRef": parameters } } });
        let how = ["--type=merge", &format!("--patch={patch}")];
        world.cluster.patch(EDGE, &format!("gateway/{}", lane.gateway), &how).await?;
    }
    let is_so = |pod: &Value| {
        let own = pod.to_string().contains(&format!("--drain-timeout={}s", limit().as_secs()));
        if lane.has_gate() { pod["initContainers"].is_array() } else { own }
    };
    world.deployment(lane.gateway, is_so).await
}

/// Sends a request that the upstream holds, on a separate connection; an error is the client's.
fn request(key: &str) -> JoinHandle<Outcome> {
    let path = format!("/hold/{key}");
    tokio::spawn(async move {
        let mut client = Client::connect(local(PORT)).await?.patience(limit() + ANSWER);
        client.get(&path).await?.expect(200).map(drop)
    })
}

/// How many requests were answered, cut or refused.
#[derive(Debug, Default)]
struct Fate {
    answered: u64,
    cut: u64,
    refused: u64,
}

impl Fate {
    /// Sends a request that takes so long, on a separate connection.
    async fn send(&mut self, takes: Duration) {
        let Ok(client) = Client::connect(local(PORT)).await else {
            self.refused += 1;
            return;
        };
        // Wait long enough that a slow answer does not count as a cut one.
        let mut client = client.patience(takes + ANSWER);
        match client.get(&format!("/delay/{}", takes.as_millis())).await {
            Ok(response) if response.status == 200 => self.answered += 1,
            _ => self.cut += 1,
        }
    }

    fn words(&self) -> String {
        let Self { answered, cut, refused } = self;
        format!("{answered} requests answered, {cut} cut, {refused} refused")
    }

    fn expect_nothing_lost(&self) -> Outcome {
        ensure_eq!((self.cut, self.refused), (0, 0), "nothing is lost");
        Ok(())
    }
}

fn held_request() -> String {
    format!("a request of {} s", longest().as_secs())
}

/// Adds the observation to the table: the outcome, when Envoy got SIGTERM, and when the pod was
/// gone.
fn report(lane: &Lane, situation: &str, outcome: &str, stopped: &[Stopped]) -> Outcome {
    let envoy = stopped.first().context("an Envoy")?;
    let gone = stopped.iter().map(|container| container.ended).max().unwrap_or_default();
    row(
        "G2",
        format!("{situation}: {}", lane.what),
        format!(
            "{outcome}; Envoy got SIGTERM after {:.1} s (hook: {}), and the pod was gone after \
             {:.1} s",
            envoy.signalled.as_secs_f64(),
            envoy.hook,
            gone.as_secs_f64()
        ),
    );
    Ok(())
}

/// Stops the pod while a request is in flight, which the upstream answers after the time of the
/// longest. It must be answered.
async fn stop_under_a_long_request(
    pod: &mut Pod<'_>,
    lane: &Lane,
    situation: &str,
    upstream: &Upstream,
) -> Outcome<Vec<Stopped>> {
    const KEY: &str = "longest";
    let long = request(KEY);
    upstream.wait_held(KEY, 1, PATIENCE).await?;
    let answer = async {
        sleep(longest()).await;
        upstream.release(KEY);
    };
    let (stopped, ()) = tokio::join!(pod.stop(), answer);
    let stopped = stopped?;
    let outcome = long.await?;
    let said = outcome.as_ref().map_or_else(|failure| format!("{failure:#}"), |()| "200".into());
    report(lane, situation, &said, &stopped)?;
    outcome?;
    Ok(stopped)
}

async fn long_and_idle(
    world: &World,
    lane: &Lane,
    deployment: &Value,
    upstream: &Upstream,
) -> Outcome {
    let mut pod = Pod::serving(world, deployment).await?;
    let mut idle = Client::connect(local(PORT)).await?;
    idle.get("/").await?.expect(200)?;
    let situation = format!("{}, and an idle connection", held_request());
    let stopped = stop_under_a_long_request(&mut pod, lane, &situation, upstream).await?;
    drop(idle);
    let at = stopped[0].signalled;
    if lane.has_gate() {
        return expect_after_the_last_stream(&stopped[0]);
    }
    ensure!(at > limit() - Duration::from_secs(1), "an idle connection does not hold it: {at:?}");
    Ok(())
}

/// Checks that laststream's hook let the Envoy go after the longest request, and not because of its
/// deadline.
fn expect_after_the_last_stream(envoy: &Stopped) -> Outcome {
    let at = envoy.signalled;
    ensure!(at > longest() && at < limit() - Duration::from_secs(1), "{at:?}");
    ensure_eq!(envoy.hook, "exit code 0", "the hook");
    Ok(())
}

/// Requests that still come after the deletion, as from clients that do not know of it: each on a
/// separate connection, with pauses.
async fn late_requests(world: &World, lane: &Lane, deployment: &Value) -> Outcome {
    wait_for(PATIENCE, "late requests without a stall", async || {
        let mut pod = Pod::serving(world, deployment).await?;
        let load = tokio::spawn(steady_requests());
        let stopped = pod.stop().await?;
        let (fate, stalled) = load.await?;
        let is_kept = fate.expect_nothing_lost();
        let counts = is_kept.is_ok() || !stalled || !lane.has_gate();
        ensure!(counts, "the requests stalled, and some were lost");
        report(lane, "requests of 1.6 s with pauses of 0.6 s, for 14 s", &fate.words(), &stopped)?;
        Ok(if lane.has_gate() { is_kept } else { Ok(()) })
    })
    .await?
}

/// Sends the requests. Also says whether one of them, with its pause, took [`STALL`] too long
/// before anything was lost: two such delays make a second, the quiet period.
async fn steady_requests() -> (Fate, bool) {
    let (mut fate, mut stalled) = (Fate::default(), false);
    let begun = Instant::now();
    while begun.elapsed() < LATE {
        let this = Instant::now();
        fate.send(SHORT).await;
        sleep(GAP).await;
        stalled |= fate.expect_nothing_lost().is_ok() && this.elapsed() > SHORT + GAP + STALL;
    }
    (fate, stalled)
}

/// Stops an Envoy without the statistic that decides: Envoy's own count for the gate, the number of
/// connections for the manager.
async fn missing_statistic(
    world: &World,
    lane: &Lane,
    deployment: &Value,
    upstream: &Upstream,
) -> Outcome {
    let gone = if lane.has_gate() { "downstream_rq_active" } else { "downstream_cx_active" };
    let mut pod = Pod::serving(world, &without(deployment, gone)?).await?;
    if lane.has_gate() {
        // While its counters are young, such a gate opens only at the deadline.
        wait_for(PATIENCE, "an assumed count", async || {
            let status = count::status().await?;
            ensure_eq!(status["count"], "assumed", "{status}");
            Ok(())
        })
        .await?;
    }
    let situation = format!("{}, without `{gone}`", held_request());
    let stopped = stop_under_a_long_request(&mut pod, lane, &situation, upstream).await?;
    if lane.has_gate() {
        return expect_after_the_last_stream(&stopped[0]);
    }
    let at = stopped[0].signalled;
    ensure!(at > longest(), "{at:?}");
    Ok(())
}

/// The Deployment with an Envoy that does not export statistics with this suffix.
fn without(deployment: &Value, statistic: &str) -> Outcome<Value> {
    let mut changed = deployment.clone();
    let arguments = changed["spec"]["template"]["spec"]["containers"][0]["args"]
        .as_array_mut()
        .context("arguments")?;
    let at = arguments.iter().position(|word| word == "--config-yaml").context("a bootstrap")? + 1;
    let text = arguments.get(at).and_then(Value::as_str).context("a bootstrap")?;
    let mut bootstrap: Value = serde_saphyr::from_str(text)?;
    bootstrap["stats_config"]["stats_matcher"] =
        json!({ "exclusion_list": { "patterns": [{ "suffix": statistic }] } });
    arguments[at] = bootstrap.to_string().into();
    Ok(changed)
}
