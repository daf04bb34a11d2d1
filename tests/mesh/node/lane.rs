//! One pod with a request in flight, from the request to the end of the pod.

use std::panic::Location;
use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::timeout;

use super::image::LASTSTREAM;
use super::workload::{self, Pod, Proxy, Workload};
use super::world::World;
use kit::h1;
use kit::prelude::*;

/// The grace period of pods that end by themselves, in seconds, and the gate's deadline in it. They
/// wait for neither, so both are long, for a slow machine.
pub(super) const GRACE: u32 = 120;
pub(super) const DEADLINE: Duration = Duration::from_secs(113);

/// The policy's `drain` with [`GRACE`].
pub(super) fn long_grace() -> Value {
    json!({ "grace_period": format!("{GRACE}s") })
}

/// The time of a request that is to be lost.
pub(super) const OUTLASTS_ALL: Duration = Duration::from_secs(300);
/// The time from the request to the deletion of its pod.
const BEFORE: Duration = Duration::from_secs(1);

/// A pod, the request to it, and the way it is stopped.
#[derive(Default)]
pub(crate) struct Lane {
    pub(crate) what: &'static str,
    pub(crate) workload: Workload<'static>,
    /// How long the request lasts, from [`BEFORE`] the deletion. What happens meanwhile takes
    /// longer.
    pub(crate) request: Duration,
    /// Whether a second connection stays open without further requests.
    pub(crate) idle_connection: bool,
    /// The pod's port to which the request goes, in place of a gateway's usual one.
    pub(crate) port: Option<u16>,
    /// The request goes through another pod: the address of a gateway, and the host by which it
    /// routes to this pod.
    pub(crate) through: Option<(SocketAddr, &'static str)>,
    /// The event while the request runs.
    pub(crate) meanwhile: Meanwhile,
}

/// Events between the deletion and the end of the pod.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Meanwhile {
    #[default]
    Nothing,
    /// The pod is deleted again, with a grace period of 5 s.
    SecondDelete,
    /// kubelet is killed, and started again 2 s later.
    KubeletRestart,
    /// The configuration of the module changes.
    Reload,
}

/// The observations. Times count from the deletion.
pub(crate) struct Seen {
    pub(crate) what: &'static str,
    pub(crate) pod: String,
    pub(crate) deleted: Instant,
    /// The status of the response, or the error.
    pub(crate) answer: Result<u16, String>,
    pub(crate) answered: Duration,
    pub(crate) gone: Duration,
    /// The exit code of the proxy's container.
    pub(crate) exit: Option<i64>,
    pub(crate) log: String,
}

/// The exit code after SIGKILL, which kubelet sends at the end of the grace period.
const SIGKILL: i64 = 137;

impl Seen {
    pub(crate) fn is_lost(&self) -> bool {
        self.answer != Ok(200)
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.exit == Some(SIGKILL)
    }

    pub(crate) fn words(&self) -> String {
        let answer = self.answer.as_ref().map_or_else(String::clone, u16::to_string);
        let exit = match self.exit {
            None => "the proxy's end was not seen".into(),
            Some(SIGKILL) => "the proxy was killed by SIGKILL".into(),
            Some(code) => format!("the proxy ended with {code}"),
        };
        format!(
            "{answer} {:.1} s after the deletion; the pod was gone after {:.1} s; {exit}",
            self.answered.as_secs_f64(),
            self.gone.as_secs_f64()
        )
    }

    /// Checks a condition; the error says `otherwise` and shows the observations.
    #[track_caller]
    pub(crate) fn expect(&self, is_so: bool, otherwise: &str) -> Outcome {
        let (caller, what, words) = (Location::caller(), self.what, self.words());
        ensure!(is_so, "{caller}: {what}: {otherwise}: {words}\n{}", self.log);
        Ok(())
    }

