//! G7: rolling restarts of a Gateway of Envoy Gateway under load. Its real controller makes the
//! Deployment, and kubelet runs the pods: with Envoy Gateway's own manager, and with laststream's
//! program in its place. Then two pods are deleted, one beside an idle connection and one in a
//! request.

use std::net::Ipv4Addr;
use std::time::Instant;

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use super::bare::{manager_mounts, manager_volumes};
use super::image::{ENVOY, IMAGE};
use super::lane;
use super::machine::{ADDRESS, NAME};
use super::rolling::{ROUNDS, Run, know_the_way, under_load};
use super::service::Service;
use super::workload::{self, GATEWAY, Pod, Workload};
use super::world::World;
use crate::envoy_gateway::controller::{CLASS, Controller, EDGE, NAMESPACE};
use crate::envoy_gateway::gateway::{self, deployment};
use crate::envoy_gateway::stops::LONG;
use crate::load::{HOST, WITH_GRPC};
use crate::objects::render_all;
use crate::seen::row;
use kit::prelude::*;

/// The name of the Gateway, of its Deployment and of its Service.
const ROLLING: &str = "g7";
/// How long a request lasts from the deletion of its pod on.
fn request() -> Duration {
    Duration::from_secs(if std::env::var_os(LONG).is_some() { 60 } else { 15 })
}

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::alone().await?;
    let controller = Controller::start(&world.cluster).await?;
    name_controller().await?;
    fit_the_node(world).await?;
    let upstream = Upstream::start().await?;
    gateway::create(&world.cluster, ROLLING, GATEWAY, ADDRESS, &upstream).await?;
    let has_manager = |pod: &Value| pod["containers"][1]["name"] == "shutdown-manager";
    deployment(&world.cluster, &controller, ROLLING, has_manager).await?;
    run(world, OWN).await?;
    let own = stop(world).await?;
    put_program(world).await?;
    let has_program = |pod: &Value| pod["initContainers"].is_array();
    deployment(&world.cluster, &controller, ROLLING, has_program).await?;
    let with = run(world, PROGRAM).await?;
    drop(own.ended(world, OWN).await?);
    let answer = stop(world).await?.ended(world, PROGRAM).await?;
    for namespace in [EDGE, NAMESPACE] {
        world.cluster.run(&["delete", "namespace", namespace, "--wait=false"]).await?;
    }
    ensure_eq!(with.lost, 0, "requests lost, the first of them:\n{}\n", with.first_lost);
    ensure_eq!(answer, Ok(200), "the answer to a request of {:?}", request());
    Ok(())
}

const OWN: &str = "Envoy Gateway's own manager";
const PROGRAM: &str = "laststream's program";

/// Two pods that were deleted.
struct Stop {
    pods: Vec<(Pod, Instant)>,
    request: JoinHandle<(Result<u16, String>, Instant)>,
    /// The connection to the first of them.
    _idle: Client,
}

/// Deletes two pods: one with an idle connection, and one with a request.
async fn stop(world: &World) -> Outcome<Stop> {
    let pods = pods().ready(world).await?;
    let [beside, busy] = pods.as_slice() else { bail!("{} pods", pods.len()) };
    let mut idle = Client::connect(beside.listener()).await?;
    idle.request(&Request::get("/").host(HOST)).await?.expect(200)?;
    let within = lane::begin(busy.listener(), HOST).await?;
    let mut deleted = Vec::new();
    for pod in &pods {
        deleted.push(workload::delete(world, NAMESPACE, &pod.name, &[]).await?);
    }
    let request = lane::end(within, request());
    Ok(Stop { pods: pods.into_iter().zip(deleted).collect(), request, _idle: idle })
}

impl Stop {
    /// The answer to the request, once both pods are gone.
    async fn ended(self, world: &World, what: &str) -> Outcome<Result<u16, String>> {
        let (answer, _) = self.request.await?;
        let mut gone = Vec::new();
        for (pod, deleted) in &self.pods {
            let (at, _) = world.pods.gone(NAMESPACE, &pod.name).await?;
            gone.push((at - *deleted).as_secs_f64());
        }
        let words = answer.as_ref().map_or_else(String::clone, u16::to_string);
        let seen = format!(
            "beside an idle connection it was gone after {:.1} s; with a request that its client \
             ends after {} s: {words}, gone after {:.1} s",
            gone[0],
            request().as_secs(),
            gone[1]
        );
        row("G7", format!("a pod is deleted: {what}"), seen);
        Ok(answer)
    }
}

