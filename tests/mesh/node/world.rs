//! The world that all cases of this level share: the cluster with its controllers, istiod, the
//! node, a registry with the module in it, and an app that is never stopped.

use std::time::Instant;

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::sleep;

use super::image::IMAGE;
use super::machine::{ADDRESS, Machine, NAME};
use super::watch::Watch;
use super::workload::{SIDECAR, Workload};
use crate::cluster::{Cluster, Settings, holds};
use crate::istio::{Istio, ROOT};
use crate::started::Started;
use kit::command::CommandOutput;
use kit::prelude::*;
use kit::registry::real::{self, Registry};
use kit::user::User;

/// The release of the Gateway API whose CRDs the cluster has.
const GATEWAY_API: &str = "gateway-api-1.6";

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) machine: Machine,
    pub(crate) pods: Watch,
    pub(crate) slices: Watch,
    pub(crate) jobs: Watch,
    /// The module's address as policies name it, `oci://…`.
    pub(crate) module: String,
    /// The address of the frame filter's module.
    pub(crate) frames: String,
    pub(crate) user: User,
    /// A read lock is held by cases that run side by side, and the write lock by a case that runs
    /// alone.
    turns: RwLock<()>,
    _istio: Istio,
    _registry: Registry,
}

/// A case that first sleeps for this time takes its turn after the others that run alone: fewer
/// pods are still ending then, and those that it leaves behind disturb none of them.
pub(super) const TURN: Duration = Duration::from_secs(1);

impl World {
    /// The world, which the first case starts. It ends with the process.
    async fn get() -> Outcome<&'static Self> {
        static WORLD: Started<World> = Started::new();
        WORLD.get(World::start).await
    }

    /// The world, and the turn of a case that runs beside others.
    pub(crate) async fn shared() -> Outcome<(&'static Self, RwLockReadGuard<'static, ()>)> {
        let world = Self::get().await?;
        Ok((world, world.turns.read().await))
    }

    /// The world, and the turn of a case that runs alone.
    pub(crate) async fn alone() -> Outcome<(&'static Self, RwLockWriteGuard<'static, ()>)> {
        let world = Self::get().await?;
        sleep(Duration::from_secs(1)).await; // cases that run side by side begin first
        Ok((world, world.turns.write().await))
    }

    async fn start() -> Outcome<Self> {
        let begun = Instant::now();
        Machine::network()?;
        let registry = Registry::start(&real::Settings {
            address: Some(ADDRESS),
            ..real::Settings::default()
        })?;
        let name = format!("{ADDRESS}:{}", registry.port());
        let (containerd, control) = tokio::join!(Machine::containers(), control_plane());
        let (cluster, istio) = control?;
        say(&format!(
            "node: control plane and containers after {:.1} s",
            begun.elapsed().as_secs_f64()
        ));
        let machine = Machine::start(&cluster, containerd?).await?;
        machine.pull_from(&name)?;
        cluster.apply_all(&[class_default()]).await?;
        let user = User::new()?;
        let image = format!("{name}/mesh/laststream:1");
        user.run(&["push", "--plain-http", &image], "")?.expect(0)?;
        let frames = format!("{name}/mesh/laststream-frames:1");
        let push = ["push", "--plain-http", "--module", "builtin-frames", &frames];
        user.run(&push, "")?.expect(0)?;
        let [pods, slices, jobs] =
            ["pods", "endpointslices", "jobs"].map(|kind| Watch::start(&cluster, kind));
        let world = Self {
            cluster,
            machine,
            pods: pods?,
            slices: slices?,
            jobs: jobs?,
            module: format!("oci://{image}"),
            frames: format!("oci://{frames}"),
            user,
            turns: RwLock::default(),
            _istio: istio,
            _registry: registry,
        };
        world.node_ready().await?;
        world.backend().await?;
        say(&format!("node: ready after {:.1} s", begun.elapsed().as_secs_f64()));
        Ok(world)
    }

    /// The app that all cases may call: it answers before the first of them begins.
    async fn backend(&self) -> Outcome {
        let backend = Workload::app("default", "backend");
        backend.create(self).await?;
        let to = SocketAddr::new(backend.pod(self).await?.address, SIDECAR);
        let answers = async || once(to, &Request::get("/")).await?.expect(200).map(drop);
        wait_for(PATIENCE, "the app to answer", answers).await
    }

    async fn node_ready(&self) -> Outcome {
        let ready = async || {
            let node = self.cluster.get("default", &format!("node/{NAME}")).await?;
            holds(&node, "Ready").then_some(()).context("not ready")
        };
        wait_for(PATIENCE, "the node to be ready", ready).await
    }

    /// The output of `laststream render` for a policy, which gets the world's module unless it
    /// names one.
    pub(crate) fn render(&self, arguments: &[&str], policy: &Value) -> Outcome<String> {
        self.render_with(arguments, policy, policy["module"].as_str().unwrap_or(&self.module))
    }

    pub(crate) fn render_with(
        &self,
        arguments: &[&str],
        policy: &Value,
        module: &str,
    ) -> Outcome<String> {
        let mut policy = policy.clone();
        policy["module"] = json!(module);
        let name = format!("policy-{}.yaml", fastrand::u64(..));
        let file = self.user.argument(&name, policy.to_string())?; // JSON is YAML
        let arguments = [&["render"], arguments, &["--plain-http", "--policy", &file]].concat();
        Ok(self.user.run(&arguments, "")?.expect(0)?.stdout)
    }

    /// Runs a command in the proxy's container of a pod.
    pub(crate) async fn exec(
        &self,
        namespace: &str,
        pod: &str,
        command: &[&str],
    ) -> Outcome<CommandOutput> {
        let container = ["exec", "--namespace", namespace, pod, "--container=istio-proxy", "--"];
        self.cluster.kubectl(&[&container[..], command].concat()).await
    }

    /// Begins to replace the pods of a Deployment.
    pub(crate) async fn restart(&self, namespace: &str, deployment: &str) -> Outcome {
        let restart = ["rollout", "restart", "--namespace", namespace, "deployment", deployment];
        self.cluster.run(&restart).await.map(drop)
    }

    /// Waits until a Deployment has only new pods.
    pub(crate) async fn rolled(&self, namespace: &str, deployment: &str) -> Outcome {
        let status = ["rollout", "status", "--namespace", namespace, "deployment", deployment];
        self.cluster.run_patiently(&status).await
    }
}