    /// Checks that the request was answered, and that the pod ended by itself before the gate's
    /// deadline.
    #[track_caller]
    pub(crate) fn expect_kept(&self) -> Outcome {
        self.expect(!self.is_lost(), "the request was lost")?;
        let ended_itself = self.gone < DEADLINE && !self.is_killed();
        self.expect(ended_itself, "the pod stayed until the deadline")
    }

    #[track_caller]
    pub(crate) fn expect_lost(&self) -> Outcome {
        self.expect(self.is_lost(), "nothing was lost, so this shows nothing")
    }
}

impl Lane {
    /// The address and host of the request, once a request there is answered.
    async fn way(&self, pod: &Pod) -> Outcome<(SocketAddr, &'static str)> {
        let mut own = pod.listener();
        own.set_port(self.port.unwrap_or(own.port()));
        let way = self.through.unwrap_or((own, "kept.test"));
        let request = Request::get("/").host(way.1);
        let look = async || h1::once(way.0, &request).await?.expect(200).map(drop);
        wait_for(PATIENCE, &format!("the way to {}", self.what), look).await?;
        Ok(way)
    }

    /// The gate's status 3 s after the answer, for failures.
    async fn gate_status(&self, world: &World, pod: &Pod) -> String {
        if self.workload.drain.is_none() {
            return String::new();
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        let status = [LASTSTREAM, "status", "-o", "json"];
        world.exec(self.workload.namespace, &pod.name, &status).await.map_or_else(
            |failure| format!("{failure:#}"),
            |said| format!("the gate 3 s after the answer: {}{}", said.stdout, said.stderr),
        )
    }

    /// Detaches the pod from its Deployment, so that no new pod keeps the machine busy. The
    /// deletion is not waited for, because Istio makes the Deployment of a Gateway again at once,
    /// under the same name.
    async fn orphan(&self, world: &World) -> Outcome {
        let selector = format!("--selector=app={}", self.workload.name);
        let which = [self.workload.namespace, &selector, "--cascade=orphan", "--wait=false"];
        for kind in ["deployments", "replicasets"] {
            let delete = [&["delete", kind, "--namespace"], &which[..]].concat();
            world.cluster.run(&delete).await?;
        }
        Ok(())
    }

    /// Runs the whole lane. The Deployment exists, with one pod.
    pub(crate) async fn run(self, world: &'static World) -> Outcome<Seen> {
        let pod = self.workload.pod(world).await?;
        self.orphan(world).await?;
        let (to, host) = self.way(&pod).await?;
        let mut idle = None;
        if self.idle_connection {
            let mut client = Client::connect(to).await?;
            client.request(&Request::get("/").host(host)).await?.expect(200)?;
            idle = Some(client);
        }
        let request = begin(to, host).await?;
        let namespace = self.workload.namespace;
        let log = follow(world, namespace, &pod.name);
        let deleted = workload::delete(world, namespace, &pod.name, &[]).await?;
        self.meanwhile.happen(world, &self.workload, &pod.name).await?;
        let request = end(request, self.request - BEFORE);
        let (answer, at) = request.await?;
        let status = self.gate_status(world, &pod).await;
        let (gone, last) = world.pods.gone(namespace, &pod.name).await?;
        drop(idle);
        let proxy = if self.workload.proxy == Proxy::None { "envoy" } else { "istio-proxy" };
        Ok(Seen {
            what: self.what,
            pod: pod.name,
            deleted,
            answer,
            answered: at.saturating_duration_since(deleted),
            gone: gone - deleted,
            exit: exit_code(&last, proxy),
            log: format!("{}\n{status}", log.await?),
        })
    }
}

impl Meanwhile {
    async fn happen(self, world: &World, workload: &Workload<'_>, pod: &str) -> Outcome {
        let namespace = workload.namespace;
        if self != Self::Nothing {
            status_is(world, namespace, pod, "state", "draining").await?;
        }
        match self {
            Self::Nothing => Ok(()),
            Self::SecondDelete => {
                workload::delete(world, namespace, pod, &["--grace-period=5"]).await.map(drop)
            }
            Self::KubeletRestart => {
                world.machine.kill_kubelet().await;
                tokio::time::sleep(Duration::from_secs(2)).await;
                world.machine.start_kubelet().await
            }
            Self::Reload => {
                workload.reconfigure(world, "2s").await?;
                status_is(world, namespace, pod, "quiet_needed_ms", 2_000).await?;
                status_is(world, namespace, pod, "state", "draining").await
            }
        }
    }
}

/// Waits until a field of the status of the pod's gate has this value.
async fn status_is(
    world: &World,
    namespace: &str,
    pod: &str,
    field: &str,
    expected: impl Into<Value>,
) -> Outcome {
    let expected = expected.into();
    wait_for(PATIENCE, &format!("{field} to be {expected}"), async || {
        let said = world.exec(namespace, pod, &[LASTSTREAM, "status", "-o", "json"]).await?;
        let status = said.expect(0)?.json()?;
        ensure_eq!(status[field], expected, "{status}");
        Ok(())
    })
    .await
}

/// The body of a request. The client sends it last and the app waits for it, so a request in
/// flight lasts as long as its client likes, on a slow machine, too.
const BODY: &[u8] = b"done";

/// Sends a request without its body, and waits until it is well on its way.
pub(super) async fn begin(to: SocketAddr, host: &str) -> Outcome<Client> {
    let mut client = Client::connect(to).await?;
    client.send(&Request::post("/", BODY).host(host).head_bytes()).await?;
    tokio::time::sleep(BEFORE).await;
    Ok(client)
}

/// Ends a request after this time, unless it breaks off before; returns its result and the time at
/// which it ended.
pub(super) fn end(client: Client, time: Duration) -> JoinHandle<(Result<u16, String>, Instant)> {
    tokio::spawn(async move {
        let mut client = client.patience(time + PATIENCE);
        let exchange = async {
            if let Ok(early) = timeout(time, client.response("POST")).await {
                return early;
            }
            client.send(BODY).await?;
            client.response("POST").await
        };
        let answer = exchange.await.map(|response| response.status);
        let answer = answer.map_err(|failure| format!("{failure:#}"));
        (answer, Instant::now())
    })
}

/// Follows the proxy's log to its end.
fn follow(world: &'static World, namespace: &'static str, pod: &str) -> JoinHandle<String> {
    let pod = pod.to_owned();
    tokio::spawn(async move {
        let logs = ["logs", "--follow", "--namespace", namespace, &pod];
        let all = ["--all-containers", "--prefix", "--tail=10"];
        let said = world.cluster.kubectl(&[&logs[..], &all].concat()).await;
        said.map(|said| said.stdout).unwrap_or_default()
    })
}

pub(crate) fn exit_code(pod: &Value, container: &str) -> Option<i64> {
    let of = |list: &str| pod["status"][list].as_array().cloned().unwrap_or_default();
    let all = of("containerStatuses").into_iter().chain(of("initContainerStatuses"));
    all.filter(|status| status["name"] == container)
        .find_map(|status| status["state"]["terminated"]["exitCode"].as_i64())
}

/// A task that runs beside others.
pub(crate) type Task<T> = Pin<Box<dyn Future<Output = Outcome<T>>>>;

/// A task that creates the lane's Deployment, then runs the lane.
pub(crate) fn task(world: &'static World, lane: Lane) -> Task<Seen> {
    Box::pin(async move {
        lane.workload.create(world).await.with_context(|| lane.what.to_owned())?;
        lane.run(world).await
    })
}

/// Runs tasks side by side, and returns their results in the same order.
pub(crate) async fn side_by_side<T: 'static>(tasks: Vec<Task<T>>) -> Outcome<Vec<T>> {
    let begin = async || {
        let tasks: Vec<_> = tasks.into_iter().map(spawn_local).collect();
        let mut given = Vec::new();
        for task in tasks {
            given.push(task.await.context("a task")??);
        }
        Ok(given)
    };
    LocalSet::new().run_until(begin()).await
}