fn pods() -> Workload<'static> {
    Workload { replicas: 2, ..Workload::gateway(NAMESPACE, ROLLING) }
}

/// Tells pods the controller's address until the case ends: their bootstrap has its host name,
/// which no EnvoyProxy may change.
async fn name_controller() -> Outcome {
    let socket = UdpSocket::bind((ADDRESS, 53)).await?;
    tokio::spawn(async move {
        let mut asked = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut asked).await {
            if let Some(answer) = answer(&asked[..length]) {
                socket.send_to(&answer, from).await.ok(); // who asks may have ended
            }
        }
    });
    Ok(())
}

/// A DNS answer: the node's address for a question of the type A, and none for others.
fn answer(asked: &[u8]) -> Option<Vec<u8>> {
    const HEAD: usize = 12;
    let name = asked.get(HEAD..)?.iter().position(|byte| *byte == 0)? + 1;
    let question = asked.get(HEAD..HEAD + name + 4)?;
    let is_a = question.ends_with(&[0, 1, 0, 1]);
    let mut answer = [&asked[..2], &[0x84, 0, 0, 1, 0, is_a.into(), 0, 0, 0, 0], question].concat();
    if is_a {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(ADDRESS.parse::<Ipv4Addr>().ok()?.octets());
    }
    Some(answer)
}

/// Lets the class of all Gateways name an EnvoyProxy for this level: the node, because no scheduler
/// runs, and the level's image.
async fn fit_the_node(world: &World) -> Outcome {
    let manager = json!({
        "name": "shutdown-manager", "image": IMAGE, "volumeMounts": manager_mounts(),
    });
    let pod = json!({
        "nodeName": NAME, "containers": [manager], "volumes": manager_volumes()?,
    });
    let strategy = json!({
        "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "100%", "maxUnavailable": 0 },
    });
    let envoy = json!({
        "name": ROLLING, "replicas": 2, "strategy": strategy,
        "pod": { "labels": { "app": ROLLING } },
        "container": { "image": ENVOY, "resources": { "requests": { "cpu": "10m" } } },
        "patch": { "value": { "spec": { "template": { "spec": pod } } } },
    });
    let made = json!({ "envoyDeployment": envoy, "envoyService": { "name": ROLLING } });
    let proxy = json!({
        "apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyProxy",
        "metadata": { "name": CLASS, "namespace": EDGE },
        "spec": { "provider": { "type": "Kubernetes", "kubernetes": made } },
    });
    world.cluster.apply_all(&[proxy]).await?;
    let parameters = json!({
        "group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": CLASS, "namespace": EDGE,
    });
    let patch = format!("--patch={}", json!({ "spec": { "parametersRef": parameters } }));
    let class = format!("gatewayclass/{CLASS}");
    world.cluster.patch(EDGE, &class, &["--type=merge", &patch]).await
}

/// Applies the files of `render all` as they say. The EnvoyProxy also keeps what its class has.
async fn put_program(world: &World) -> Outcome {
    let policy = json!({
        "name": ROLLING, "namespace": EDGE, "delivery": "program",
        "program_image": IMAGE, "placement": { "envoy_gateway": { "gateway": ROLLING } },
        "drain": { "longest_request": "70s" },
    });
    let folder = render_all(&world.user, ROLLING, &policy.to_string(), &[])?;
    world.cluster.run(&["apply", "--validate=strict", "--kustomize", &folder]).await?;
    let keep = ["--type=merge", r#"--patch={"spec": {"mergeType": "JSONMerge"}}"#];
    world.cluster.patch(EDGE, &format!("envoyproxy/{ROLLING}"), &keep).await?;
    world.cluster.name_overlay(&folder, EDGE, ROLLING).await
}

async fn run(world: &'static World, what: &str) -> Outcome<Run> {
    world.rolled(NAMESPACE, ROLLING).await?;
    know_the_way(&pods(), world).await?;
    let service = Service { world, namespace: NAMESPACE, name: ROLLING };
    let run = under_load(service, &[ROLLING], &WITH_GRPC).await?;
    row("G7", format!("{ROUNDS} rolling restarts of 2 pods under kubelet: {what}"), &run.seen);
    Ok(run)
}
