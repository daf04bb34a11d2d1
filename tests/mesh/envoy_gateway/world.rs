//! The world that the cases share: the cluster, the controller, a registry with the module, an
//! upstream.

use tokio::task::block_in_place;

use super::controller::{Controller, EDGE, HOST};
use super::gateway;
use crate::cluster::{Cluster, Settings};
use crate::control_plane::world::registry_with_module;
use crate::isolation::{folder, run_tool};
use crate::objects::render_all;
use crate::started::Started;
use kit::command::CommandOutput;
use kit::prelude::*;
use kit::registry::real::Registry;
use kit::user::User;

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
        Ok(Self { cluster, controller, user: User::new()?, module, _registry: registry })
    }

    pub(crate) fn laststream(&self, arguments: &[&str]) -> Outcome<CommandOutput> {
        block_in_place(|| self.user.run(arguments, ""))
    }

    /// Creates a Gateway, and routes all its requests to this upstream.
    pub(crate) async fn gateway(&self, name: &str, upstream: &Upstream) -> Outcome {
        gateway::create(&self.cluster, name, 80, APP, upstream).await
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
        gateway::deployment(&self.cluster, &self.controller, gateway, is_so).await
    }
}
