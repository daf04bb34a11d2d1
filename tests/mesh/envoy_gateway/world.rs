//! The world that the cases share: the cluster, the controller, a registry with the module, an
//! upstream.

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::block_in_place;

use super::controller::{Controller, HOST, NAMESPACE};
use crate::cluster::{Cluster, Settings};
use crate::control_plane::world::registry_with_module;
use crate::isolation::{folder, run_tool};
use crate::objects::{Given, objects, render_all};
use crate::started::Started;
use kit::command::CommandOutput;
use kit::prelude::*;
use kit::registry::real::Registry;
use kit::user::User;

/// The namespace of the Gateways.
pub(crate) const EDGE: &str = "edge";
/// The address of the upstream. The API server refuses addresses of the loopback interface.
const APP: &str = "10.244.0.9";

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) controller: Controller,
    pub(crate) user: User,
    /// The module's address, as policies name it.
    pub(crate) module: String,
    _registry: Registry,
}

impl World {
    /// The world, which the first case starts. It ends with the process.
    pub(crate) async fn get() -> Outcome<&'static Self> {
        static WORLD: Started<World> = Started::new();
        WORLD.get(World::start).await
    }

    async fn start() -> Outcome<Self> {
        run_tool("ip", &["address", "add", &format!("{APP}/32"), "dev", "lo"])?;
        let hosts = folder("etc")?.join("hosts");
        std::fs::write(&hosts, format!("127.0.0.1 localhost {HOST}\n"))?;
        run_tool("mount", &["--bind", hosts.to_str().context("a path")?, "/etc/hosts"])?;
        let (registry, module, _) = registry_with_module(0)?;
        let cluster = Cluster::start(&Settings {
            api_server: vec!["--feature-gates=ImageVolume=true".into()],
            ..Settings::default()
        })
        .await?;
        let controller = Controller::start(&cluster).await?;
        cluster.namespace(EDGE).await?;
        cluster.apply_all(&[class()]).await?;
        Ok(Self { cluster, controller, user: User::new()?, module, _registry: registry })
    }

    pub(crate) fn laststream(&self, arguments: &[&str]) -> Outcome<CommandOutput> {
        block_in_place(|| self.user.run(arguments, ""))
    }

    /// Creates a Gateway, and routes all its requests to this upstream.
    pub(crate) async fn gateway(&self, name: &str, upstream: &Upstream) -> Outcome {
        let (app, grpc) = (forwarded(upstream.h1()).await?, forwarded(upstream.h2()).await?);
        let given: &[Given<'_>] = &[
            ("name", &name),
            ("port", &app.port()),
            ("grpc_port", &grpc.port()),
            ("address", &APP),
        ];
        let objects = objects(include_str!("objects/gateway.yaml"), given)?;
        self.cluster.apply_all(&objects).await
    }

    /// Renders a policy with the module for a Gateway, applies it as its files say, and returns the
    /// folder.
    pub(crate) async fn put(&self, gateway: &str, more: &str) -> Outcome<String> {
        let module = format!("module: {}\ndelivery: image_volume\n{more}", self.module);
        self.put_any(gateway, &module).await
    }

    /// The same for a policy of any delivery.
    pub(crate) async fn put_any(&self, gateway: &str, more: &str) -> Outcome<String> {
        let policy = format!(
            "name: {gateway}\nnamespace: {EDGE}\n\
             program_image: registry.example.com/laststream-program:1\n\
             placement: {{envoy_gateway: {{gateway: {gateway}}}}}\n{more}"
        );
        let folder = block_in_place(|| render_all(&self.user, gateway, &policy, &[]))?;
        self.laststream(&["lint", &folder])?.expect(0)?;
        self.cluster.apply_rendered(&folder, EDGE, gateway).await?;
        Ok(folder)
    }

    /// The controller's Deployment of a Gateway, once `is_so` accepts its pod.
    pub(crate) async fn deployment(
        &self,
        gateway: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Outcome<Value> {
        let label = format!("gateway.envoyproxy.io/owning-gateway-name={gateway}");
        wait_for(PATIENCE, "Envoy Gateway's Deployment", async || {
            let get = ["get", "deployments", "--namespace", NAMESPACE, "--output", "json"];
            let said = self.cluster.run(&[&get[..], &["--selector", &label]].concat()).await?;
            let list: Value = serde_json::from_str(&said)?;
            let deployment = list["items"][0].clone();
            ensure!(
                deployment.is_object() && is_so(&deployment["spec"]["template"]["spec"]),
                "{deployment:#}"
            );
            Ok(deployment)
        })
        .await
        .with_context(|| self.controller.log())
    }
}

fn class() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": { "name": "envoy" },
        "spec": { "controllerName": "gateway.envoyproxy.io/gatewayclass-controller" },
    })
}

/// Forwards connections from [`APP`] to the upstream, and returns the listening address.
async fn forwarded(upstream: SocketAddr) -> Outcome<SocketAddr> {
    let listener = TcpListener::bind((APP, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            tokio::spawn(async move {
                if let Ok(mut to) = TcpStream::connect(upstream).await {
                    copy_bidirectional(&mut from, &mut to).await.ok();
                }
            });
        }
    });
    Ok(address)
}
