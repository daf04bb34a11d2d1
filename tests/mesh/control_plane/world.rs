//! The world that all cases of this level share: the cluster, istiod, a registry with the module in
//! it.

use tokio::task::block_in_place;

use crate::cluster::{self, Cluster};
use crate::istio::Istio;
use crate::started::Started;
use kit::prelude::*;
use kit::registry::real::{Registry, Settings};
use kit::user::User;

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) istio: Istio,
    pub(crate) registry: Registry,
    /// The module's address, with a tag.
    pub(crate) module: String,
    /// The digest of the tag's manifest: `sha256:…`.
    pub(crate) digest: String,
}

impl World {
    /// The world, which the first case starts. It ends with the process.
    pub(crate) async fn get() -> Outcome<&'static Self> {
        static WORLD: Started<World> = Started::new();
        WORLD.get(World::start).await
    }

    async fn start() -> Outcome<Self> {
        say("starting a registry, the API server and istiod; takes about ten seconds");
        let (registry, module, digest) = registry_with_module(0)?;
        let cluster = Cluster::start(&cluster::Settings::default()).await?;
        let istio = Istio::start(&cluster, "127.0.0.1", &json!({})).await?;
        Ok(Self { cluster, istio, registry, module, digest })
    }
}

/// Starts a registry, pushes the module to it, and returns the module's address and the digest of
/// its manifest. A port of 0 is any free port.
pub(crate) fn registry_with_module(port: u16) -> Outcome<(Registry, String, String)> {
    let registry = Registry::start(&Settings { port, ..Settings::default() })?;
    let image = format!("{}/mesh/laststream:1", registry.name());
    let push = ["push", "-o", "json", &image];
    let said = block_in_place(|| User::new()?.run(&push, ""))?.expect(0)?;
    let result = said.json_lines()?.into_iter().next().context("push says nothing")?;
    let digest = result["digest"].as_str().with_context(|| format!("no digest in {result}"))?;
    Ok((registry, format!("oci://{image}"), digest.to_owned()))
}
