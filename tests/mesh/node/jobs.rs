//! N4: Jobs with a sidecar. Their command calls through it, then ends with a code.

use super::image::{APP, HOOK, IMAGE};
use super::inside;
use super::lane::{Task, exit_code, side_by_side};
use super::machine::NAME;
use super::workload::{OUTBOUND, Proxy, kustomize, sidecars};
use super::world::World;
use crate::cluster::holds;
use crate::seen::row;
use kit::prelude::*;

const NAMESPACE: &str = "jobs";
/// The service that the Jobs call.
const CALLED: &str = "backend.default";
const WORK: &str = "/takes/3000";
/// How long the Job that never completes is watched.
const WATCHED: Duration = Duration::from_secs(10);

struct Job {
    what: &'static str,
    name: &'static str,
    proxy: Proxy,
    code: i64,
}

const JOBS: [Job; 4] = [
    job("a classic sidecar, `laststream exec`, exit code 0", "classic-0", Proxy::Classic, 0),
    job("a classic sidecar, `laststream exec`, exit code 7", "classic-7", Proxy::Classic, 7),
    job("a native sidecar, `laststream exec`, exit code 0", "native-0", Proxy::Native, 0),
    job("a native sidecar, `laststream exec`, exit code 7", "native-7", Proxy::Native, 7),
];

const fn job(what: &'static str, name: &'static str, proxy: Proxy, code: i64) -> Job {
    Job { what, name, proxy, code }
}

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::shared().await?;
    world.cluster.injected_namespace(NAMESPACE).await?;
    world.cluster.apply_all(&[sidecars(NAMESPACE)]).await?;
    let mut tasks: Vec<Task<()>> = vec![Box::pin(without(world))];
    for job in &JOBS {
        tasks.push(Box::pin(job.run(world)));
    }
    side_by_side(tasks).await.map(drop)
}

impl Job {
    fn command(&self) -> Value {
        let address = format!("127.0.0.1:{OUTBOUND}");
        json!([APP, inside::ROLE, "call", address, CALLED, WORK, self.code.to_string()])
    }

    fn object(&self) -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": { "name": self.name, "namespace": NAMESPACE },
            "spec": { "backoffLimit": 0, "template": {
                "metadata": {
                    "labels": { "app": self.name },
                    "annotations": {
                        "sidecar.istio.io/nativeSidecar": (self.proxy == Proxy::Native).to_string(),
                    },
                },
                "spec": {
                    "nodeName": NAME, "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "work", "image": IMAGE, "imagePullPolicy": "Never",
                            "command": self.command(),
                        },
                    ],
                },
            } },
        })
    }

    async fn run(&self, world: &World) -> Outcome {
        let policy = json!({
            "name": self.name, "namespace": NAMESPACE,
            "placement": {
                "sidecar": {
                    "selector": { "app": self.name }, "directions": ["outbound"],
                    "native": self.proxy == Proxy::Native,
                },
            },
            "job": {
                "name": self.name, "container": "work", "command": self.command(),
                "program_image": IMAGE, "program": HOOK,
            },
        });
        world.cluster.apply(&world.render(&["envoyfilter"], &policy)?).await?;
        let job = kustomize(world, self.name, &self.object(), &[world.render(&["job"], &policy)?])
            .await?;
        world.cluster.apply_all(&[job]).await?;
        let ended = async || {
            let job = world.jobs.get(NAMESPACE, self.name).context("no Job")?;
            condition(&job).context("it has not ended")
        };
        let ended = wait_for(PATIENCE, self.what, ended).await;
        let log = self.log(world).await;
        let ended = ended.with_context(|| log.clone())?;
        // The watch of pods may be behind that of Jobs.
        let code = async || {
            let pod = self.pod(world)?;
            Ok((exit_code(&pod, "work").context("no exit code")?, pod))
        };
        let (code, pod) = wait_for(PATIENCE, "its exit code", code).await?;
        let proxy =
            exit_code(&pod, "istio-proxy").map_or("nothing".into(), |code| code.to_string());
        row(
            "N4",
            self.what,
            format!("the Job is {ended}; its command ended with {code}, the proxy with {proxy}"),
        );
        ensure_eq!(code, self.code, "the command's exit code; {log}");
        let wanted = if self.code == 0 { "Complete" } else { "Failed" };
        ensure_eq!(ended, wanted, "what became of the Job; {log}");
        Ok(())
    }

    fn pod(&self, world: &World) -> Outcome<Value> {
        let ours =
            |pod: &Value| (pod["metadata"]["labels"]["app"] == self.name).then(|| pod.clone());
        world.pods.find(NAMESPACE, ours).into_iter().next().context("no pod")
    }

    async fn log(&self, world: &World) -> String {
        let selector = format!("--selector=app={}", self.name);
        let logs = ["logs", "--namespace", NAMESPACE, &selector];
        let all = ["--all-containers", "--prefix", "--tail=20"];
        world.cluster.run(&[&logs[..], &all].concat()).await.unwrap_or_default()
    }
}

/// The condition of a Job that has ended.
fn condition(job: &Value) -> Option<&'static str> {
    ["Complete", "Failed"].into_iter().find(|name| holds(job, name))
}

/// A Job with a classic sidecar and without laststream: it does not end.
async fn without(world: &World) -> Outcome {
    let job = job("a classic sidecar, nothing", "without", Proxy::Classic, 0);
    let mut object = job.object();
    // The annotation makes the command wait for the proxy, as many Jobs do.
    object["spec"]["template"]["metadata"]["annotations"]["proxy.istio.io/config"] =
        json!("holdApplicationUntilProxyStarts: true");
    world.cluster.apply_all(&[object]).await?;
    let done = async || {
        let code = exit_code(&job.pod(world)?, "work").context("the command has not ended")?;
        ensure_eq!(code, 0, "its exit code; {}", job.log(world).await);
        Ok(())
    };
    wait_for(PATIENCE, "the command to end", done).await?;
    tokio::time::sleep(WATCHED).await;
    let ended = world.jobs.get(NAMESPACE, "without").and_then(|job| condition(&job));
    row(
        "N4",
        job.what,
        format!(
            "{} s after its command had ended the Job was {}",
            WATCHED.as_secs(),
            ended.unwrap_or("still running")
        ),
    );
    ensure!(ended.is_none(), "the Job ended, although its sidecar was not ended");
    let delete = ["delete", "job", "--namespace", NAMESPACE, "without", "--wait=false"];
    world.cluster.run(&delete).await.map(drop)
}