async fn control_plane() -> Outcome<(Cluster, Istio)> {
    let flags = [
        "--kubelet-preferred-address-types=InternalIP",
        "--feature-gates=ImageVolume=true,MutatingAdmissionPolicy=true",
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
    ];
    let cluster = Cluster::start(&Settings {
        controllers: true,
        service_accounts: true,
        api_server: flags.map(String::from).to_vec(),
    })
    .await?;
    cluster.definitions(GATEWAY_API).await?;
    let istio = Istio::start(&cluster, ADDRESS, &values()).await?;
    Ok((cluster, istio))
}

/// The defaults for Istio's own Deployments name the node, because no scheduler runs.
fn class_default() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "node", "namespace": ROOT,
            "labels": { "gateway.istio.io/defaults-for-class": "istio" },
        },
        "data": { "deployment": format!("spec: {{template: {{spec: {{nodeName: {NAME}}}}}}}") },
    })
}

/// Helm values: proxies without iptables, the level's image, and a probe each second. Proxies find
/// istiod by its address, but its certificate has its name.
fn values() -> Value {
    json!({
        "global": {
            "imagePullPolicy": "Never", "caAddress": format!("{ADDRESS}:15012"),
            "proxy": {
                "image": IMAGE, "readinessPeriodSeconds": 1,
                "resources": {
                    "requests": { "cpu": "1m", "memory": "1Mi" },
                    "limits": { "cpu": "2", "memory": "1Gi" },
                },
            },
        },
        "meshConfig": {
            "defaultConfig": {
                "interceptionMode": "NONE", "concurrency": 1,
                "proxyMetadata": {
                    "ISTIOD_SAN": format!("istiod.{ROOT}.svc"),
                    "WASM_INSECURE_REGISTRIES": "*",
                },
            },
        },
    })
}
